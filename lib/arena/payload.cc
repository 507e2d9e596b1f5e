// Payloads of the messages: each encode() with its decode() beside it.
//
// The other side may be another version, a damaged process or an attacker with our uid, so decode() believes nothing:
// numbers have bounds, counts are compared with what is left before memory is taken, strings have limits and no zero
// bytes, and no byte may be left over. The rule that the fuzzer holds us to: whatever decode() accepts, encode()
// makes again, byte for byte.
#include "arena/protocol.h"
#include "arena/wire.h"
#include "base/limits.h"

namespace varde::arena {

namespace {

constexpr uint32_t option_bytes_max = 256;    // text of one --ckpt-* option
constexpr uint32_t refusal_bytes_max = 8192;  // one line for people; it may quote two paths
constexpr size_t copy_wire_bytes = 4 + 3 * 8;
constexpr size_t shard_wire_bytes_min = 4 + 1 + 3;  // name length, at least one byte of name, type, dims, split

failure malformed(const char* what) {
    return fail(code::invalid, std::string("malformed message '") + what + "' on the agent's socket");
}

std::string plain_text(wire_reader& in, uint32_t bytes_max, bool& sound) {
    std::string value = in.text(bytes_max);
    if (value.find('\0') != std::string::npos) sound = false;
    return value;
}

void put_numbers(wire_writer& out, const std::vector<uint64_t>& numbers) {
    for (const uint64_t number : numbers) out.number(number);
}

std::vector<uint64_t> get_numbers(wire_reader& in, size_t count) {
    std::vector<uint64_t> numbers;
    if (count > in.left() / sizeof(uint64_t)) {
        in.refuse();
        return numbers;
    }
    numbers.resize(count);
    for (uint64_t& number : numbers) number = in.number<uint64_t>();
    return numbers;
}

void put_shard(wire_writer& out, const pack::shard& shard) {
    const bool split = !shard.global_shape.empty();
    out.text(shard.name);
    out.number(shard.type);
    out.number(static_cast<uint8_t>(shard.shape.size()));
    out.number(static_cast<uint8_t>(split));
    put_numbers(out, shard.shape);
    put_numbers(out, shard.global_shape);
    put_numbers(out, shard.offset);
}

pack::shard get_shard(wire_reader& in, bool& sound) {
    pack::shard shard;
    shard.name = plain_text(in, limits::tensor_name_bytes_max, sound);
    const auto type = in.number<uint8_t>();
    const auto dims = in.number<uint8_t>();
    const auto split = in.number<uint8_t>();
    if (shard.name.empty() || type < 1 || type > pack::dtype_count || dims > limits::tensor_dims_max || split > 1 ||
        (split == 1 && dims == 0)) {
        sound = false;
        return shard;
    }
    shard.type = static_cast<pack::dtype>(type);
    shard.shape = get_numbers(in, dims);
    if (split == 1) {
        shard.global_shape = get_numbers(in, dims);
        shard.offset = get_numbers(in, dims);
    }
    return shard;
}

bool known(uint32_t number) noexcept {
    return number >= static_cast<uint32_t>(code::invalid) && number <= static_cast<uint32_t>(code::internal);
}

bool plausible(const hello& body) noexcept {
    return body.rank < body.world && body.world <= limits::world_max && body.local_rank < body.local_count &&
           body.local_count <= limits::local_ranks_max && body.node_index < body.node_count &&
           body.node_count <= limits::nodes_max && body.again <= 1 && body.batch <= batch_in_place &&
           body.numa_node >= -1 && body.numa_node < static_cast<int32_t>(limits::numa_nodes_max);
}

}  // namespace

std::string encode(const hello& body) {
    wire_writer out;
    for (const uint32_t number :
         {body.rank, body.world, body.local_rank, body.local_count, body.node_index, body.node_count})
        out.number(number);
    out.number(body.again);
    out.text(body.launch);
    out.text(body.directory);
    out.text(body.name);
    out.number(body.interval_s);
    out.text(body.keep);
    out.text(body.restart);
    out.text(body.max_restarts);
    out.text(body.hang_timeout);
    out.number(body.batch);
    out.number(body.numa_node);
    return out.take();
}

template <>
result<hello> decode<hello>(std::string_view payload) {
    wire_reader in(payload);
    bool sound = true;
    hello body;
    for (uint32_t* number :
         {&body.rank, &body.world, &body.local_rank, &body.local_count, &body.node_index, &body.node_count})
        *number = in.number<uint32_t>();
    body.again = in.number<uint8_t>();
    body.launch = plain_text(in, limits::launch_bytes_max, sound);
    body.directory = plain_text(in, limits::path_bytes_max, sound);
    body.name = plain_text(in, limits::run_name_bytes_max, sound);
    body.interval_s = in.number<uint64_t>();
    body.keep = plain_text(in, option_bytes_max, sound);
    body.restart = plain_text(in, option_bytes_max, sound);
    body.max_restarts = plain_text(in, option_bytes_max, sound);
    body.hang_timeout = plain_text(in, option_bytes_max, sound);
    body.batch = in.number<uint8_t>();
    body.numa_node = in.number<int32_t>();
    if (!in.done() || !sound || !plausible(body)) return malformed("hello");
    return body;
}

std::string encode(const welcome& body) {
    wire_writer out;
    out.number(body.chunk_bytes);
    out.number(body.arena_bytes);
    out.number(body.slab_offset);
    out.number(body.slab_bytes);
    return out.take();
}

template <>
result<welcome> decode<welcome>(std::string_view payload) {
    wire_reader in(payload);
    welcome body;
    body.chunk_bytes = in.number<uint64_t>();
    body.arena_bytes = in.number<uint64_t>();
    body.slab_offset = in.number<uint64_t>();
    body.slab_bytes = in.number<uint64_t>();
    if (!in.done()) return malformed("welcome");
    return body;
}

std::string encode(const refused& body) {
    wire_writer out;
    out.number(static_cast<uint32_t>(body.what));
    // A text that quotes a long path is cut rather than made into a message that nobody accepts.
    out.text(std::string_view(body.text).substr(0, refusal_bytes_max));
    return out.take();
}

template <>
result<refused> decode<refused>(std::string_view payload) {
    wire_reader in(payload);
    bool sound = true;
    refused body;
    const auto what = in.number<uint32_t>();
    body.text = plain_text(in, refusal_bytes_max, sound);
    if (!in.done() || !sound || !known(what)) return malformed("refused");
    body.what = static_cast<code>(what);
    return body;
}

std::string encode(const layout& body) {
    wire_writer out;
    out.number(body.version);
    out.number(static_cast<uint32_t>(body.shards.size()));
    for (const pack::shard& shard : body.shards) put_shard(out, shard);
    return out.take();
}

template <>
result<layout> decode<layout>(std::string_view payload) {
    wire_reader in(payload);
    bool sound = true;
    layout body;
    body.version = in.number<uint64_t>();
    const auto count = in.number<uint32_t>();
    if (count > limits::tensors_per_node_max || count > in.left() / shard_wire_bytes_min) return malformed("layout");
    body.shards.reserve(count);
    for (uint32_t i = 0; i < count && in.ok() && sound; i++) body.shards.push_back(get_shard(in, sound));
    if (!in.done() || !sound) return malformed("layout");
    return body;
}

std::string encode(const restore& body) {
    wire_writer out;
    out.number(body.layout_version);
    return out.take();
}

template <>
result<restore> decode<restore>(std::string_view payload) {
    wire_reader in(payload);
    restore body{in.number<uint64_t>()};
    if (!in.done()) return malformed("restore");
    return body;
}

std::string encode(const restore_chunk& body) {
    wire_writer out;
    out.number(body.ticket);
    out.number(static_cast<uint32_t>(body.copies.size()));
    for (const copy& part : body.copies) {
        out.number(part.shard_index);
        out.number(part.shard_offset);
        out.number(part.place_offset);
        out.number(part.size_bytes);
    }
    return out.take();
}

template <>
result<restore_chunk> decode<restore_chunk>(std::string_view payload) {
    wire_reader in(payload);
    restore_chunk body;
    body.ticket = in.number<uint64_t>();
    const auto count = in.number<uint32_t>();
    if (!in.ok() || in.left() != uint64_t{count} * copy_wire_bytes) return malformed("restore_chunk");
    body.copies.resize(count);
    for (copy& part : body.copies) {
        part.shard_index = in.number<uint32_t>();
        part.shard_offset = in.number<uint64_t>();
        part.place_offset = in.number<uint64_t>();
        part.size_bytes = in.number<uint64_t>();
    }
    return body;
}

std::string encode(const chunk_taken& body) {
    wire_writer out;
    out.number(body.ticket);
    return out.take();
}

template <>
result<chunk_taken> decode<chunk_taken>(std::string_view payload) {
    wire_reader in(payload);
    chunk_taken body{in.number<uint64_t>()};
    if (!in.done()) return malformed("chunk_taken");
    return body;
}

std::string encode(const restored& body) {
    wire_writer out;
    out.number(body.step);
    out.number(body.incarnation);
    return out.take();
}

template <>
result<restored> decode<restored>(std::string_view payload) {
    wire_reader in(payload);
    restored body;
    body.step = in.number<uint64_t>();
    body.incarnation = in.number<uint64_t>();
    if (!in.done()) return malformed("restored");
    return body;
}

std::string encode(const save& body) {
    wire_writer out;
    out.number(body.step);
    out.number(body.layout_version);
    out.number(body.first_chunk);
    out.number(body.chunk_count);
    return out.take();
}

template <>
result<save> decode<save>(std::string_view payload) {
    wire_reader in(payload);
    save body;
    body.step = in.number<uint64_t>();
    body.layout_version = in.number<uint64_t>();
    body.first_chunk = in.number<uint64_t>();
    body.chunk_count = in.number<uint64_t>();
    if (!in.done() || body.first_chunk + body.chunk_count < body.first_chunk) return malformed("save");
    return body;
}

std::string encode(const give_up& body) {
    wire_writer out;
    out.number(body.step);
    return out.take();
}

template <>
result<give_up> decode<give_up>(std::string_view payload) {
    wire_reader in(payload);
    give_up body{in.number<uint64_t>()};
    if (!in.done()) return malformed("give_up");
    return body;
}

std::string encode(const bye&) { return {}; }

template <>
result<bye> decode<bye>(std::string_view payload) {
    if (!payload.empty()) return malformed("bye");
    return bye{};
}

std::string encode(const no_nodes&) { return {}; }

template <>
result<no_nodes> decode<no_nodes>(std::string_view payload) {
    if (!payload.empty()) return malformed("no_nodes");
    return no_nodes{};
}

}  // namespace varde::arena
