// The ledger: what a worker that takes over finds, whatever its predecessor was doing when it died.
#include "agent/ledger.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace varde;
using namespace varde::agent;

namespace {

// The parent's two memfds, and workers that come and go.
struct holder {
    holder() {
        auto made = ledger::make();
        cr_assert(made.has_value());
        files = std::move(*made);
    }
    ledger worker() const {
        auto opened = ledger::open({duplicate(0), duplicate(1)});
        cr_assert(opened.has_value(), "%s", opened ? "" : opened.error().context.c_str());
        return std::move(*opened);
    }
    unique_fd duplicate(size_t which) const { return unique_fd(::fcntl(files[which].get(), F_DUPFD_CLOEXEC, 0)); }

    std::string content(size_t which) const {
        std::string bytes(size(which), '\0');
        cr_assert_eq(::pread(files[which].get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
        return bytes;
    }
    void set_content(size_t which, const std::string& bytes) const {
        cr_assert_eq(::ftruncate(files[which].get(), 0), 0);
        cr_assert_eq(::pwrite(files[which].get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }
    uint64_t size(size_t which) const {
        struct stat about {};
        cr_assert_eq(::fstat(files[which].get(), &about), 0);
        return static_cast<uint64_t>(about.st_size);
    }
    // The first worker's compaction has made the second file the log.
    static constexpr size_t log = 1;

    std::array<unique_fd, 2> files;
};

void put(ledger& to, record kind, uint32_t rank, const std::string& value) {
    const auto done = to.put(kind, rank, value);
    cr_assert(done.has_value(), "%s", done ? "" : done.error().context.c_str());
}

std::string value_of(const ledger& from, record kind, uint32_t rank) {
    const auto found = from.records().find({kind, rank});
    return found == from.records().end() ? "(none)" : found->second;
}

}  // namespace

Test(agent_ledger, begins_empty) {
    const holder h;
    cr_assert(h.worker().records().empty());
    cr_assert(h.worker().records().empty(), "and a second time");
}

Test(agent_ledger, gives_the_newest_record_of_each_kind_and_rank) {
    const holder h;
    ledger first = h.worker();
    put(first, record::hello, 0, "zero");
    put(first, record::hello, 1, "one");
    put(first, record::save, 0, "step 100");
    put(first, record::save, 0, "step 200");
    put(first, record::node, ledger::no_rank, std::string("\0\xff", 2));
    put(first, record::layout, 7, "");
    for (const ledger& seen : {h.worker(), h.worker()}) {
        cr_assert_eq(seen.records().size(), 5);
        cr_assert_eq(value_of(seen, record::hello, 0), "zero");
        cr_assert_eq(value_of(seen, record::hello, 1), "one");
        cr_assert_eq(value_of(seen, record::save, 0), "step 200");
        cr_assert_eq(value_of(seen, record::node, ledger::no_rank), std::string("\0\xff", 2));
        cr_assert_eq(value_of(seen, record::layout, 7), "");
    }
}

Test(agent_ledger, goes_on_after_its_predecessor) {
    const holder h;
    for (int worker = 0; worker < 20; worker++) {
        ledger one = h.worker();
        if (worker > 0) cr_assert_eq(value_of(one, record::save, 3), std::to_string(worker - 1));
        put(one, record::save, 3, std::to_string(worker));
    }
}

Test(agent_ledger, is_empty_after_clear_also_for_the_next_worker) {
    const holder h;
    ledger one = h.worker();
    put(one, record::hello, 0, "old start");
    cr_assert(one.clear().has_value());
    cr_assert(one.records().empty());
    put(one, record::hello, 1, "new start");
    const ledger next = h.worker();
    cr_assert_eq(next.records().size(), 1);
    cr_assert_eq(value_of(next, record::hello, 1), "new start");
}

// A worker that is killed while it appends: every length of the torn record.
Test(agent_ledger, a_torn_record_is_as_if_it_was_never_written) {
    const holder h;
    ledger one = h.worker();
    put(one, record::hello, 0, "kept");
    put(one, record::save, 0, "step 100");
    const size_t before = h.size(holder::log);
    put(one, record::save, 0, "step 200, with some text");
    const std::string whole = h.content(holder::log);
    for (size_t length = before; length < whole.size(); length++) {
        h.set_content(holder::log, whole.substr(0, length));
        ledger next = h.worker();
        cr_assert_eq(next.records().size(), 2);
        cr_assert_eq(value_of(next, record::save, 0), "step 100", "cut to %zu of %zu bytes", length, whole.size());
        put(next, record::save, 0, "300");  // shorter than what lies there in pieces
        cr_assert_eq(value_of(h.worker(), record::save, 0), "300", "after a cut to %zu", length);
        cr_assert_eq(value_of(h.worker(), record::hello, 0), "kept");
    }
}

Test(agent_ledger, a_record_with_any_byte_flipped_does_not_count) {
    const holder h;
    ledger one = h.worker();
    put(one, record::save, 0, "step 100");
    const size_t before = h.size(holder::log);
    put(one, record::save, 0, "step 200");
    const std::string whole = h.content(holder::log);
    for (size_t at = before; at < whole.size(); at++) {
        for (const int flip : {0x01, 0x80, 0xff}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ flip);
            h.set_content(holder::log, damaged);
            cr_assert_eq(value_of(h.worker(), record::save, 0), "step 100", "byte %zu", at - before);
        }
    }
}

Test(agent_ledger, an_announced_size_beyond_the_file_takes_no_memory) {
    const holder h;
    ledger one = h.worker();
    put(one, record::save, 0, "step 100");
    std::string bytes = h.content(holder::log);
    bytes += std::string("\x03\0\0\0\0\0\0\0", 8) + std::string(8, '\xff') + std::string(8, '\0');
    h.set_content(holder::log, bytes);
    cr_assert_eq(value_of(h.worker(), record::save, 0), "step 100");
}

// A worker that is killed while it compacts: the new file has no number yet, the old one still counts.
Test(agent_ledger, a_compaction_that_was_cut_short_loses_nothing) {
    const holder h;
    ledger one = h.worker();
    put(one, record::hello, 0, "kept");
    const std::string junk = std::string(8, '\0') + std::string(500, 'j');
    for (size_t length = 0; length <= junk.size(); length += 3) {
        h.set_content(1 - holder::log, junk.substr(0, length));
        cr_assert_eq(value_of(h.worker(), record::hello, 0), "kept", "%zu bytes were there", length);
    }
}

Test(agent_ledger, stays_small_however_often_a_record_is_renewed) {
    const holder h;
    ledger one = h.worker();
    const std::string value(100'000, 'v');
    for (int i = 0; i < 300; i++) put(one, record::layout, static_cast<uint32_t>(i % 4), value + std::to_string(i));
    cr_assert(h.size(0) + h.size(1) < (12U << 20), "%lu bytes", h.size(0) + h.size(1));
    const ledger next = h.worker();
    cr_assert_eq(next.records().size(), 4);
    for (uint32_t rank = 0; rank < 4; rank++)
        cr_assert_eq(value_of(next, record::layout, rank), value + std::to_string(296 + rank));
}

Test(agent_ledger, takes_the_layout_of_a_hundred_thousand_tensors) {
    const holder h;
    ledger one = h.worker();
    std::string big(20U << 20, '\0');
    for (size_t i = 0; i < big.size(); i++) big[i] = static_cast<char>(i * 7);
    put(one, record::layout, 0, big);
    put(one, record::save, 0, "after it");
    big[0] = 'x';
    put(one, record::layout, 0, big);
    const ledger next = h.worker();
    cr_assert(value_of(next, record::layout, 0) == big);
    cr_assert_eq(value_of(next, record::save, 0), "after it");
}
