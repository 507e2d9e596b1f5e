// The messages between a rank (libvarde) and its node's agent, over one Unix stream socket.
//
// A frame is varde_frame_head (batch_exit.h) and a payload.  The rank speaks first: hello, answered by welcome (with
// the two memfds) or refused.  Then:
//
//   layout      what the rank's range looks like; sent before the first restore or save and whenever it has changed;
//               no answer
//   restore     -> restore_chunk*, each answered by chunk_taken once its bytes were copied out; then restored or
//               refused
//               The agent may start over (the generation was damaged): tickets tell the attempts apart.  A chunk
//               without copies is a sign of life while other nodes still load.
//   save        a generation begins: its chunks are [first_chunk, first_chunk + chunk_count); no answer
//   give_up     the rank stops staging that generation -> give_up, once the agent will not seal it; only then the rank
//               sets `staged` past the chunks that it leaves out, so that the agent never takes old bytes for new ones
//   bye         the rank closes the run; the agent answers bye
//
//   no_nodes    from `varde run`, which says no hello: it cannot start the step again in place; requeue the job; no
//               answer
//
// An agent whose worker was restarted knows its ranks from its ledger; the rank says hello again (`again` set) and
// goes on. Everything that happens often (due, progress, staged, released, complete) is in shared memory (control.h).
#pragma once

#include "arena/batch_exit.h"
#include "base/handle.h"
#include "base/result.h"
#include "pack/layout.h"

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>
#include <string_view>
#include <vector>

