// The parts of the training example: what it reads from the launcher, its gradients, its ring.
// The ring's ranks are threads that meet on loopback.
#include "lib/examples/train/adam.h"
#include "lib/examples/train/model.h"
#include "lib/examples/train/ring.h"
#include "lib/examples/train/text.h"

#include <atomic>
#include <criterion/criterion.h>
#include <functional>
#include <thread>

using namespace train;

static bool same(const std::string& found, const char* wanted) {
    if (found != wanted) cr_log_error("found '%s', wanted '%s'", found.c_str(), wanted);
    return found == wanted;
}

Test(example, finds_the_first_host_of_slurms_short_form) {
    cr_assert(same(first_host("node1"), "node1"));
    cr_assert(same(first_host("node1,node2"), "node1"));
    cr_assert(same(first_host("node[3-7,12],login1"), "node3"));
    cr_assert(same(first_host("node[003,5]"), "node003"));
    cr_assert(same(first_host("rack[1-2]n[5,9]-ib"), "rack1n5-ib"));
    cr_assert(same(first_host("node[1-3"), ""));
    cr_assert(same(first_host(""), ""));
}

Test(example, reads_whole_numbers_only) {
    cr_assert(parse_number("12", 1, 12) == 12U);
    cr_assert(parse_number("18446744073709551615", 0, UINT64_MAX) == UINT64_MAX);
    for (const char* wrong : {"", "x", "-1", "+1", "12x", "13", "0", "18446744073709551616"})
        cr_assert(!parse_number(wrong, 1, 12), "'%s' was taken for a number", wrong);
    cr_assert(!parse_number(nullptr, 0, 1));
}

static void in_environment(std::initializer_list<std::pair<const char*, const char*>> values) {
    for (const auto& [name, value] : values) setenv(name, value, 1);
}

Test(example, meets_elsewhere_after_each_restart) {
    unsetenv("RANK");
    unsetenv("SLURM_RESTART_COUNT");
    in_environment({{"SLURM_STEP_NODELIST", "node[2-3]"},
                    {"SLURM_STEP_NUM_TASKS", "4"},
                    {"SLURM_PROCID", "3"},
                    {"SLURM_JOB_ID", "7"},
                    {"SLURM_STEP_ID", "0"}});
    const launch first = find_launch();
    cr_assert(same(first.host, "node2"));
    cr_assert(first.rank == 3 && first.world == 4);
    in_environment({{"SLURM_RESTART_COUNT", "1"}});
    cr_assert_neq(find_launch().token, first.token);
}

Test(example, divides_everything_exactly_once) {
    for (const size_t world : {1, 2, 3, 4, 7}) {
        size_t next = 0;
        for (size_t rank = 0; rank < world; rank++) {
            const part mine = part_of(1001, world, rank);
            cr_assert_eq(mine.offset, next);
            cr_assert(mine.count == 1001 / world || mine.count == 1001 / world + 1);
            next += mine.count;
        }
        cr_assert_eq(next, 1001U);
    }
}

static const std::string poem = "so much depends upon a red wheel barrow glazed with rain water";

// The gradient of each kind of weight against the slope that two evaluations of the loss show.
Test(example, has_the_gradient_of_its_loss) {
    constexpr size_t rows = 64;
    model network(rows, 5);
    const std::vector<size_t> positions = {6, 17, 40};
    network.learn(poem, positions, 1);
    const std::vector<float> gradients(network.gradients().begin(), network.gradients().end());
    size_t compared = 0;
    for (size_t i = 0; i < gradients.size(); i += 37) {
        if (std::abs(gradients[i]) < 1e-3F) continue;  // lost in the rounding of a float loss
        constexpr float nudge = 5e-3F;
        float& weight = network.weights()[i];
        const float before = weight;
        weight = before + nudge;
        const double above = network.learn(poem, positions, 1);
        weight = before - nudge;
        const double below = network.learn(poem, positions, 1);
        weight = before;
        const double slope = (above - below) / (2 * static_cast<double>(nudge));
        cr_assert(std::abs(slope - static_cast<double>(gradients[i])) < 2e-3 + 0.05 * std::abs(slope),
                  "weight %zu: gradient %g, slope %g", i, static_cast<double>(gradients[i]), slope);
        compared++;
    }
    cr_assert(compared > 50, "only %zu weights were compared", compared);
}

