// The Adam optimizer for one part of the weights.  Each rank keeps the two moments of its own part
// only, so the optimizer's state is divided among the ranks, not repeated on each.  One thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace train {

class adam {
public:
    adam(size_t count, float rate) : rate_(rate), mean_(count), square_(count) {}

    std::span<float> mean() noexcept { return mean_; }
    std::span<float> square() noexcept { return square_; }

    // `step` counts from 1.  Both spans have the size given at the start.
    void update(std::span<float> weights, std::span<const float> gradients, uint64_t step) noexcept {
        constexpr float keep_mean = 0.9F;
        constexpr float keep_square = 0.999F;
        const double age = static_cast<double>(step);
        const float mean_scale = rate_ / static_cast<float>(1 - std::pow(keep_mean, age));
        const float square_scale = 1 / static_cast<float>(1 - std::pow(keep_square, age));
        for (size_t i = 0; i < weights.size(); i++) {
            const float gradient = gradients[i];
            mean_[i] = keep_mean * mean_[i] + (1 - keep_mean) * gradient;
            square_[i] = keep_square * square_[i] + (1 - keep_square) * gradient * gradient;
            weights[i] -= mean_scale * mean_[i] / (std::sqrt(square_scale * square_[i]) + 1e-8F);
        }
    }

private:
    float rate_;
    std::vector<float> mean_;
    std::vector<float> square_;
};

}  // namespace train
