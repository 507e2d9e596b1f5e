// The C API: pointers and sizes are checked here, failures become codes and a text, and nothing is thrown through.
//
// Everything else is in run.cc.  Functions appear in the order of varde.h.
#include "varde.h"

#include "base/limits.h"
#include "base/result.h"
#include "client/handle.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>

using namespace varde;
using namespace varde::client;

namespace {

static_assert(VARDE_E_INVALID == static_cast<int>(code::invalid) &&
              VARDE_E_UNAVAILABLE == static_cast<int>(code::unavailable));
static_assert(VARDE_E_TIMEOUT == static_cast<int>(code::timeout) && VARDE_E_BUSY == static_cast<int>(code::busy));
static_assert(VARDE_E_NO_MEMORY == static_cast<int>(code::no_memory) &&
              VARDE_E_NO_SPACE == static_cast<int>(code::no_space));
static_assert(VARDE_E_IO == static_cast<int>(code::io) && VARDE_E_DAMAGED == static_cast<int>(code::damaged));
static_assert(VARDE_E_NOT_FOUND == static_cast<int>(code::not_found) &&
              VARDE_E_FENCED == static_cast<int>(code::fenced));
static_assert(VARDE_E_MISMATCH == static_cast<int>(code::mismatch) &&
              VARDE_E_INTERNAL == static_cast<int>(code::internal));
static_assert(VARDE_BOOL == static_cast<int>(pack::dtype::boolean) && VARDE_C64 == static_cast<int>(pack::dtype::c64));
static_assert(VARDE_F8_E5M2FNUZ == pack::dtype_count, "the last element type is the one that varde.h names last");

constexpr int64_t interval_s_max = 365LL * 24 * 3600;  // as --ckpt-interval
constexpr const char* no_text = "varde: no call has failed";
constexpr const char* forked_text =
    "varde: couldn't use the run: this process is a child that was forked after varde_open; open a run of its own";

// The last failure without a run, of this thread.  Plain bytes: a destructor would have to run at thread exit.
thread_local std::array<char, 2048> open_failure{};

std::string one_line(const failure& why) {
    std::string text = why.context;
    if (!text.starts_with("varde: ")) text.insert(0, "varde: ");
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    return text;
}

int fail_without_run(const failure& why) {
    const std::string text = one_line(why);
    const size_t length = std::min(text.size(), open_failure.size() - 1);
    std::memcpy(open_failure.data(), text.data(), length);
    open_failure[length] = '\0';
    return static_cast<int>(why.what);
}

int fail_with_run(session& of, const failure& why) {
    of.error_text = one_line(why);
    return static_cast<int>(why.what);
}

failure null_argument(const char* name) {
    return fail(code::invalid, std::string("the argument '") + name + "' is NULL");
}

// The frame of every call on a run: no run, a child's run, one call at a time, no exception.
template <class Body>
int call(const varde_run* of, Body body) noexcept {
    try {
        if (of == nullptr) return fail_without_run(null_argument("run"));
        if (of->forked()) return VARDE_E_INVALID;
        session& at = *of->session;
        const std::lock_guard lock(at.calls);
        try {
            const result<void> done = body(*at.what);
            return done ? VARDE_OK : fail_with_run(at, done.error());
        } catch (const std::bad_alloc&) {
            return fail_with_run(at, fail(code::no_memory, "this process has no memory left"));
        }
    } catch (const std::bad_alloc&) { return VARDE_E_NO_MEMORY; } catch (...) {
        return VARDE_E_INTERNAL;
    }
}

// A struct begins with its size, which tells what the caller was built to know.
result<void> check_size(size_t given, size_t known, const char* name) {
    if (given == known) return {};
    return fail(code::invalid, std::string("the size in '") + name + "' is " + std::to_string(given) +
                                   " bytes, this library (" VARDE_VERSION ") knows " + std::to_string(known) +
                                   (given > known ? "; load the library that the program was built for"
                                                  : "; set it with sizeof or VARDE_OPTIONS_INIT"));
}

result<void> check_number(int64_t number, int64_t most, const char* name) {
    if (number >= -1 && number <= most) return {};
    return fail(code::invalid, std::string(name) + " is " + std::to_string(number) + "; it must be from 0 to " +
                                   std::to_string(most) + ", or -1 for the environment's");
}

void take(std::string& target, const char* text) {
    if (text != nullptr) target = text;
}

result<given_options> read_options(const varde_options* options) {
    given_options given;
    if (options == nullptr) return given;
    if (auto good = check_size(options->size, sizeof(varde_options), "options"); !good) return std::move(good).error();
    if (options->interval_s != VARDE_INTERVAL_AUTO) {
        if (auto good = check_number(options->interval_s, interval_s_max, "interval_s"); !good)
            return std::move(good).error();
    }
    const struct {
        int64_t given;
        int64_t* target;
        const char* name;
    } numbers[] = {{options->rank, &given.numbers.rank, "rank"},
                   {options->world, &given.numbers.world, "world"},
                   {options->local_rank, &given.numbers.local_rank, "local_rank"},
                   {options->local_count, &given.numbers.local_count, "local_count"},
                   {options->node_index, &given.numbers.node_index, "node_index"},
                   {options->node_count, &given.numbers.node_count, "node_count"}};
    for (const auto& each : numbers) {
        if (auto good = check_number(each.given, limits::world_max, each.name); !good) return std::move(good).error();
        *each.target = each.given;
    }
    take(given.directory, options->directory);
    take(given.name, options->name);
    take(given.socket, options->socket);
    take(given.launch, options->launch);
    given.interval_s = options->interval_s;
    return given;
}

const char* from_environment(const char* name) { return ::getenv(name); }

std::string working_directory() {
    std::array<char, limits::path_bytes_max> path{};
    return ::getcwd(path.data(), path.size()) == nullptr ? std::string() : std::string(path.data());
}

result<std::unique_ptr<run>> open_run(const varde_options* options, progress_page& progress) {
    auto given = read_options(options);
    if (!given) return std::move(given).error();
    const process_facts facts = facts_of_this_process();
    auto with = read_settings(*given, from_environment, facts, working_directory());
    if (!with) return std::move(with).error();
    return run::open(*with, from_environment, facts, {}, progress);
}

result<pack::shard> read_shard(const varde_shard& given) {
    if (auto good = check_size(given.size, sizeof(varde_shard), "shard"); !good) return std::move(good).error();
    if (given.name == nullptr) return null_argument("shard->name");
    pack::shard what;
    what.name.assign(given.name, ::strnlen(given.name, limits::tensor_name_bytes_max + 1));
    const std::string tensor = "couldn't register tensor '" + what.name + "': ";
    // As bytes: a C program may have put any number there, and C++ may not look at an enum that has none of its values.
    unsigned type = 0;
    static_assert(sizeof type == sizeof given.dtype);
    std::memcpy(&type, &given.dtype, sizeof type);
    if (type == 0 || type > pack::dtype_count)
        return fail(code::invalid, tensor + "there is no element type " + std::to_string(type) +
                                       "; they go from 1 to " + std::to_string(pack::dtype_count));
    what.type = static_cast<pack::dtype>(type);
    if (given.dims > limits::tensor_dims_max)
        return fail(code::invalid, tensor + "it has " + std::to_string(given.dims) + " dimensions, more than " +
                                       std::to_string(limits::tensor_dims_max));
    if (given.dims == 0) return what;
    if (given.shape == nullptr) return fail(code::invalid, tensor + "its shape is NULL");
    if ((given.global_shape == nullptr) != (given.offset == nullptr))
        return fail(
            code::invalid,
            tensor + "one of global_shape and offset is NULL; give both, or none where the tensor is not split");
    what.shape.assign(given.shape, given.shape + given.dims);
    if (given.global_shape != nullptr) {
        what.global_shape.assign(given.global_shape, given.global_shape + given.dims);
        what.offset.assign(given.offset, given.offset + given.dims);
    }
    return what;
}

}  // namespace

