// Messages and frames between a rank and its agent: every message survives the trip, nothing else is accepted.
#include "arena/protocol.h"
#include "base/limits.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace varde;
using namespace varde::arena;

namespace {

hello some_hello() {
    hello body;
    body.rank = 5;
    body.world = 8;
    body.local_rank = 1;
    body.local_count = 4;
    body.node_index = 1;
    body.node_count = 2;
    body.launch = "slurm 7.1.0";
    body.directory = "/scratch/ü";
    body.name = "run";
    body.interval_s = 1200;
    body.keep = "3";
    body.restart = "auto";
    body.max_restarts = "9";
    body.hang_timeout = "30m";
    body.batch = 1;
    body.numa_node = 3;
    return body;
}

layout some_layout() {
    layout body;
    body.version = 3;
    body.shards.push_back({"scalar", pack::dtype::f64, {}, {}, {}, 0, 0});
    body.shards.push_back({"whole", pack::dtype::u8, {0, 7}, {}, {}, 0, 0});
    body.shards.push_back({"piece", pack::dtype::bf16, {2, 3}, {8, 3}, {4, 0}, 0, 0});
    return body;
}

template <class T>
void accepts_only_itself(const T& body) {
    const std::string bytes = encode(body);
    const auto again = decode<T>(bytes);
    cr_assert(again.has_value(), "message %d is not accepted", static_cast<int>(type_of<T>()));
    cr_assert(encode(*again) == bytes);
    for (size_t length = 0; length < bytes.size(); length++)
        cr_assert(!decode<T>(std::string_view(bytes).substr(0, length)), "cut to %zu bytes", length);
    cr_assert(!decode<T>(bytes + '\0'), "one byte too many");
    // Whatever a flipped bit turns it into must be a message that encode() could have made.
    for (size_t bit = 0; bit < bytes.size() * 8; bit++) {
        std::string flipped = bytes;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
        const auto read = decode<T>(flipped);
        if (read) cr_assert(encode(*read) == flipped, "bit %zu", bit);
    }
}

}  // namespace

Test(arena_protocol, every_message_is_accepted_whole_and_in_no_other_form) {
    accepts_only_itself(some_hello());
    accepts_only_itself(welcome{4096, 8192, 4096, 4096});
    accepts_only_itself(refused{code::busy, "another job has it"});
    accepts_only_itself(some_layout());
    accepts_only_itself(layout{1, {}});
    accepts_only_itself(restore{7});
    accepts_only_itself(restore_chunk{2, {{0, 1, 2, 3}, {4, 5, 6, 7}}});
    accepts_only_itself(restore_chunk{2, {}});
    accepts_only_itself(chunk_taken{9});
    accepts_only_itself(restored{1200, 3});
    accepts_only_itself(save{1200, 3, 17, 4});
    accepts_only_itself(give_up{1200});
    accepts_only_itself(bye{});
    accepts_only_itself(no_nodes{});
}

Test(arena_protocol, a_layout_arrives_as_it_was_sent) {
    const auto body = decode<layout>(encode(some_layout()));
    cr_assert(body.has_value());
    cr_assert(body->version == 3 && body->shards == some_layout().shards);
}

Test(arena_protocol, hello_arrives_as_it_was_sent) {
    const auto body = decode<hello>(encode(some_hello()));
    cr_assert(body.has_value());
    cr_assert(body->rank == 5 && body->world == 8 && body->local_rank == 1 && body->local_count == 4);
    cr_assert(body->node_index == 1 && body->node_count == 2 && body->batch == 1 && body->numa_node == 3);
    cr_assert(body->launch == "slurm 7.1.0" && body->directory == "/scratch/ü" && body->name == "run");
    cr_assert(body->keep == "3" && body->restart == "auto" && body->max_restarts == "9");
    cr_assert(body->hang_timeout == "30m");
}

Test(arena_protocol, hello_with_impossible_numbers_is_refused) {
    hello body = some_hello();
    body.rank = body.world;
    cr_assert(!decode<hello>(encode(body)));
    body = some_hello();
    body.batch = batch_in_place;
    cr_assert(decode<hello>(encode(body)).has_value());
    body.batch++;
    cr_assert(!decode<hello>(encode(body)));
    body = some_hello();
    for (const int32_t node : {-2, 1024}) {
        body = some_hello();
        body.numa_node = node;
        cr_assert(!decode<hello>(encode(body)));
    }
    body = some_hello();
    body.local_rank = body.local_count;
    cr_assert(!decode<hello>(encode(body)));
    body = some_hello();
    body.local_count = limits::local_ranks_max + 1;
    cr_assert(!decode<hello>(encode(body)));
    body = some_hello();
    body.node_index = body.node_count;
    cr_assert(!decode<hello>(encode(body)));
    body = some_hello();
    body.directory = std::string("/a\0b", 4);
    cr_assert(!decode<hello>(encode(body)));
    body = some_hello();
    body.name = std::string(limits::run_name_bytes_max + 1, 'x');
    cr_assert(!decode<hello>(encode(body)));
}

