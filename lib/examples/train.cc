// Trains a small language model, data-parallel, with checkpoints by Varde: the example of the
// README, and what `make demo` runs.
//
// Each rank computes gradients on its own batch.  Around a ring they become sums, divided among the
// ranks; each rank updates its own part of the weights with its own part of Adam's state, and the
// new weights go around the ring again.  So a rank's state is one part of three arrays (weights and
// two moments), and that is what it registers.  Batches are drawn from (seed, step, rank) alone: a
// restart at step N repeats, to the bit, what the first run did after N steps.  The lines that
// Varde asks for are those with `varde_` in them; the rest is training.  One thread.
#include "train/adam.h"
#include "train/hash.h"
#include "train/model.h"
#include "train/options.h"
#include "train/ring.h"
#include "train/text.h"

#include <varde.h>

#include <chrono>
#include <thread>

using namespace train;

namespace {

// A checkpoint that fails is worth a line; training goes on.
void report(const varde_run* run, int code) {
    if (code != VARDE_OK) warn("%s", varde_error_text(run));
}

// One part of a tensor, as Varde sees it: elements [mine.offset, + mine.count) of `total`.
void register_part(varde_run* run, const char* name, float* data, part mine, uint64_t total) {
    const uint64_t shape = mine.count, offset = mine.offset;
    const varde_shard shard{sizeof(shard), name, VARDE_F32, 1, &shape, &total, &offset, data};
    // Going on would train with a checkpoint that lacks a tensor: that is no checkpoint.
    if (varde_register(run, &shard) != VARDE_OK) die("%s", varde_error_text(run));
}

// Where this rank reads in this step: the same places whenever the step is run.
std::vector<size_t> draw_batch(const options& chosen, uint64_t step, size_t rank, size_t text_bytes) {
    const uint64_t draw = mix(chosen.seed ^ mix(step ^ mix(rank)));
    std::vector<size_t> positions(chosen.batch);
    for (size_t i = 0; i < positions.size(); i++)
        positions[i] = model::orders + mix(draw ^ i) % (text_bytes - model::orders);
    return positions;
}

// Ranks with different texts or steps would go on quietly, and learn nonsense.
void require_agreement(ring& peers, uint64_t step, const std::string& text) {
    const uint64_t mine = mix(step ^ fnv1a(std::as_bytes(std::span(text))));
    for (const uint64_t other : peers.gather(mine))
        if (other != mine)
            die("rank %zu begins at step %ju with %zu bytes of text, and another rank differs", peers.rank(),
                uintmax_t{step}, text.size());
}

double mean_over_ranks(ring& peers, double mine) {
    double sum = 0;
    for (const double each : peers.gather(mine)) sum += each;
    return sum / static_cast<double>(peers.world());
}

// Each rank sums up the part of the weights that it owns; the sum of these sums names the whole.
void print_checksum(ring& peers, std::span<const float> own_weights, const std::string& file_name) {
    const std::vector<uint64_t> sums = peers.gather(fnv1a(std::as_bytes(own_weights)));
    if (peers.rank() != 0) return;
    char checksum[17];
    std::snprintf(checksum, sizeof(checksum), "%016jx", uintmax_t{fnv1a(std::as_bytes(std::span(sums)))});
    std::printf("final weights fnv1a64 %s\n", checksum);
    if (file_name.empty()) return;
    std::FILE* file = std::fopen(file_name.c_str(), "we");
    if (!file || std::fprintf(file, "%s\n", checksum) < 0 || std::fclose(file) != 0)
        die("couldn't write '%s': %s", file_name.c_str(), reason());
}

// Waits, when it goes, until it has existed for so long.
class pace {
public:
    explicit pace(uint64_t ms) : until_(std::chrono::steady_clock::now() + std::chrono::milliseconds(ms)) {}
    ~pace() { std::this_thread::sleep_until(until_); }
    pace(const pace&) = delete;
    pace& operator=(const pace&) = delete;

private:
    std::chrono::steady_clock::time_point until_;
};

}  // namespace

int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    const options chosen = read_options(argc, argv);
    const std::string text = load_text(chosen.text);
    ring peers(find_launch());
    model network(chosen.rows, chosen.seed);
    const uint64_t total = network.weights().size();
    const part mine = part_of(total, peers.world(), peers.rank());
    const std::span<float> own_weights = network.weights().subspan(mine.offset, mine.count);
    const std::span<float> own_gradients = network.gradients().subspan(mine.offset, mine.count);
    adam optimizer(mine.count, 0.002F);
    uint64_t step = 0;

    varde_run* run = nullptr;
    // Without it training would begin at step 0, whatever there is to restore.
    if (chosen.checkpoints && varde_open(nullptr, &run) != VARDE_OK) die("%s", varde_error_text(nullptr));
    if (run) {
        register_part(run, "weights", own_weights.data(), mine, total);
        register_part(run, "adam.mean", optimizer.mean().data(), mine, total);
        register_part(run, "adam.square", optimizer.square().data(), mine, total);
        if (varde_restore(run, &step) != VARDE_OK) die("%s", varde_error_text(run));
    }

    require_agreement(peers, step, text);
    peers.all_gather(network.weights());  // each rank has restored its own part
    if (peers.rank() == 0) std::printf("starting at step %ju\n", uintmax_t{step});
    while (step < chosen.steps) {
        const pace at_least(chosen.step_ms);
        const double loss = network.learn(text, draw_batch(chosen, step, peers.rank(), text.size()),
                                          1.0F / static_cast<float>(peers.world()));
        peers.reduce_scatter(network.gradients());
        if (run) report(run, varde_fence(run));
        optimizer.update(own_weights, own_gradients, ++step);
        peers.all_gather(network.weights());
        const bool wanted = chosen.save_every > 0 && step % chosen.save_every == 0;
        if (run && (varde_due(run, step) || wanted)) report(run, varde_save(run, step));
        if (step % chosen.print_every > 0 && step < chosen.steps) continue;
        const double mean = mean_over_ranks(peers, loss);
        if (peers.rank() == 0) std::printf("step %ju loss %.4f at %s\n", uintmax_t{step}, mean, wall_time().c_str());
    }
    print_checksum(peers, own_weights, chosen.result);
    if (const int code = varde_close(run)) warn("varde_close: %s", varde_code_name(code));
    return 0;
}