Test(example, learns) {
    model network(64, 5);
    adam optimizer(network.weights().size(), 0.01F);
    std::vector<size_t> positions;
    for (size_t i = model::orders; i < poem.size(); i++) positions.push_back(i);
    const double before = network.learn(poem, positions, 1);
    for (uint64_t step = 1; step <= 60; step++) {
        optimizer.update(network.weights(), network.gradients(), step);
        network.learn(poem, positions, 1);
    }
    cr_assert(network.learn(poem, positions, 1) < before / 4);
}

// A port that was free a moment ago.
static uint16_t free_port() { return ntohs(listen_on(0).own_address().sin_port); }

static launch rank_of(size_t rank, size_t world, uint16_t port) { return {rank, world, "127.0.0.1", port, 42}; }

static void on_each_rank(size_t world, uint16_t port, const std::function<void(ring&)>& work) {
    std::vector<std::thread> ranks;
    for (size_t rank = 0; rank < world; rank++)
        ranks.emplace_back([=] {
            ring peers(rank_of(rank, world, port));
            work(peers);
        });
    for (std::thread& each : ranks) each.join();
}

// Parts of unequal size, larger than what a socket holds, so that all ranks must send and receive
// at once.
Test(example, sums_and_shares_around_the_ring) {
    for (const size_t world : {1, 2, 3, 5}) {
        std::atomic<size_t> wrong = 0;
        on_each_rank(world, free_port(), [&](ring& peers) {
            std::vector<float> data(3'000'001);
            for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<float>(i % 1000 + peers.rank());
            peers.reduce_scatter(data);
            peers.all_gather(std::span(data));
            for (size_t i = 0; i < data.size(); i++)
                wrong += data[i] != static_cast<float>(world * (i % 1000) + world * (world - 1) / 2);
            const std::vector<size_t> ranks = peers.gather(peers.rank());
            for (size_t i = 0; i < world; i++) wrong += ranks[i] != i;
        });
        cr_assert_eq(wrong, 0U, "%zu ranks: %zu wrong numbers", world, wrong.load());
    }
}

// A rank of an earlier start talks to rank 0 first, another only connects; both are left standing.
Test(example, is_not_confused_by_what_an_earlier_start_left) {
    const uint16_t port = free_port();
    std::atomic<size_t> sum = 0;
    std::thread job(
        [&] { on_each_rank(1 + 1, port, [&](ring& peers) { sum += peers.gather(peers.rank() + 1).at(1); }); });
    sockaddr_in address{};
    cr_assert(resolve("127.0.0.1", port, address));
    struct {
        uint64_t token = 41;
        uint32_t rank = 1, port = 9;
    } stale;
    tcp_socket silent, talking;
    for (int i = 0; i < 1000 && !silent; i++) silent = connect_to(address, milliseconds(100));
    talking = connect_to(address, milliseconds(100));
    if (talking) cr_assert(talking.send_all(&stale, sizeof(stale)));
    job.join();
    cr_assert_eq(sum, 4U);
}

Test(example, reads_the_licences) {
    const std::string text = load_text("/usr/share/common-licenses");
    cr_assert_neq(text.find("GNU GENERAL PUBLIC LICENSE"), std::string::npos);
    cr_assert(text == load_text("/usr/share/common-licenses"));
}

// A peer that closes its connection ends the process, with exit code 1.
Test(example, ends_when_a_peer_does, .exit_code = 1, .timeout = 20) {
    const uint16_t port = free_port();
    const std::jthread peer([=] { ring(rank_of(1, 2, port)); });
    ring peers(rank_of(0, 2, port));
    peers.gather(0);
}