Test(arena_protocol, a_count_that_cannot_fit_takes_no_memory) {
    // 0xffffffff shards or copies announced, none there: refused at once, without a reservation.
    std::string bytes(12, '\0');
    bytes.replace(8, 4, "\xff\xff\xff\xff");
    cr_assert(!decode<layout>(bytes));
    bytes.assign(20, '\0');
    bytes.replace(16, 4, "\xff\xff\xff\xff");
    cr_assert(!decode<restore_chunk>(bytes));
}

Test(arena_protocol, a_shard_beyond_the_limits_is_refused) {
    layout body{1, {{"x", pack::dtype::u8, std::vector<uint64_t>(64, 1), {}, {}, 0, 0}}};
    cr_assert(decode<layout>(encode(body)).has_value());
    body.shards[0].shape.push_back(1);
    cr_assert(!decode<layout>(encode(body)));
    body.shards[0] = {std::string(limits::tensor_name_bytes_max + 1, 'n'), pack::dtype::u8, {}, {}, {}, 0, 0};
    cr_assert(!decode<layout>(encode(body)));
    body.shards[0] = {"", pack::dtype::u8, {}, {}, {}, 0, 0};
    cr_assert(!decode<layout>(encode(body)));
    body.shards[0] = {"x", static_cast<pack::dtype>(pack::dtype_count + 1), {}, {}, {}, 0, 0};
    cr_assert(!decode<layout>(encode(body)));
}

Test(arena_protocol, chunk_numbers_of_a_save_do_not_wrap) {
    cr_assert(!decode<save>(encode(save{1, 1, UINT64_MAX, 2})));
}

Test(arena_protocol, a_long_refusal_is_cut_not_lost) {
    const auto body = decode<refused>(encode(refused{code::io, std::string(100'000, 'x')}));
    cr_assert(body.has_value());
    cr_assert(body->text.size() > 4096 && body->text.size() < 100'000);
}

Test(arena_frames, come_out_whole_however_the_stream_was_cut) {
    const std::string stream = frame_of(give_up{1}) + frame_of(bye{}) + frame_of(some_layout());
    for (size_t piece = 1; piece <= stream.size(); piece++) {
        frame_reader reader;
        std::vector<frame> frames;
        for (size_t at = 0; at < stream.size(); at += piece) {
            reader.feed(std::string_view(stream).substr(at, piece));
            frame one;
            while (reader.next(one).value()) frames.push_back(one);
        }
        cr_assert(frames.size() == 3);
        cr_assert(frames[0].type == message::give_up && frames[1].type == message::bye);
        cr_assert(frames[2].payload == encode(some_layout()));
    }
}

Test(arena_frames, with_wrong_magic_version_or_size_are_an_error) {
    const std::string other_version(1, static_cast<char>(VARDE_FRAME_VERSION + 1));
    for (const auto& [at, bytes] : {std::pair<size_t, std::string>{0, "X"}, {4, other_version}, {15, "\x01"}}) {
        std::string stream = frame_of(bye{});
        stream.replace(at, bytes.size(), bytes);
        frame_reader reader;
        reader.feed(stream);
        frame out;
        cr_assert(!reader.next(out).has_value());
    }
}

Test(arena_frames, the_largest_announced_size_is_the_limit) {
    std::string head = frame_of(bye{});
    uint64_t bytes = limits::message_bytes_max + 1;
    head.replace(8, 8, reinterpret_cast<const char*>(&bytes), 8);
    frame_reader reader;
    reader.feed(head);
    frame out;
    cr_assert(!reader.next(out).has_value(), "refused before its payload has arrived");
}

Test(arena_send, goes_through_a_full_socket_with_its_file_descriptors) {
    int pair[2];
    cr_assert(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const std::string bytes(4 << 20, 'v');
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    std::string got;
    int fds_seen = 0;
    std::thread reader([&] {
        std::string buffer(65536, '\0');
        while (got.size() < bytes.size()) {
            alignas(cmsghdr) char control[256];
            iovec part{buffer.data(), buffer.size()};
            msghdr message{};
            message.msg_iov = &part;
            message.msg_iovlen = 1;
            message.msg_control = control;
            message.msg_controllen = sizeof control;
            const ssize_t length = ::recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC);
            if (length <= 0) break;
            got.append(buffer, 0, static_cast<size_t>(length));
            for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head))
                fds_seen += static_cast<int>((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        }
    });
    const int fds[] = {null, null};
    const auto sent = send_all(pair[0], bytes, fds, 10'000);
    reader.join();
    cr_assert(sent.has_value());
    cr_assert(got == bytes);
    cr_assert(fds_seen == 2);
}

Test(arena_send, ends_at_its_deadline_when_nobody_reads) {
    int pair[2];
    cr_assert(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const auto sent = send_all(pair[0], std::string(8 << 20, 'v'), {}, 50);
    cr_assert(!sent.has_value() && sent.error().what == code::timeout);
}

Test(arena_send, to_a_closed_peer_fails_without_a_signal) {
    int pair[2];
    cr_assert(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    ::close(pair[1]);
    const auto sent = send_all(pair[0], "x", {}, 50);
    cr_assert(!sent.has_value() && sent.error().what == code::unavailable);
}
