// getaddrinfo() in threads of our own.  Not getaddrinfo_a(): glibc's gai_suspend() leaves its stack in a list that the
// look-ups' threads write into after it has returned (seen with 2.36; they set a result before they take the lock).
#include "base/resolve.h"

#include "base/clock.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <netdb.h>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace varde {

namespace {

constexpr size_t threads_max = 16;

struct question {
    std::string name;
    std::string service;
};

struct lookups {
    std::atomic<uint32_t> holders{0};
    std::vector<question> questions;
    std::mutex lock;
    std::condition_variable ended;
    std::vector<std::vector<socket_address>> found;
    size_t next = 0;
    size_t left = 0;
};

// The caller and each thread hold them, and the last one lets go: a thread that hangs in the resolver is left behind.
class holder {
public:
    explicit holder(lookups* held) noexcept : held_(held) { held_->holders++; }
    holder(holder&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
    holder(const holder&) = delete;
    holder& operator=(const holder&) = delete;
    holder& operator=(holder&&) = delete;
    ~holder() {
        if (held_ != nullptr && held_->holders.fetch_sub(1) == 1) delete held_;
    }
    lookups* operator->() const noexcept { return held_; }
    lookups& operator*() const noexcept { return *held_; }

private:
    lookups* held_;
};

std::vector<socket_address> addresses_of(const question& asked) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    std::vector<socket_address> found;
    if (::getaddrinfo(asked.name.c_str(), asked.service.c_str(), &hints, &list) != 0) return found;
    for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
        socket_address address;
        if (each->ai_addrlen > sizeof address.bytes) continue;
        std::memcpy(&address.bytes, each->ai_addr, each->ai_addrlen);
        address.size_bytes = each->ai_addrlen;
        found.push_back(address);
    }
    ::freeaddrinfo(list);
    return found;
}

void look_up(lookups& all) {
    std::unique_lock held(all.lock);
    while (all.next < all.questions.size()) {
        const size_t mine = all.next++;
        held.unlock();
        auto found = addresses_of(all.questions[mine]);
        held.lock();
        all.found[mine] = std::move(found);
        all.left--;
        all.ended.notify_one();
    }
}

// false: the host has no thread to give.
bool start_thread(lookups& all) {
    try {
        std::thread([mine = holder(&all)] { look_up(*mine); }).detach();
        return true;
    } catch (const std::system_error&) { return false; }
}

}  // namespace

std::vector<std::vector<socket_address>> resolve(const std::vector<node_facts>& nodes, uint16_t port, int timeout_ms) {
    const holder all(new lookups);
    for (const node_facts& node : nodes)
        all->questions.push_back({node.address, std::to_string(node.port != 0 ? node.port : port)});
    all->found.resize(nodes.size());
    all->left = nodes.size();
    size_t threads = 0;
    while (threads < std::min(nodes.size(), threads_max) && start_thread(*all)) threads++;
    std::unique_lock held(all->lock);
    if (threads > 0) all->ended.wait_for(held, std::chrono::milliseconds(timeout_ms), [&] { return all->left == 0; });
    all->next = nodes.size();  // nobody begins another one
    return all->found;         // a copy: a thread that was left behind may still write there
}

}  // namespace varde
