// Nanoseconds of one varde_due, through the shared library as a training program calls it, with a real agent behind it.
#include "figure.h"

#include "base/clock.h"
#include "varde.h"

#include <cstdlib>
#include <dlfcn.h>

namespace varde::bench {

namespace {

constexpr uint64_t calls = 5'000'000;

struct library {
    void* handle = nullptr;
    int (*open)(const varde_options*, varde_run**) = nullptr;
    int (*restore)(varde_run*, uint64_t*) = nullptr;
    int (*due)(varde_run*, uint64_t) = nullptr;
    int (*close)(varde_run*) = nullptr;
    const char* (*error_text)(const varde_run*) = nullptr;
};

result<library> load(const std::string& path) {
    library loaded;
    loaded.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loaded.handle == nullptr) return fail(code::not_found, ::dlerror());
    bool whole = true;
    const auto find = [&](auto& to, const char* name) {
        to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(::dlsym(loaded.handle, name));
        whole = whole && to != nullptr;
    };
    find(loaded.open, "varde_open");
    find(loaded.restore, "varde_restore");
    find(loaded.due, "varde_due");
    find(loaded.close, "varde_close");
    find(loaded.error_text, "varde_error_text");
    if (!whole) return fail(code::mismatch, "'" + path + "' lacks a function of varde.h");
    return loaded;
}

}  // namespace

result<figure> due_time(const settings& with) {
    const std::string build = with.program_directory + "/../..";
    const result<library> varde = load(build + "/libvarde.so");
    if (!varde) return varde.error();
    ::setenv("VARDE_AGENT", (build + "/bin/varde-agent").c_str(), 1);
    const std::string directory = with.directory + "/due";
    varde_options options = VARDE_OPTIONS_INIT;
    options.directory = directory.c_str();
    options.name = "run";
    options.launch = "bench";
    options.interval_s = 3600;
    options.rank = options.local_rank = options.node_index = 0;
    options.world = options.local_count = options.node_count = 1;
    varde_run* run = nullptr;
    if (const int opened = varde->open(&options, &run); opened != VARDE_OK)
        return fail(static_cast<code>(opened), varde->error_text(nullptr));
    uint64_t step = 0;
    if (const int restored = varde->restore(run, &step); restored != VARDE_OK)
        return fail(static_cast<code>(restored), varde->error_text(run));
    std::vector<double> times;
    for (unsigned i = 0; i < with.pairs; ++i) {
        // CPU time: what other programs take from this thread is not the call's.
        const uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (uint64_t call = 0; call < calls; ++call) discard(varde->due(run, ++step), "only its time matters");
        const auto took_ns = static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start);
        times.push_back(took_ns / static_cast<double>(calls));
    }
    if (const int closed = varde->close(run); closed != VARDE_OK)
        return fail(static_cast<code>(closed), "couldn't close the run");
    // A step is milliseconds: 20 ns are nothing, and far below what a lock or a system call would cost.
    return figure{"due_ns", "ns", median(times), 20, false, with.pairs, std::to_string(calls) + " calls each"};
}

}  // namespace varde::bench
