// plan_restore(): every wanted byte once, from the right place; against a search element by element.
#include "base/clock.h"
#include "base/limits.h"
#include "pack/plan.h"

#include <algorithm>
#include <criterion/criterion.h>
#include <cstdio>
#include <random>

using namespace varde;
using namespace varde::pack;

namespace {

shard make(std::string name, dtype type, std::vector<uint64_t> shape, std::vector<uint64_t> global = {},
           std::vector<uint64_t> offset = {}) {
    return {.name = std::move(name),
            .type = type,
            .shape = std::move(shape),
            .global_shape = std::move(global),
            .offset = std::move(offset)};
}

range arranged(uint32_t rank, std::vector<shard> shards) {
    auto made = arrange(rank, std::move(shards));
    cr_assert(made.has_value(), "%s", made ? "" : made.error().context.c_str());
    return std::move(*made);
}

std::vector<piece> planned(const range& wanted, const std::vector<range>& saved) {
    auto made = plan_restore(wanted, saved);
    cr_assert(made.has_value(), "%s", made ? "" : made.error().context.c_str());
    return std::move(*made);
}

void expect_mismatch(const range& wanted, const std::vector<range>& saved, const char* words) {
    const auto made = plan_restore(wanted, saved);
    cr_assert(not made.has_value(), "planned, but should say '%s'", words);
    cr_expect(made.error().what == code::mismatch);
    cr_expect(made.error().context.find(words) != std::string::npos, "'%s' lacks '%s'", made.error().context.c_str(),
              words);
}

// Place of an element in the whole tensor, given its place in the shard.
uint64_t global_index(const shard& of, uint64_t element) {
    if (of.global_shape.empty()) return element;
    uint64_t index = 0;
    uint64_t scale = 1;
    for (size_t dim = of.shape.size(); dim-- > 0;) {
        index += (of.offset[dim] + element % of.shape[dim]) * scale;
        element /= of.shape[dim];
        scale *= of.global_shape[dim];
    }
    return index;
}

// A saved byte's value tells tensor, place in the whole and byte within the element, so a byte from a wrong place
// is wrong.
uint32_t meaning(const shard& of, uint64_t byte) {
    const uint64_t element_bytes = dtype_bits(of.type) / 8;
    return static_cast<uint32_t>(std::hash<std::string>()(of.name) * 1000003 +
                                 global_index(of, byte / element_bytes) * 8 + byte % element_bytes);
}

void expect_right_bytes(const range& wanted, const std::vector<range>& saved, const std::vector<piece>& pieces) {
    std::vector<std::vector<uint8_t>> times;
    for (const shard& each : wanted.shards) times.emplace_back(each.size_bytes, 0);
    for (size_t index = 0; index < pieces.size(); index++) {
        const piece& each = pieces[index];
        cr_assert(each.shard_index < wanted.shards.size() and each.source < saved.size() and each.size_bytes > 0);
        if (index > 0)
            cr_assert(std::pair(pieces[index - 1].source, pieces[index - 1].source_offset) <
                      std::pair(each.source, each.source_offset));
        const shard& to = wanted.shards[each.shard_index];
        cr_assert(each.shard_offset + each.size_bytes <= to.size_bytes);
        const auto& shards = saved[each.source].shards;
        for (uint64_t byte = 0; byte < each.size_bytes; byte++) {
            const uint64_t at = each.source_offset + byte;
            const auto from = std::find_if(shards.begin(), shards.end(), [&](const shard& s) {
                return at >= s.offset_bytes and at < s.offset_bytes + s.size_bytes;
            });
            cr_assert(from != shards.end());
            cr_assert(meaning(*from, at - from->offset_bytes) == meaning(to, each.shard_offset + byte));
            times[each.shard_index][each.shard_offset + byte]++;
        }
    }
    for (const auto& each : times)
        cr_assert(std::all_of(each.begin(), each.end(), [](uint8_t count) { return count == 1; }));
}

using generator = std::mt19937;
uint64_t below(generator& random, uint64_t most) { return random() % most; }

// Cuts the box [0, shape) at random planes into boxes that cover it.
std::vector<std::pair<std::vector<uint64_t>, std::vector<uint64_t>>> random_cover(generator& random,
                                                                                  const std::vector<uint64_t>& shape) {
    std::vector<std::pair<std::vector<uint64_t>, std::vector<uint64_t>>> boxes{
        {std::vector<uint64_t>(shape.size(), 0), shape}};
    for (uint64_t cuts = below(random, 6); cuts > 0 and not shape.empty(); cuts--) {
        const size_t index = below(random, boxes.size());
        const size_t dim = below(random, shape.size());
        if (boxes[index].second[dim] == 0) continue;
        auto other = boxes[index];
        const uint64_t at = below(random, boxes[index].second[dim] + 1);
        boxes[index].second[dim] = at;
        other.first[dim] += at;
        other.second[dim] -= at;
        boxes.push_back(other);
    }
    std::shuffle(boxes.begin(), boxes.end(), random);
    return boxes;
}

}  // namespace

