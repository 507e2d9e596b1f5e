// Plays a training job on this machine: N rank processes that restore, verify every byte, step, save, and say what
// happened.
//
//   ranks [--ranks N] [--steps N] [--every N] [--bytes N] [--tensors N] [--step-ms N] [--seed N] [--keep-going]
//         [--gpu] [--hold-ms N] [--directory DIR] [--name NAME] [--socket PATH]
//
// Every tensor is split by rows over the ranks (one is replicated), and each byte follows from seed, tensor, step and
// its place in the whole tensor, so a restore can be verified with any number of ranks.  --bytes is of all ranks
// together; --every N saves each N steps besides what is due; --hold-ms says when the last step's copies are made and
// stays that long; --keep-going does not wait for the last save; --gpu has the tensors in GPU memory, by the driver
// that tests/gpu/rig.h opens.  Each rank prints one line at its start and one at its end:
//   rank 0: restored step 20, 8.0 MiB verified
//   rank 0: done at step 40, saves 4, complete 40, failed 0, stall 1.2 ms
// Exit: 0 all ranks went well; 1 a rank failed (its line says why); 2 usage.
#include "tests/gpu/rig.h"
#include "varde.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace {

struct plan {
    uint64_t ranks = 1, steps = 10, every = 0, bytes = 8 << 20, tensors = 7, step_ms = 5, seed = 1, hold_ms = 0;
    bool keep_going = false, gpu = false;
    std::string directory, name, socket;
};

struct tensor {
    std::string name;
    varde_dtype type{};
    uint64_t element_bytes = 0;
    uint64_t rows = 0, columns = 0;
    uint64_t first_row = 0, own_rows = 0;
    bool split = true;
    std::vector<std::byte> data;
    std::byte* on_gpu = nullptr;
};

