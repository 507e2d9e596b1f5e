// How `total` elements are divided among `world` ranks: in order, without gaps, sizes that differ
// by one at most.  The division of the weights for the ring, the optimizer and the checkpoint is
// this one.
#pragma once

#include <cstddef>

namespace train {

struct part {
    size_t offset;
    size_t count;
};

constexpr part part_of(size_t total, size_t world, size_t index) noexcept {
    const size_t begin = total * index / world;
    return {begin, total * (index + 1) / world - begin};
}

}  // namespace train
