// The collective operations of the training: each rank sends to the next one and receives from the
// one before it, around a ring.
//
// Deterministic: element e of part p is summed in the order p+1, p+2, ..., p of the ranks, whatever
// arrives when.  There is no timeout, as in the usual collective libraries: a peer that vanishes
// without a word leaves the others waiting, and it is for whoever watches the job to end it.  A
// peer that closes its connection ends this process.  One thread.
#pragma once

#include "rendezvous.h"
#include "split.h"

#include <cstddef>
#include <poll.h>
#include <span>
#include <vector>

namespace train {

class ring {
public:
    explicit ring(const launch& place) : rank_(place.rank), world_(place.world) {
        if (world_ > 1) peers_ = rendezvous(place).meet();
    }
    size_t rank() const noexcept { return rank_; }
    size_t world() const noexcept { return world_; }

    // Afterwards this rank's part of `data` holds the sum over all ranks; the rest of it is used up.
    void reduce_scatter(std::span<float> data) {
        scratch_.resize(data.size() / world_ + 1);
        for (size_t turn = 1; turn < world_; turn++) {
            const std::span<float> sent = slice(data, rank_ + world_ - turn);
            const std::span<float> target = slice(data, rank_ + 2 * world_ - turn - 1);
            const std::span<float> received = std::span(scratch_).first(target.size());
            exchange(std::as_bytes(sent), std::as_writable_bytes(received));
            for (size_t i = 0; i < target.size(); i++) target[i] += received[i];
        }
    }

    // Afterwards each rank has every rank's own part of `data`.
    template <class T>
    void all_gather(std::span<T> data) {
        for (size_t turn = 0; turn + 1 < world_; turn++)
            exchange(std::as_bytes(slice(data, rank_ + world_ - turn)),
                     std::as_writable_bytes(slice(data, rank_ + 2 * world_ - turn - 1)));
    }

    // One value of each rank, in the order of the ranks.
    template <class T>
    std::vector<T> gather(T mine) {
        std::vector<T> all(world_);
        all[rank_] = mine;
        all_gather(std::span(all));
        return all;
    }

private:
    template <class T>
    std::span<T> slice(std::span<T> data, size_t index) const noexcept {
        const part which = part_of(data.size(), world_, index % world_);
        return data.subspan(which.offset, which.count);
    }

    // Both directions at once: if every rank sent first, all would wait for a reader.
    void exchange(std::span<const std::byte> out, std::span<std::byte> in) {
        while (!out.empty() || !in.empty()) {
            pollfd ready[2] = {{out.empty() ? -1 : peers_.next.fd(), POLLOUT, 0},
                               {in.empty() ? -1 : peers_.previous.fd(), POLLIN, 0}};
            if (::poll(ready, 2, -1) < 0 && errno != EINTR)
                die("rank %zu couldn't wait for its peers: %s", rank_, reason());
            if (ready[0].revents != 0) {
                const ssize_t count = ::send(peers_.next.fd(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
                out = out.subspan(moved(count, (rank_ + 1) % world_));
            }
            if (ready[1].revents != 0) {
                const ssize_t count = ::recv(peers_.previous.fd(), in.data(), in.size(), MSG_DONTWAIT);
                if (count == 0) errno = ECONNRESET;
                in = in.subspan(moved(count == 0 ? -1 : count, (rank_ + world_ - 1) % world_));
            }
        }
    }

    size_t moved(ssize_t count, size_t peer) const {
        if (count >= 0) return static_cast<size_t>(count);
        if (errno == EAGAIN || errno == EINTR) return 0;
        die("rank %zu lost rank %zu: %s", rank_, peer, reason());
    }

    size_t rank_;
    size_t world_;
    neighbours peers_;
    std::vector<float> scratch_;
};

}  // namespace train
