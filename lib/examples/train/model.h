// A small language model over bytes: it guesses the next byte of a text from the six before it.
//
//   the last 1, 2, ... 6 bytes, hashed  ->  6 rows of one big table  ->  hidden layer  ->  softmax
//
// The table holds nearly all weights and costs nearly no arithmetic, so the state is large enough
// to be worth a checkpoint while a step stays short.  All weights lie in one flat array, because
// that is what ranks exchange, divide and save.  Every sum runs in a fixed order, so the same input
// gives the same bits (on one kind of CPU: expf may differ between kinds).  One thread.
#pragma once

#include "hash.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace train {

// y += a * x
template <size_t n>
void add_scaled(float* __restrict y, float a, const float* __restrict x) noexcept {
    for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}

// The sum is kept in eight lanes: the compiler may not reorder a float sum by itself.
template <size_t n>
float dot(const float* __restrict x, const float* __restrict y) noexcept {
    static_assert(n % 8 == 0);
    std::array<float, 8> lanes{};
    for (size_t i = 0; i < n; i += 8)
        for (size_t lane = 0; lane < 8; lane++) lanes[lane] += x[i + lane] * y[i + lane];
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

class model {
public:
    static constexpr size_t orders = 6;  // how many bytes back it looks
    static constexpr size_t width = 16;  // of a table row
    static constexpr size_t inputs = orders * width;
    static constexpr size_t hidden = 64;
    static constexpr size_t outputs = 256;

    model(size_t rows, uint64_t seed) : rows_(rows), weights_(end_of(rows)), gradients_(weights_.size()) {
        fill(0, rows * width, 0.1F, seed);
        fill(hidden_at(), inputs * hidden, 1.0F / std::sqrt(static_cast<float>(inputs)), seed);
        fill(output_at(), hidden * outputs, 1.0F / std::sqrt(static_cast<float>(hidden)), seed);
    }

    std::span<float> weights() noexcept { return weights_; }
    std::span<float> gradients() noexcept { return gradients_; }

    // The mean loss (nats per byte) of guessing text[p] for each p of `positions` (each at least
    // `orders`); gradients() becomes the gradient of that mean times `share`.
    double learn(std::string_view text, std::span<const size_t> positions, float share) {
        std::fill(gradients_.begin(), gradients_.end(), 0.0F);
        const float scale = share / static_cast<float>(positions.size());
        double loss = 0;
        for (const size_t position : positions) loss += learn_one(text, position, scale);
        return loss / static_cast<double>(positions.size());
    }

private:
    using input = std::array<float, inputs>;
    using layer = std::array<float, hidden>;
    using output = std::array<float, outputs>;

    // The flat array: table[rows][width], the hidden layer [inputs][hidden] and its bias, the
    // output layer [hidden][outputs] and its bias.
    size_t hidden_at() const noexcept { return rows_ * width; }
    size_t hidden_bias_at() const noexcept { return hidden_at() + inputs * hidden; }
    size_t output_at() const noexcept { return hidden_bias_at() + hidden; }
    size_t output_bias_at() const noexcept { return output_at() + hidden * outputs; }
    static size_t end_of(size_t rows) noexcept {
        return rows * width + inputs * hidden + hidden + hidden * outputs + outputs;
    }

    // Each weight's first value depends on its place alone, so all ranks begin with the same ones.
    void fill(size_t offset, size_t count, float bound, uint64_t seed) noexcept {
        constexpr float half_range = 1U << 23;  // 24 random bits: as many as a float holds exactly
        for (size_t i = offset; i < offset + count; i++) {
            const float random = static_cast<float>(mix(seed ^ mix(i)) >> 40);
            weights_[i] = bound * (random / half_range - 1);
        }
    }

    std::array<size_t, orders> table_rows(std::string_view text, size_t position) const noexcept {
        std::array<size_t, orders> rows{};
        uint64_t hash = 0;
        for (size_t order = 0; order < orders; order++) {
            hash = mix(hash ^ static_cast<uint8_t>(text[position - 1 - order]));
            rows[order] = hash % rows_;
        }
        return rows;
    }

    double learn_one(std::string_view text, size_t position, float scale) noexcept {
        const auto rows = table_rows(text, position);
        input x;
        for (size_t order = 0; order < orders; order++)
            std::copy_n(&weights_[rows[order] * width], width, &x[order * width]);
        layer h;
        std::copy_n(&weights_[hidden_bias_at()], hidden, h.data());
        for (size_t i = 0; i < inputs; i++) add_scaled<hidden>(h.data(), x[i], &weights_[hidden_at() + i * hidden]);
        for (float& each : h) each = std::max(each, 0.0F);
        output y;
        std::copy_n(&weights_[output_bias_at()], outputs, y.data());
        for (size_t j = 0; j < hidden; j++) add_scaled<outputs>(y.data(), h[j], &weights_[output_at() + j * outputs]);

        const double loss = softmax_loss(y, static_cast<uint8_t>(text[position]), scale);
        go_back(rows, x, h, y);
        return loss;
    }

    // `y` becomes the gradient of the loss times `scale`.
    static double softmax_loss(output& y, size_t target, float scale) noexcept {
        const float highest = *std::max_element(y.begin(), y.end());
        const float of_target = y[target] - highest;
        float sum = 0;
        for (float& each : y) sum += each = std::exp(each - highest);
        for (float& each : y) each *= scale / sum;
        y[target] -= scale;
        return static_cast<double>(std::log(sum) - of_target);
    }

    void go_back(const std::array<size_t, orders>& rows, const input& x, const layer& h, const output& dy) noexcept {
        add_scaled<outputs>(&gradients_[output_bias_at()], 1.0F, dy.data());
        layer dh;
        for (size_t j = 0; j < hidden; j++) {
            const size_t at = output_at() + j * outputs;
            add_scaled<outputs>(&gradients_[at], h[j], dy.data());
            dh[j] = h[j] > 0 ? dot<outputs>(&weights_[at], dy.data()) : 0.0F;
        }
        add_scaled<hidden>(&gradients_[hidden_bias_at()], 1.0F, dh.data());
        for (size_t i = 0; i < inputs; i++) {
            const size_t at = hidden_at() + i * hidden;
            add_scaled<hidden>(&gradients_[at], x[i], dh.data());
            gradients_[rows[i / width] * width + i % width] += dot<hidden>(&weights_[at], dh.data());
        }
    }

    size_t rows_;
    std::vector<float> weights_;
    std::vector<float> gradients_;
};

}  // namespace train