Test(pack_plan, gives_one_piece_per_tensor_for_the_same_layout) {
    const range mine = arranged(1, {make("a", dtype::u8, {7}), make("b", dtype::f32, {3, 2}, {6, 2}, {3, 0}),
                                    make("c", dtype::f64, {}), make("d", dtype::u8, {0})});
    const range other = arranged(
        0, {make("a", dtype::u8, {7}), make("b", dtype::f32, {3, 2}, {6, 2}, {0, 0}), make("c", dtype::f64, {})});
    const auto pieces = planned(mine, {other, mine});
    cr_assert(pieces.size() == 3);
    for (size_t index = 0; index < 3; index++) {
        cr_expect(pieces[index].source == 1 and pieces[index].shard_index == index and pieces[index].shard_offset == 0);
        cr_expect(pieces[index].source_offset == mine.shards[index].offset_bytes and
                  pieces[index].size_bytes == mine.shards[index].size_bytes);
    }
}

Test(pack_plan, takes_the_own_ranks_copy_else_the_first) {
    const auto tensor = make("state", dtype::u8, {100});
    const std::vector<range> saved{arranged(4, {tensor}), arranged(2, {tensor}), arranged(9, {tensor})};
    const auto own = planned(arranged(2, {tensor}), saved);
    cr_expect(own.size() == 1 and own[0].source == 1);
    const auto first = planned(arranged(3, {tensor}), saved);
    cr_expect(first.size() == 1 and first[0].source == 0);
}

Test(pack_plan, ignores_other_ranks_tensors_of_another_shape_when_one_fits) {
    const std::vector<range> saved{arranged(0, {make("state", dtype::u8, {10})}),
                                   arranged(1, {make("state", dtype::u8, {20})})};
    const auto pieces = planned(arranged(1, {make("state", dtype::u8, {20})}), saved);
    cr_expect(pieces.size() == 1 and pieces[0].source == 1);
}

Test(pack_plan, joins_and_splits_rows) {
    const std::vector<range> saved{arranged(0, {make("w", dtype::f32, {3, 4}, {7, 4}, {0, 0})}),
                                   arranged(1, {make("w", dtype::f32, {4, 4}, {7, 4}, {3, 0})})};
    const range whole = arranged(0, {make("w", dtype::f32, {7, 4})});
    const auto pieces = planned(whole, saved);
    cr_assert(pieces.size() == 2);
    cr_expect(pieces[0].size_bytes == 48 and pieces[1].size_bytes == 64 and pieces[1].shard_offset == 48);
    const auto part = planned(arranged(5, {make("w", dtype::f32, {2, 4}, {7, 4}, {2, 0})}), saved);
    cr_assert(part.size() == 2);
    cr_expect(part[0].source == 0 and part[0].source_offset == 32 and part[0].size_bytes == 16 and
              part[0].shard_offset == 0);
    cr_expect(part[1].source == 1 and part[1].source_offset == 0 and part[1].size_bytes == 16 and
              part[1].shard_offset == 16);
}

Test(pack_plan, splits_columns_into_a_run_per_row) {
    const std::vector<range> saved{arranged(0, {make("w", dtype::bf16, {3, 8})})};
    const auto pieces = planned(arranged(0, {make("w", dtype::bf16, {3, 2}, {3, 8}, {0, 4})}), saved);
    cr_assert(pieces.size() == 3);
    for (uint64_t row = 0; row < 3; row++)
        cr_expect(pieces[row].source_offset == row * 16 + 8 and pieces[row].shard_offset == row * 4 and
                  pieces[row].size_bytes == 4);
}

Test(pack_plan, cuts_sub_byte_types_only_at_bytes) {
    const std::vector<range> saved{arranged(0, {make("w", dtype::f4, {3, 4})})};
    const range even = arranged(0, {make("w", dtype::f4, {3, 2}, {3, 4}, {0, 2})});
    const auto pieces = planned(even, saved);
    cr_assert(pieces.size() == 3);
    cr_expect(pieces[1].source_offset == 3 and pieces[1].shard_offset == 1 and pieces[1].size_bytes == 1);
    expect_mismatch(arranged(0, {make("w", dtype::f4, {3, 2}, {3, 4}, {0, 1})}), saved, "cut within a byte");
    expect_mismatch(arranged(0, {make("w", dtype::f4, {2, 1}, {3, 4}, {0, 2})}), saved, "cut within a byte");
    const std::vector<range> six{arranged(0, {make("w", dtype::f6_e3m2, {8})})};
    cr_expect(planned(arranged(0, {make("w", dtype::f6_e3m2, {4}, {8}, {4})}), six)[0].source_offset == 3);
    // Four elements of six bits fill three bytes, but only from an element that begins one.
    expect_mismatch(arranged(0, {make("w", dtype::f6_e3m2, {4}, {8}, {2})}), six, "cut within a byte");
}