namespace varde::arena {

enum class message : uint16_t {
    hello = 1,
    welcome = 2,
    refused = 3,
    layout = 4,
    restore = 5,
    restore_chunk = 6,
    chunk_taken = 7,
    restored = 8,
    save = 9,
    give_up = 10,
    bye = 11,
    no_nodes = 12,
    batch_exit = VARDE_FRAME_BATCH_EXIT,
    batch_answer = VARDE_FRAME_BATCH_ANSWER,
};

// Who starts the training again.
constexpr uint8_t batch_none = 0;      // a person
constexpr uint8_t batch_requeue = 1;   // the job has a batch script, so it can be requeued
constexpr uint8_t batch_in_place = 2;  // ... and `varde run` in it starts the step again, before the job is requeued

struct hello {
    uint32_t rank = 0, world = 0, local_rank = 0, local_count = 0, node_index = 0, node_count = 0;
    uint8_t again = 0;            // 1: this rank had said hello to an earlier worker
    std::string launch;           // identity of this start, the same on all ranks ("slurm 7.1.0")
    std::string directory, name;  // absolute path; of the run
    uint64_t interval_s = 0;      // 0: only what varde_save is called for
    std::string keep, restart, max_restarts, hang_timeout;  // texts of --ckpt-* options; empty: default
    uint8_t batch = batch_none;
    int32_t numa_node = -1;  // where its memory or its GPU is; -1: no matter
};

struct welcome {
    uint64_t chunk_bytes = 0;
    uint64_t arena_bytes = 0;
    uint64_t slab_offset = 0, slab_bytes = 0;
    bool operator==(const welcome&) const = default;
    // with two file descriptors: control, arena
};

struct refused {
    code what = code::internal;
    std::string text;
};

struct layout {
    uint64_t version = 0;             // grows with every change of this rank's registration
    std::vector<pack::shard> shards;  // in arrange()'s order; sizes and offsets are computed again by the agent
};

struct restore {
    uint64_t layout_version = 0;
};

struct copy {
    uint32_t shard_index = 0;   // into the layout
    uint64_t shard_offset = 0;  // bytes
    uint64_t place_offset = 0;  // bytes from the start of the slab
    uint64_t size_bytes = 0;
};
struct restore_chunk {
    uint64_t ticket = 0;  // to be given back in chunk_taken
    std::vector<copy> copies;
};
struct chunk_taken {
    uint64_t ticket = 0;
};
struct restored {
    uint64_t step = 0;         // 0: there was nothing; nothing was copied
    uint64_t incarnation = 0;  // of this start
};

struct save {
    uint64_t step = 0, layout_version = 0, first_chunk = 0, chunk_count = 0;
};
struct give_up {
    uint64_t step = 0;
};
struct bye {};
struct no_nodes {};

// Payloads.  decode() takes only what encode() can have made; anything else is `invalid`.
std::string encode(const hello&);
std::string encode(const welcome&);
std::string encode(const refused&);
std::string encode(const layout&);
std::string encode(const restore&);
std::string encode(const restore_chunk&);
std::string encode(const chunk_taken&);
std::string encode(const restored&);
std::string encode(const save&);
std::string encode(const give_up&);
std::string encode(const bye&);
std::string encode(const no_nodes&);
template <class T>
result<T> decode(std::string_view payload);

template <class T>
constexpr message type_of();

struct frame {
    message type{};
    std::string payload;
};

// Builds a whole frame.
template <class T>
std::string frame_of(const T& body);
std::string frame_bytes(message type, std::string_view payload);

// Cuts frames out of a stream: feed() what was read, next() until it has none.  Bad magic, version or an oversized
// payload is an error after which the connection must be closed.
class frame_reader {
public:
    void feed(std::string_view bytes) { buffer_.append(bytes); }
    // true: `out` holds the next frame; false: more bytes are needed.
    result<bool> next(frame& out);

private:
    std::string buffer_;
    size_t start_ = 0;
};

// One attempt to send without blocking; the file descriptors, at most two, travel with the first byte that the kernel
// takes.  As sendmsg().
ssize_t send_some(int socket, std::string_view bytes, std::span<const int> fds) noexcept;

// Sends bytes, with up to two file descriptors on the first byte.  Blocks until `timeout_ms` have passed in all.
result<void> send_all(int socket, std::string_view bytes, std::span<const int> fds, int timeout_ms);

// ---- details
template <>
constexpr message type_of<hello>() {
    return message::hello;
}
template <>
constexpr message type_of<welcome>() {
    return message::welcome;
}
template <>
constexpr message type_of<refused>() {
    return message::refused;
}
template <>
constexpr message type_of<layout>() {
    return message::layout;
}
template <>
constexpr message type_of<restore>() {
    return message::restore;
}
template <>
constexpr message type_of<restore_chunk>() {
    return message::restore_chunk;
}
template <>
constexpr message type_of<chunk_taken>() {
    return message::chunk_taken;
}
template <>
constexpr message type_of<restored>() {
    return message::restored;
}
template <>
constexpr message type_of<save>() {
    return message::save;
}
template <>
constexpr message type_of<give_up>() {
    return message::give_up;
}
template <>
constexpr message type_of<bye>() {
    return message::bye;
}
template <>
constexpr message type_of<no_nodes>() {
    return message::no_nodes;
}

template <>
result<hello> decode<hello>(std::string_view payload);
template <>
result<welcome> decode<welcome>(std::string_view payload);
template <>
result<refused> decode<refused>(std::string_view payload);
template <>
result<layout> decode<layout>(std::string_view payload);
template <>
result<restore> decode<restore>(std::string_view payload);
template <>
result<restore_chunk> decode<restore_chunk>(std::string_view payload);
template <>
result<chunk_taken> decode<chunk_taken>(std::string_view payload);
template <>
result<restored> decode<restored>(std::string_view payload);
template <>
result<save> decode<save>(std::string_view payload);
template <>
result<give_up> decode<give_up>(std::string_view payload);
template <>
result<bye> decode<bye>(std::string_view payload);
template <>
result<no_nodes> decode<no_nodes>(std::string_view payload);

template <class T>
std::string frame_of(const T& body) {
    return frame_bytes(type_of<T>(), encode(body));
}

}  // namespace varde::arena
