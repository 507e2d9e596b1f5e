// Chunks put together from shards; the crew that does it.
#include "client/copier.h"

#include <criterion/criterion.h>
#include <cstring>
#include <random>
#include <vector>

using namespace varde::client;

Test(client_assemble, any_cut_of_the_range_has_the_bytes_of_its_shards) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 200; round++) {
        std::vector<std::vector<std::byte>> shards(random() % 12);
        std::vector<source> sources;
        std::vector<std::byte> range;
        for (auto& each : shards) {
            each.resize(random() % 3 == 0 ? 0 : random() % 700);
            for (auto& byte : each) byte = static_cast<std::byte>(random());
            sources.push_back({each.empty() ? nullptr : each.data(), range.size(), each.size()});
            range.insert(range.end(), each.begin(), each.end());
        }
        range.resize(range.size() + random() % 600);  // zeros after the last shard
        const uint64_t begin = range.empty() ? 0 : random() % range.size();
        const uint64_t size = range.empty() ? 0 : random() % (range.size() - begin + 1);
        std::vector<std::byte> target(size, std::byte{0xee});
        assemble(sources, begin, target);
        cr_assert(std::memcmp(target.data(), range.data() + begin, size) == 0, "round %d", round);
    }
}

Test(client_crew, does_each_task_once_and_begins_them_in_order) {
    crew hands;
    cr_assert(hands.hire(4).has_value());
    struct record {
        std::atomic<uint64_t> begun{0};
        std::atomic<int> times[1000]{};
        std::atomic<bool> early{false};
    } seen;
    for (int round = 0; round < 20; round++) {
        seen.begun = 0;
        hands.begin(
            1000,
            [](void* context, uint64_t index) {
                auto& at = *static_cast<record*>(context);
                at.times[index]++;
                // Four threads: a task can be begun while at most three before it have not been counted.
                if (at.begun++ + 4 < index) at.early = true;
            },
            &seen);
        hands.wait();
    }
    for (auto& times : seen.times) cr_assert(times == 20);
    cr_assert(!seen.early);
}

Test(client_crew, nothing_to_do_is_done) {
    crew hands;
    cr_assert(hands.hire(2).has_value());
    hands.begin(0, nullptr, nullptr);
    hands.wait();
}

Test(client_crew, has_a_sensible_size) {
    cr_assert(crew::sensible_size(0) >= 1 && crew::sensible_size(0) <= 4);
    cr_assert(crew::sensible_size(7) == 7 && crew::sensible_size(7, true) == 7);
    cr_assert(crew::sensible_size(0, true) == 4);
    cr_assert(crew::sensible_size(1000) == crew::threads_max);
}
