// The slot's page: what goes in comes out, and no changed byte gets through.
#include "store_support.h"

using namespace store_test;

namespace {

slot full_slot() {
    slot one;
    one.node_index = 3;
    one.node_count = 192;
    one.incarnation = 7;
    one.launch = "slurm 7.1.0";
    one.host = "node3";
    one.job_id = 42;
    one.job_restarts = 2;
    one.sequence = 99;
    one.wall_ns = 1'700'000'000'000'000'000;
    one.now = phase::training;
    one.step_min = 1200;
    one.step_max = 1201;
    for (size_t i = 0; i < generations_in_slot; ++i)
        one.generations[i] = {
            1200 + i, static_cast<outcome>(i + 1), static_cast<uint32_t>(i), 10 + i, 20 + i, UINT64_MAX - i, 30 + i};
    one.step_wall_ns = 1'699'999'999'000'000'000;
    one.cut_off_ns = 6;
    one.rank_gone_wall_ns = 7;
    one.stage_ns = 5;
    one.drain_busy = 1;
    one.proposed_step = 1400;
    one.complete_step = 1000;
    one.choice_attempt = 2;
    one.choice = choice_kind::generation;
    one.choice_step = 800;
    one.choice_incarnation = 6;
    one.confirmed_attempt = 1;
    one.verdict_attempt = 2;
    one.loaded = verdict::damaged;
    one.reason = "chunk 7 of rank 12 has a wrong checksum";
    return one;
}

using page = std::array<std::byte, slot_bytes>;

}  // namespace

Test(slot, comes_back_as_it_went_in) {
    page bytes{};
    encode_slot(full_slot(), bytes);
    cr_assert(need(decode_slot(bytes)) == full_slot());
}

Test(slot, what_is_said_of_a_hang_comes_back) {
    slot one = full_slot();
    one.hang_asked = 3;
    one.hang_answered = 2;
    one.suspicion = 5;
    one.suspect_rank = 77;
    one.quiet = lull::traced;
    page bytes{};
    encode_slot(one, bytes);
    cr_assert(need(decode_slot(bytes)) == one);
}

Test(slot, empty_one_comes_back) {
    slot one;
    one.node_count = 1;
    page bytes{};
    encode_slot(one, bytes);
    cr_assert(need(decode_slot(bytes)) == one);
}

Test(slot, any_flipped_bit_is_noticed) {
    page bytes{};
    encode_slot(full_slot(), bytes);
    for (size_t bit = 0; bit < slot_bytes * 8; ++bit) {
        const std::byte mask{static_cast<uint8_t>(1U << bit % 8)};
        bytes[bit / 8] ^= mask;
        cr_assert(!decode_slot(bytes).has_value(), "bit %zu", bit);
        bytes[bit / 8] ^= mask;
    }
}

Test(slot, halves_of_two_writes_are_noticed) {
    page first{}, second{};
    slot one = full_slot();
    encode_slot(one, first);
    one.sequence++;
    encode_slot(one, second);
    std::copy(second.begin(), second.begin() + slot_bytes / 2, first.begin());
    refused(decode_slot(first), code::damaged, "checksum");
}

Test(slot, long_texts_are_cut_between_characters) {
    slot one = full_slot();
    one.host = std::string(62, 'x') + "é";  // two bytes: 64 in all, one too many
    one.reason = std::string(600, 'r');
    one.launch = std::string("a\0b", 3);
    page bytes{};
    encode_slot(one, bytes);
    const slot read = need(decode_slot(bytes));
    cr_assert(read.host == std::string(62, 'x'));
    cr_assert(read.reason == std::string(511, 'r'));
    cr_assert(read.launch == "a");
}

Test(slot, layout_on_disk_stays) {
    // Nodes of one run may run different builds for a while (an upgrade between two restarts): these bytes are a
    // promise.
    page bytes{};
    encode_slot(full_slot(), bytes);
    const auto number_at = [&](size_t offset) {
        uint64_t number = 0;
        std::memcpy(&number, &bytes[offset], sizeof number);
        return number;
    };
    cr_assert_eq(std::memcmp(bytes.data(), "VARDESLT\x01\0\0\0\x03\0\0\0\xc0\0\0\0\x04\0\0\0", 24), 0);
    cr_assert_eq(number_at(24), 7);
    cr_assert_eq(number_at(32), 99);
    cr_assert_eq(number_at(40), 42);
    cr_assert_eq(number_at(80), 1400);
    cr_assert_eq(number_at(112), 800);
    cr_assert_eq(number_at(136), 2);
    cr_assert_eq(number_at(144 + 40), 1201);
    cr_assert_eq(std::memcmp(&bytes[304], "slurm 7.1.0", 12), 0);
    cr_assert_eq(std::memcmp(&bytes[432], "node3", 6), 0);
    cr_assert_eq(std::memcmp(&bytes[496], "chunk 7", 7), 0);
    cr_assert_eq(number_at(1032), 30);
    cr_assert_eq(number_at(1064), 5);
    cr_assert_eq(number_at(1072), 1'699'999'999'000'000'000ULL);
    cr_assert_eq(number_at(1080), 6);
    cr_assert_eq(number_at(1088), 7);
    cr_assert_eq(number_at(1096), 2);
    cr_assert_eq(number_at(4088), 0x6931dd583c20e622ULL, "the checksum of these bytes is %#llx",
                 static_cast<unsigned long long>(number_at(4088)));
}
