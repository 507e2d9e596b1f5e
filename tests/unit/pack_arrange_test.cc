// arrange(): what a rank may store, and where it comes to lie.
#include "base/limits.h"
#include "pack/layout.h"

#include <criterion/criterion.h>

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

// The refusal must name the tensor and contain `words`.
void expect_refused(shard what, const char* words) {
    const auto made = arrange(0, {std::move(what)});
    cr_assert(not made.has_value(), "accepted, but should say '%s'", words);
    cr_expect(made.error().what == code::invalid);
    cr_expect(made.error().context.find(words) != std::string::npos, "'%s' lacks '%s'", made.error().context.c_str(),
              words);
    cr_expect(made.error().context.starts_with("couldn't save tensor '"), "%s", made.error().context.c_str());
}

}  // namespace

Test(pack_arrange, sorts_by_falling_element_size_and_keeps_the_order_given) {
    const auto made = arrange(7, {make("a", dtype::u8, {3}), make("b", dtype::f4, {2}), make("c", dtype::f64, {1}),
                                  make("d", dtype::bf16, {1}), make("e", dtype::i64, {2}), make("f", dtype::u8, {0}),
                                  make("g", dtype::f32, {})});
    cr_assert(made.has_value());
    std::string order;
    for (const shard& each : made->shards) order += each.name;
    cr_expect(order == "cegdafb", "%s", order.c_str());
    const uint64_t offsets[] = {0, 8, 24, 28, 30, 33, 33};
    for (size_t index = 0; index < made->shards.size(); index++)
        cr_expect(made->shards[index].offset_bytes == offsets[index], "%zu", index);
    cr_expect(made->rank == 7 and made->data_bytes == 34 and made->size_bytes == 4096);
}

Test(pack_arrange, aligns_every_tensor_to_its_element) {
    std::vector<shard> shards;
    for (unsigned number = 1; number <= dtype_count; number++)
        shards.push_back(make(dtype_name(static_cast<dtype>(number)), static_cast<dtype>(number), {4, number}));
    const auto made = arrange(0, shards);
    cr_assert(made.has_value());
    for (const shard& each : made->shards) {
        const uint64_t element_bytes = std::max(1U, dtype_bits(each.type) / 8);
        cr_expect(each.offset_bytes % element_bytes == 0, "%s", each.name.c_str());
        cr_expect(each.size_bytes == each.shape[1] * 4 * dtype_bits(each.type) / 8, "%s", each.name.c_str());
    }
}

Test(pack_arrange, takes_nothing_and_empty_tensors) {
    const auto none = arrange(0, {});
    cr_assert(none.has_value());
    cr_expect(none->size_bytes == 0 and none->data_bytes == 0);
    const auto empty = arrange(0, {make("a", dtype::f32, {0, 5}), make("b", dtype::f4, {0})});
    cr_assert(empty.has_value());
    cr_expect(empty->size_bytes == 0 and empty->shards.size() == 2);
}

Test(pack_arrange, is_the_same_when_repeated) {
    const auto once = arrange(0, {make("a", dtype::u8, {3}), make("b", dtype::f64, {1}), make("c", dtype::u8, {1})});
    cr_assert(once.has_value());
    const auto twice = arrange(0, once->shards);
    cr_assert(twice.has_value());
    cr_expect(*once == *twice);
}

Test(pack_arrange, refuses_bad_names) {
    expect_refused(make("", dtype::u8, {1}), "its name is empty");
    expect_refused(make(std::string("a\0b", 3), dtype::u8, {1}), "zero byte");
    expect_refused(make("a\xff", dtype::u8, {1}), "UTF-8");
    expect_refused(make(std::string(limits::tensor_name_bytes_max + 1, 'n'), dtype::u8, {1}), "1025 bytes");
    cr_expect(arrange(0, {make(std::string(limits::tensor_name_bytes_max, 'n'), dtype::u8, {1})}).has_value());
    const auto twice = arrange(0, {make("a", dtype::u8, {1}), make("b", dtype::u8, {1}), make("a", dtype::f32, {1})});
    cr_assert(not twice.has_value());
    cr_expect(twice.error().context.find("another tensor of this name") != std::string::npos);
}

Test(pack_arrange, refuses_bad_types_and_shapes) {
    expect_refused(make("a", static_cast<dtype>(0), {1}), "no element type 0");
    expect_refused(make("a", static_cast<dtype>(dtype_count + 1), {1}), "no element type 23");
    expect_refused(make("a", dtype::u8, std::vector<uint64_t>(65, 1)), "65 dimensions");
    cr_expect(arrange(0, {make("a", dtype::u8, std::vector<uint64_t>(64, 1))}).has_value());
    expect_refused(make("a", dtype::f4, {3}), "do not fill whole bytes");
    expect_refused(make("a", dtype::f6_e2m3, {}), "do not fill whole bytes");
    expect_refused(make("a", dtype::u8, {1ULL << 32, 1ULL << 32}), "larger than");
    expect_refused(make("a", dtype::u8, {(1ULL << 44) + 8}), "larger than");
    // Readers of the format multiply in order, and would refuse the first two of the three.
    expect_refused(make("a", dtype::u8, {1ULL << 33, 1ULL << 33, 0}), "larger than");
    expect_refused(make("a", dtype::u8, {UINT64_MAX, UINT64_MAX, 0}), "larger than");
    cr_expect(arrange(0, {make("a", dtype::u8, {1ULL << 50, 0})}).has_value());
}

Test(pack_arrange, refuses_pieces_outside_the_whole) {
    expect_refused(make("a", dtype::u8, {2}, {4}, {3}), "beyond the global size 4");
    expect_refused(make("a", dtype::u8, {2}, {4}, {UINT64_MAX}), "beyond the global size 4");
    expect_refused(make("a", dtype::u8, {2, 2}, {4, 1}, {0, 0}), "in dimension 1");
    expect_refused(make("a", dtype::u8, {2}, {4}, {}), "same count");
    expect_refused(make("a", dtype::u8, {2}, {4, 4}, {0, 0}), "same count");
    expect_refused(make("a", dtype::u8, {2}, {}, {0}), "no global shape");
    expect_refused(make("a", dtype::u8, {1, 1}, {1ULL << 40, 1ULL << 40}, {0, 0}), "too large to count");
    cr_expect(arrange(0, {make("a", dtype::u8, {0}, {4}, {4})}).has_value());
}

Test(pack_arrange, refuses_too_much) {
    std::vector<shard> shards(limits::tensors_per_node_max + 1);
    cr_expect(not arrange(0, shards).has_value());
    expect_refused(make("a", dtype::u8, {limits::range_bytes_max + 1}), "larger than the 16 TiB");
    const auto sum = arrange(0, {make("a", dtype::u8, {limits::range_bytes_max}), make("b", dtype::u8, {1})});
    cr_assert(not sum.has_value());
    cr_expect(sum.error().context.find("more than 16 TiB") != std::string::npos);
    cr_expect(not arrange(limits::world_max, {}).has_value());
}

Test(pack_arrange, knows_every_dtype_by_name) {
    for (unsigned number = 1; number <= dtype_count; number++) {
        const auto found = dtype_named(dtype_name(static_cast<dtype>(number)));
        cr_assert(found.has_value());
        cr_expect(static_cast<unsigned>(*found) == number);
    }
    for (const char* name : {"", "f32", "F33", "F32 "}) cr_expect(not dtype_named(name).has_value(), "%s", name);
    cr_expect(dtype_bits(static_cast<dtype>(0)) == 0 and dtype_bits(static_cast<dtype>(200)) == 0);
}