Test(pack_plan, needs_no_source_for_empty_shards_but_their_tensor) {
    const std::vector<range> saved{arranged(0, {make("w", dtype::u8, {4})})};
    cr_expect(planned(arranged(3, {make("w", dtype::u8, {0}, {4}, {4})}), saved).empty());
    cr_expect(planned(arranged(3, {}), saved).empty());
    cr_expect(planned(arranged(3, {}), {}).empty());
    expect_mismatch(arranged(3, {make("x", dtype::u8, {0})}), saved, "nobody saved a tensor");
}

Test(pack_plan, says_what_does_not_fit) {
    const std::vector<range> saved{arranged(0, {make("w", dtype::f32, {2, 4}, {6, 4}, {0, 0})}),
                                   arranged(1, {make("w", dtype::f32, {2, 4}, {6, 4}, {4, 0})})};
    expect_mismatch(arranged(0, {make("v", dtype::f32, {1})}), saved, "'v': nobody saved");
    expect_mismatch(arranged(0, {make("w", dtype::bf16, {6, 4})}), saved,
                    "saved as F32 [6, 4], but BF16 [6, 4] is registered");
    expect_mismatch(arranged(0, {make("w", dtype::f32, {4, 6})}), saved,
                    "saved as F32 [6, 4], but F32 [4, 6] is registered");
    expect_mismatch(arranged(0, {make("w", dtype::f32, {})}), saved, "but F32 [] is registered");
    expect_mismatch(arranged(0, {make("w", dtype::f32, {6, 4})}), saved, "its part at [2, 0] of size [2, 4]");
    expect_mismatch(arranged(0, {make("w", dtype::f32, {6, 4})}), {}, "nobody saved");
}

Test(pack_plan, agrees_with_a_search_byte_by_byte) {
    for (uint32_t seed = 1; seed <= 400; seed++) {
        generator random(seed);
        const dtype types[] = {dtype::u8, dtype::bf16, dtype::f32, dtype::f64};
        std::vector<std::vector<shard>> saved_shards(1 + below(random, 5));
        std::vector<shard> wanted_shards;
        for (uint64_t tensor = 0; tensor < 3; tensor++) {
            std::vector<uint64_t> shape(below(random, 5));
            for (uint64_t& each : shape) each = below(random, 12) == 0 ? 0 : 1 + below(random, 6);
            const std::string name = "tensor" + std::to_string(tensor);
            const dtype type = types[below(random, 4)];
            // Each cover's boxes go to ranks at random; a rank that has the name already gets a new rank beside it.
            for (uint64_t copies = 1 + below(random, 2); copies > 0; copies--) {
                for (const auto& [offset, size] : random_cover(random, shape)) {
                    auto& to = saved_shards[below(random, saved_shards.size())];
                    const bool taken =
                        std::any_of(to.begin(), to.end(), [&](const shard& each) { return each.name == name; });
                    shard each = make(name, type, size, shape, offset);
                    if (shape.empty()) each.offset.clear();
                    if (taken) saved_shards.push_back({each});
                    else to.push_back(each);
                }
            }
            std::vector<uint64_t> offset(shape.size());
            std::vector<uint64_t> size(shape.size());
            for (size_t dim = 0; dim < shape.size(); dim++) {
                offset[dim] = below(random, shape[dim] + 1);
                size[dim] = below(random, shape[dim] - offset[dim] + 1);
            }
            wanted_shards.push_back(below(random, 3) == 0 || shape.empty() ? make(name, type, shape)
                                                                           : make(name, type, size, shape, offset));
        }
        std::vector<range> saved;
        for (auto& each : saved_shards) saved.push_back(arranged(static_cast<uint32_t>(saved.size()), std::move(each)));
        const range wanted = arranged(static_cast<uint32_t>(below(random, 6)), std::move(wanted_shards));
        const auto made = plan_restore(wanted, saved);
        cr_assert(made.has_value(), "seed %u: %s", seed, made ? "" : made.error().context.c_str());
        expect_right_bytes(wanted, saved, *made);
    }
}

Test(pack_plan, plans_100000_tensors_in_half_a_second) {
    std::vector<shard> shards(limits::tensors_per_node_max);
    for (size_t index = 0; index < shards.size(); index++)
        shards[index] =
            make("model.layers." + std::to_string(index) + ".weight", dtype::bf16, {64, 3}, {64, 12}, {0, 3});
    const range what = arranged(1, std::move(shards));
    const uint64_t start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    const auto pieces = planned(what, {what});
    const uint64_t spent = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
    cr_expect(pieces.size() == limits::tensors_per_node_max);
    std::fprintf(stderr, "100000 tensors: plan %lu ms\n", spent / ns_per_ms);
#ifdef __OPTIMIZE__
#ifndef __SANITIZE_ADDRESS__
    cr_expect(spent < ns_per_s / 2);
#endif
#endif
}