uint64_t mix(uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

// The bytes [begin, begin + size) of a tensor as they are after `step` steps.
void fill(std::byte* target, uint64_t begin, uint64_t size, uint64_t key) {
    uint64_t done = 0;
    while (done < size) {
        const uint64_t at = begin + done;
        const uint64_t word = mix(key ^ (at / 8));
        const uint64_t skip = at % 8;
        const uint64_t count = std::min<uint64_t>(8 - skip, size - done);
        std::memcpy(target + done, reinterpret_cast<const unsigned char*>(&word) + skip, count);
        done += count;
    }
}

std::vector<tensor> make_tensors(const plan& with, uint64_t rank) {
    static constexpr std::pair<varde_dtype, uint64_t> types[] = {
        {VARDE_F32, 4}, {VARDE_BF16, 2}, {VARDE_U8, 1}, {VARDE_F64, 8}, {VARDE_I64, 8}};
    std::vector<tensor> made;
    for (uint64_t i = 0; i < with.tensors; i++) {
        tensor one;
        one.name = "layer." + std::to_string(i) + ".weight";
        std::tie(one.type, one.element_bytes) = types[mix(with.seed + i) % std::size(types)];
        one.columns = 1 + mix(with.seed * 31 + i) % 97;
        one.split = i != 1;
        const uint64_t share = with.bytes / with.tensors;
        one.rows =
            i == 2 ? 1 : std::max<uint64_t>(1, share / (one.columns * one.element_bytes));  // 2: fewer rows than ranks
        if (!one.split) one.rows = 3;
        one.first_row = one.split ? one.rows * rank / with.ranks : 0;
        one.own_rows = one.split ? one.rows * (rank + 1) / with.ranks - one.first_row : one.rows;
        one.data.resize(one.own_rows * one.columns * one.element_bytes);
        made.push_back(std::move(one));
    }
    return made;
}

uint64_t key_of(const plan& with, size_t index, uint64_t step) {
    return mix(with.seed ^ mix(step * 1'000'003 + index));
}

void compute(const plan& with, std::vector<tensor>& tensors, uint64_t step) {
    for (size_t i = 0; i < tensors.size(); i++) {
        auto& one = tensors[i];
        fill(one.data.data(), one.first_row * one.columns * one.element_bytes, one.data.size(), key_of(with, i, step));
    }
}

// The name of the first tensor that is not as it was after `step` steps; "" if all are.
std::string verify(const plan& with, const std::vector<tensor>& tensors, uint64_t step) {
    std::vector<std::byte> expected;
    for (size_t i = 0; i < tensors.size(); i++) {
        const auto& one = tensors[i];
        expected.resize(one.data.size());
        fill(expected.data(), one.first_row * one.columns * one.element_bytes, expected.size(), key_of(with, i, step));
        if (expected != one.data) return one.name;
    }
    return {};
}

class player {
public:
    player(const plan& with, uint64_t rank) : with_(with), rank_(rank), tensors_(make_tensors(with, rank)) {
        if (!with.gpu) return;
        gpu_.emplace();
        for (auto& one : tensors_)
            if (!one.data.empty()) one.on_gpu = gpu_->device_memory(0, one.data.size());
    }
    ~player() { varde_close(run_); }
    player(const player&) = delete;
    player& operator=(const player&) = delete;
    bool play();

private:
    bool open();
    bool restore(uint64_t& step);
    bool finish(uint64_t step);
    void step_to(uint64_t step);
    bool say(bool good, const char* format, ...) __attribute__((format(printf, 3, 4)));
    bool failed(const char* call) { return say(false, "%s: %s", call, varde_error_text(run_)); }

    const plan& with_;
    uint64_t rank_;
    std::vector<tensor> tensors_;
    std::optional<varde::test::rig> gpu_;
    varde_run* run_ = nullptr;
};

bool player::say(bool good, const char* format, ...) {
    char text[2048];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    std::printf("rank %llu: %s\n", static_cast<unsigned long long>(rank_), text);
    std::fflush(stdout);
    return good;
}

// The tensors as they are after `step` steps.
void player::step_to(uint64_t step) {
    compute(with_, tensors_, step);
    for (const auto& one : tensors_)
        if (one.on_gpu != nullptr) gpu_->write(0, one.on_gpu, one.data);
}

bool player::open() {
    varde_options options = VARDE_OPTIONS_INIT;
    if (!with_.directory.empty()) options.directory = with_.directory.c_str();
    if (!with_.name.empty()) options.name = with_.name.c_str();
    if (!with_.socket.empty()) options.socket = with_.socket.c_str();
    options.rank = static_cast<int32_t>(rank_);
    options.world = static_cast<int32_t>(with_.ranks);
    if (varde_open(&options, &run_) != VARDE_OK) return failed("varde_open");
    for (auto& one : tensors_) {
        const uint64_t shape[] = {one.own_rows, one.columns};
        const uint64_t whole[] = {one.rows, one.columns};
        const uint64_t offset[] = {one.first_row, 0};
        varde_shard shard{};
        shard.size = sizeof shard;
        shard.name = one.name.c_str();
        shard.dtype = one.type;
        shard.dims = 2;
        shard.shape = shape;
        shard.global_shape = one.split ? whole : nullptr;
        shard.offset = one.split ? offset : nullptr;
        shard.data = one.on_gpu != nullptr ? one.on_gpu : one.data.data();
        if (varde_register(run_, &shard) != VARDE_OK) return failed("varde_register");
    }
    return true;
}

bool player::restore(uint64_t& step) {
    if (varde_restore(run_, &step) != VARDE_OK) return failed("varde_restore");
    uint64_t bytes = 0;
    for (const auto& one : tensors_) bytes += one.data.size();
    if (step == 0) {
        step_to(0);
        return say(true, "nothing to restore, %.1f MiB", static_cast<double>(bytes) / (1 << 20));
    }
    for (auto& one : tensors_)
        if (one.on_gpu != nullptr) one.data = gpu_->read(0, one.on_gpu, one.data.size());
    const std::string wrong = verify(with_, tensors_, step);
    if (!wrong.empty())
        return say(false, "restored step %llu, but '%s' has other bytes", static_cast<unsigned long long>(step),
                   wrong.c_str());
    return say(true, "restored step %llu, %.1f MiB verified", static_cast<unsigned long long>(step),
               static_cast<double>(bytes) / (1 << 20));
}

bool player::finish(uint64_t step) {
    int last = VARDE_OK;
    if (!with_.keep_going) last = varde_wait(run_, 60'000);
    if (last != VARDE_OK) say(false, "varde_wait: %s", varde_error_text(run_));
    varde_status_info now{};
    now.size = sizeof now;
    if (varde_status(run_, &now) != VARDE_OK) return failed("varde_status");
    if (with_.hold_ms > 0) {
        if (varde_fence(run_) != VARDE_OK) return failed("varde_fence");
        say(true, "copies made, holding at step %llu", static_cast<unsigned long long>(step));
        ::usleep(static_cast<useconds_t>(with_.hold_ms * 1000));
    }
    return say(last == VARDE_OK, "done at step %llu, saves %llu, complete %llu, failed %llu, stall %.1f ms",
               static_cast<unsigned long long>(step), static_cast<unsigned long long>(now.saves),
               static_cast<unsigned long long>(now.complete_step), static_cast<unsigned long long>(now.failed_step),
               static_cast<double>(now.stall_ns) / 1e6);
}

bool player::play() {
    uint64_t step = 0;
    if (!open() || !restore(step)) return false;
    while (step < with_.steps) {
        ::usleep(static_cast<useconds_t>(with_.step_ms * 1000));
        if (varde_fence(run_) != VARDE_OK) say(true, "varde_fence: %s", varde_error_text(run_));
        step++;
        step_to(step);
        const bool asked = varde_due(run_, step) != 0 || (with_.every != 0 && step % with_.every == 0);
        if (asked && varde_save(run_, step) != VARDE_OK) say(true, "varde_save: %s", varde_error_text(run_));
    }
    return finish(step);
}

bool parse(int argc, char** argv, plan& with) {
    static constexpr option names[] = {
        {"ranks", 1, nullptr, 'r'},  {"steps", 1, nullptr, 's'},      {"every", 1, nullptr, 'e'},
        {"bytes", 1, nullptr, 'b'},  {"tensors", 1, nullptr, 't'},    {"step-ms", 1, nullptr, 'm'},
        {"seed", 1, nullptr, 'd'},   {"keep-going", 0, nullptr, 'k'}, {"hold-ms", 1, nullptr, 'h'},
        {"gpu", 0, nullptr, 'g'},    {"directory", 1, nullptr, 'D'},  {"name", 1, nullptr, 'N'},
        {"socket", 1, nullptr, 'S'}, {nullptr, 0, nullptr, 0}};
    for (int which; (which = ::getopt_long(argc, argv, "", names, nullptr)) != -1;) {
        const auto number = [] { return std::strtoull(optarg, nullptr, 10); };
        switch (which) {
        case 'r': with.ranks = number(); break;
        case 's': with.steps = number(); break;
        case 'e': with.every = number(); break;
        case 'b': with.bytes = number(); break;
        case 't': with.tensors = number(); break;
        case 'm': with.step_ms = number(); break;
        case 'd': with.seed = number(); break;
        case 'h': with.hold_ms = number(); break;
        case 'k': with.keep_going = true; break;
        case 'g': with.gpu = true; break;
        case 'D': with.directory = optarg; break;
        case 'N': with.name = optarg; break;
        case 'S': with.socket = optarg; break;
        default: return false;
        }
    }
    return optind == argc && with.ranks > 0 && with.ranks <= 256 && with.tensors > 0;
}

}  // namespace

int main(int argc, char** argv) {
    plan with;
    if (!parse(argc, argv, with)) {
        std::fprintf(
            stderr,
            "usage: ranks [--ranks N] [--steps N] [--every N] [--bytes N] [--tensors N] [--step-ms N] [--seed N]\n"
            "             [--keep-going] [--gpu] [--hold-ms N] [--directory DIR] [--name NAME] [--socket PATH]\n");
        return 2;
    }
    for (uint64_t rank = 0; rank < with.ranks; rank++) {
        const pid_t child = ::fork();
        if (child < 0) return 1;
        if (child == 0) {
            bool good = false;
            {
                player one(with, rank);
                good = one.play();
            }
            std::exit(good ? 0 : 1);
        }
    }
    int worst = 0;
    for (int status = 0; ::wait(&status) > 0;) worst |= WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
    return worst;
}
