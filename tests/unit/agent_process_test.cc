// The real agent as a process: starts, kills, hostile frames.
#include "agent_process_support.h"

using namespace agent_test;

namespace {

// The ranks of one node, up to "restored".
std::deque<fake_rank> start(const agent_process& agent, uint32_t count, const std::string& launch,
                            uint64_t expected_step) {
    std::deque<fake_rank> ranks;
    for (uint32_t i = 0; i < count; i++) ranks.emplace_back(agent, i, count, launch).hello();
    for (auto& rank : ranks) rank.ask_restore();
    std::deque<std::thread> threads;
    for (auto& rank : ranks)
        threads.emplace_back([&rank, expected_step] { cr_assert_eq(rank.restored(expected_step), expected_step); });
    for (auto& one : threads) one.join();
    if (expected_step != 0)
        for (auto& rank : ranks) cr_assert(rank.got_bytes >= 300'000);
    return ranks;
}

void wait_complete(fake_rank& rank, uint64_t step) {
    agent_process::wait_for([&] { return rank.node()->complete_step.load() == step; }, "the complete generation");
}

bool is_complete(const agent_process& agent, uint64_t step) {
    auto run = store::run_directory::open(agent.run_path(), "run", false);
    if (!run) return false;
    const auto all = run->list();
    return all && std::any_of(all->begin(), all->end(), [&](const auto& one) {
               return one.id.step == step && one.status == store::generation_status::complete;
           });
}

}  // namespace

Test(agent_process, a_start_saves_and_the_next_one_in_the_same_agent_gets_it_back) {
    agent_process agent{agent_process::by_prolog{}};
    {
        auto ranks = start(agent, 2, "test.1", 0);
        for (auto& rank : ranks) rank.save(100);
        wait_complete(ranks[0], 100);
        for (auto& rank : ranks) rank.save(200);
        wait_complete(ranks[0], 200);
        for (auto& rank : ranks) rank.close();
    }
    auto ranks = start(agent, 2, "test.2", 200);
    cr_assert_eq(ranks[0].node()->fenced.load(), 0, "the last word of the first start's pulse is not about this one");
    for (auto& rank : ranks) rank.save(210);
    wait_complete(ranks[0], 210);
    for (auto& rank : ranks) rank.bye();
    agent.end();
}

Test(agent_process, an_embedded_agent_ends_with_its_last_rank) {
    const agent_process agent;
    auto ranks = start(agent, 2, "test.1", 0);
    cr_assert(agent.alive());
    for (auto& rank : ranks) rank.bye();
    agent_process::wait_for([&] { return !agent.alive(); }, "the end of the embedded agent");
}

Test(agent_process, a_start_on_the_same_node_is_restored_from_memory) {
    const agent_process agent{agent_process::by_prolog{}};
    for (const uint64_t step : {uint64_t{100}, uint64_t{200}}) {
        auto ranks = start(agent, 2, "test." + std::to_string(step), step == 100 ? 0 : step - 100);
        for (auto& rank : ranks) rank.save(step);
        wait_complete(ranks[0], step);
        for (auto& rank : ranks) rank.close();
    }
    // All of the pack's data is broken on storage: who gets the right bytes has them from memory.
    const std::string path = agent.run_path() + "/run/step-000000000200.r2/node-00000-of-00001.safetensors";
    {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(0, std::ios::end);
        const auto size = static_cast<int64_t>(file.tellg());
        for (int64_t at = 8192; at + 8192 < size; at += 4096) {
            file.seekp(at);
            file.put('x');
        }
    }
    auto ranks = start(agent, 2, "test.3", 200);
    for (auto& rank : ranks) rank.bye();
}

// Its memory has nothing of what the start has restored.
Test(agent_process, a_rank_that_begins_anew_within_a_start_is_refused) {
    const agent_process agent{agent_process::by_prolog{}};
    {
        auto ranks = start(agent, 2, "test.1", 0);
        for (auto& rank : ranks) rank.save(100);
        wait_complete(ranks[0], 100);
        for (auto& rank : ranks) rank.close();
    }
    auto ranks = start(agent, 2, "test.2", 100);
    ranks[1].close();
    fake_rank anew(agent, 1, 2, "test.2");
    anew.hello();
    anew.ask_restore();
    const auto frame = anew.receive();
    cr_assert(frame.type == message::refused, "type %d", static_cast<int>(frame.type));
    const auto refusal = need(arena::decode<arena::refused>(frame.payload));
    cr_assert(refusal.text.find("has restored already") != std::string::npos, "%s", refusal.text.c_str());
}

Test(agent_process, a_start_that_has_ended_may_come_again_under_its_name) {
    const agent_process agent{agent_process::by_prolog{}};
    for (const uint64_t step : {uint64_t{100}, uint64_t{200}, uint64_t{300}}) {
        auto ranks = start(agent, 2, "test.1", step - 100);
        for (auto& rank : ranks) rank.save(step);
        wait_complete(ranks[0], step);
        for (auto& rank : ranks) {
            if (step == 200) rank.close();
            else rank.bye();
        }
    }
}

Test(agent_process, ranks_that_are_gone_right_after_staging_have_their_generation) {
    const agent_process agent;
    auto ranks = start(agent, 3, "test.1", 0);
    for (auto& rank : ranks) rank.save(100);
    for (auto& rank : ranks) rank.close();
    agent_process::wait_for([&] { return is_complete(agent, 100); }, "the generation");
}

Test(agent_process, a_rank_that_is_gone_before_staging_costs_its_generation_only) {
    const agent_process agent{agent_process::by_prolog{}};
    {
        auto ranks = start(agent, 2, "test.1", 0);
        for (auto& rank : ranks) rank.save(100);
        wait_complete(ranks[0], 100);
        for (auto& rank : ranks) rank.announce(200);
        ranks[0].stage(200, ranks[0].count());
        ranks[1].stage(200, 1);
        ranks[1].close();
        agent_process::wait_for([&] { return ranks[0].node()->failed_step.load() == 200; }, "the failed generation");
    }
    cr_assert(!is_complete(agent, 200));
    auto ranks = start(agent, 2, "test.2", 100);
    for (auto& rank : ranks) rank.save(150);
    wait_complete(ranks[0], 150);
}

Test(agent_process, a_worker_that_is_killed_is_replaced_and_what_is_staged_is_written) {
    const agent_process agent;
    auto ranks = start(agent, 2, "test.1", 0);
    for (auto& rank : ranks) rank.save(100);
    wait_complete(ranks[0], 100);
    for (auto& rank : ranks) rank.announce(200);
    for (auto& rank : ranks) rank.stage(200, rank.count() / 2);  // so that the drain is under way
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const pid_t first = agent.worker();
    cr_assert_eq(::kill(first, SIGKILL), 0);
    for (auto& rank : ranks) rank.stage(200, rank.count());
    agent_process::wait_for(
        [&] {
            const pid_t now = agent.worker();
            return now != 0 && now != first;
        },
        "the next worker");
    wait_complete(ranks[0], 200);
    cr_assert(is_complete(agent, 200));
    for (auto& rank : ranks) rank.hello(true);
    for (auto& rank : ranks) rank.save(300);
    wait_complete(ranks[0], 300);
}

Test(agent_process, no_frame_can_end_the_worker) {
    const agent_process agent;
    auto ranks = start(agent, 1, "test.1", 0);
    const pid_t worker = agent.worker();
    std::mt19937_64 random(11);
    const std::string hello_bytes = arena::frame_of([&] {
        arena::hello h;
        h.world = h.local_count = 3;
        h.node_count = 1;
        h.launch = "test.1";
        h.directory = agent.run_path();
        h.name = "run";
        return h;
    }());
    for (int round = 0; round < 600; round++) {
        const unique_fd socket = agent.connect();
        std::string bytes;
        for (int i = 0; i < 8; i++) {
            std::string frame;
            switch (random() % 4) {
            case 0: frame = hello_bytes; break;
            case 1:
                frame = arena::frame_bytes(static_cast<message>(random() % 40),
                                           std::string(random() % 80, static_cast<char>(random())));
                break;
            case 2:
                frame = arena::frame_of(arena::save{random() % 1000, random() % 2, random() % 9, random() % 9});
                break;
            default:
                for (uint64_t n = random() % 60; n > 0; n--) frame += static_cast<char>(random());
            }
            if (!frame.empty() && random() % 3 == 0)
                frame[random() % frame.size()] ^= static_cast<char>(1 << random() % 8);
            bytes += frame;
        }
        discard(arena::send_all(socket.get(), bytes, {}, 200), "it may have closed already");
    }
    ranks[0].save(100);
    wait_complete(ranks[0], 100);
    cr_assert_eq(agent.worker(), worker, "it was restarted");
}

// Two hellos on one connection, as two ranks: when it closes, neither may be left with it.
Test(agent_process, one_connection_is_one_rank) {
    const agent_process agent;
    arena::hello facts;
    facts.world = facts.local_count = 2;
    facts.node_count = 1;
    facts.launch = "test.1";
    facts.directory = agent.run_path();
    facts.name = "run";
    const pid_t worker = agent.worker();
    for (int i = 0; i < 3; i++) {
        const unique_fd socket = agent.connect();
        std::string bytes = arena::frame_of(facts);
        facts.rank = facts.local_rank = 1;
        bytes += arena::frame_of(facts);
        facts.rank = facts.local_rank = 0;
        need(arena::send_all(socket.get(), bytes, {}, 1000));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    auto ranks = start(agent, 2, "test.2", 0);
    cr_assert_eq(agent.worker(), worker, "it was restarted");
}

Test(agent_process, ranks_that_die_while_the_run_is_opened_do_not_harm_the_next_start) {
    const agent_process agent{agent_process::by_prolog{}};
    for (int i = 0; i < 20; i++) {
        fake_rank one(agent, 0, 1, "test." + std::to_string(i));
        one.hello();
        one.ask_restore();
        one.close();
    }
    const pid_t worker = agent.worker();
    cr_assert_neq(worker, 0);
    auto ranks = start(agent, 1, "test.last", 0);
    cr_assert_eq(agent.worker(), worker);
    ranks[0].save(5);
    wait_complete(ranks[0], 5);
}

Test(agent_process, another_user_is_refused) {
    if (::geteuid() != 0) cr_skip_test("needs root");
    const agent_process agent;
    for (std::string path = agent.socket_path(); path.size() > 1;
         path = std::filesystem::path(path).parent_path().string()) {
        if (path.find("varde-test") != std::string::npos) ::chmod(path.c_str(), 0777);
    }
    const int status = store_test::in_child([&] {
        if (::setuid(65534) != 0) return 77;
        const unique_fd socket = agent.connect();
        arena::hello facts;
        facts.world = facts.local_count = facts.node_count = 1;
        facts.launch = "stranger";
        facts.directory = "/tmp";
        facts.name = "run";
        discard(arena::send_all(socket.get(), arena::frame_of(facts), {}, 1000), "it may have closed already");
        char byte = 0;
        return ::recv(socket.get(), &byte, 1, 0) <= 0 ? 0 : 1;
    });
    cr_assert_eq(status, 0);
}

Test(agent_process, an_arena_that_cannot_be_reserved_refuses_its_ranks) {
    const agent_process agent([] {
        if (!varde::test::forbid(SYS_madvise, ENOMEM)) ::_exit(77);
    });
    fake_rank rank(agent, 0, 1, "test.1");
    rank.hello();
    rank.ask_restore();
    auto frame = rank.receive(10'000);
    while (frame.type == message::restore_chunk) frame = rank.receive(10'000);  // signs of life
    cr_assert(frame.type == message::refused);
    const auto refusal = need(arena::decode<arena::refused>(frame.payload));
    cr_assert(refusal.text.find("could not be reserved on this node; lower --ckpt-memory") != std::string::npos, "%s",
              refusal.text.c_str());
}