extern "C" {

int varde_open(const varde_options* options, varde_run** ret_run) noexcept try {
    if (ret_run == nullptr) return fail_without_run(null_argument("ret_run"));
    varde_run* made = varde_run::make();
    if (made == nullptr)
        return fail_without_run(fail(code::no_memory, "couldn't open the run: this process has no memory left"));
    auto opened = open_run(options, made->progress);
    if (!opened) {
        made->discard_page();
        failure why = std::move(opened).error();
        why.context = "couldn't open the run: " + why.context;
        return fail_without_run(why);
    }
    made->session = new session;
    made->session->what = std::move(*opened);
    *ret_run = made;
    return VARDE_OK;
} catch (const std::bad_alloc&) {
    constexpr std::string_view text = "varde: couldn't open the run: this process has no memory left";
    text.copy(open_failure.data(), text.size());
    open_failure[text.size()] = '\0';
    return VARDE_E_NO_MEMORY;
} catch (...) { return VARDE_E_INTERNAL; }

int varde_register(varde_run* of, const varde_shard* shard) noexcept {
    return call(of, [&](run& it) -> result<void> {
        if (shard == nullptr) return null_argument("shard");
        auto what = read_shard(*shard);
        if (!what) return std::move(what).error();
        return it.add(std::move(*what), static_cast<std::byte*>(shard->data));
    });
}

int varde_order_after(varde_run* of, void* cuda_stream) noexcept {
    return call(of, [&](run& it) { return it.order_after(cuda_stream); });
}

int varde_unregister(varde_run* of, const char* name) noexcept {
    return call(of, [&](run& it) -> result<void> {
        if (name == nullptr) return null_argument("name");
        return it.remove(std::string_view(name, ::strnlen(name, limits::tensor_name_bytes_max + 1)));
    });
}

int varde_restore(varde_run* of, uint64_t* ret_step) noexcept {
    return call(of, [&](run& it) -> result<void> {
        if (ret_step == nullptr) return null_argument("ret_step");
        const auto step = it.restore();
        if (!step) return step.error();
        *ret_step = *step;
        return {};
    });
}

int varde_due(varde_run* of, uint64_t step) noexcept {
    if (of == nullptr) return 0;
    auto* rank = of->progress.live.load(std::memory_order_relaxed);
    if (rank == nullptr) return 0;  // a child after fork()
    // Release: whoever sees this step also sees what was saved before it.
    rank->progress_step.store(step, std::memory_order_release);
    return step != 0 && rank->due_step.load(std::memory_order_relaxed) == step;
}

int varde_save(varde_run* of, uint64_t step) noexcept {
    return call(of, [&](run& it) { return it.save(step); });
}

int varde_fence(varde_run* of) noexcept {
    return call(of, [](run& it) { return it.fence(); });
}

int varde_wait(varde_run* of, uint32_t timeout_ms) noexcept {
    return call(of, [&](run& it) { return it.wait(timeout_ms); });
}

int varde_status(const varde_run* of, varde_status_info* ret_status) noexcept {
    return call(of, [&](run& it) -> result<void> {
        if (ret_status == nullptr) return null_argument("ret_status");
        if (auto good = check_size(ret_status->size, sizeof(varde_status_info), "ret_status"); !good) return good;
        const counters now = it.status();
        ret_status->incarnation = now.incarnation;
        ret_status->restored_step = now.restored_step;
        ret_status->saved_step = now.saved_step;
        ret_status->complete_step = now.complete_step;
        ret_status->failed_step = now.failed_step;
        ret_status->saves = now.saves;
        ret_status->staged_bytes = now.staged_bytes;
        ret_status->stall_ns = now.stall_ns;
        ret_status->stall_ns_max = now.stall_ns_max;
        ret_status->pinned_bytes = now.pinned_bytes;
        ret_status->pin_error = now.pin_error;
        return {};
    });
}

int varde_close(varde_run* of) noexcept {
    if (of == nullptr) return VARDE_OK;
    if (of->forked()) {
        of->discard_page();
        return VARDE_OK;
    }
    const int closed = call(of, [](run& it) { return it.close(); });
    if (closed != VARDE_OK)
        discard(fail_without_run(fail(static_cast<code>(closed), of->session->error_text)),
                "kept for varde_error_text(NULL)");
    delete of->session;
    of->session = nullptr;
    of->discard_page();
    return closed;
}

const char* varde_error_text(const varde_run* of) noexcept {
    if (of == nullptr) return open_failure[0] == '\0' ? no_text : open_failure.data();
    if (of->forked()) return forked_text;
    const std::lock_guard lock(of->session->calls);
    return of->session->error_text.empty() ? no_text : of->session->error_text.c_str();
}

const char* varde_code_name(int code) noexcept { return code_name(static_cast<varde::code>(code)); }

const char* varde_version(void) noexcept { return VARDE_VERSION; }

}  // extern "C"
