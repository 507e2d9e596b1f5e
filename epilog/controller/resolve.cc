// glibc's getaddrinfo_a(): look-ups in threads of its own, and a wait that ends.
#include "epilog/controller/resolve.h"

#include "base/clock.h"

#include <cstring>
#include <memory>
#include <netdb.h>
#include <string>

namespace varde::controller {

namespace {

struct lookup {
    std::string name;
    std::string service;
    addrinfo hints{};
    gaicb request{};

    lookup(const node_facts& node, uint16_t port)
        : name(node.address), service(std::to_string(node.port != 0 ? node.port : port)) {
        hints.ai_socktype = SOCK_STREAM;
        request.ar_name = name.c_str();
        request.ar_service = service.c_str();
        request.ar_request = &hints;
    }
    ~lookup() {
        if (request.ar_result != nullptr) ::freeaddrinfo(request.ar_result);
    }
    lookup(const lookup&) = delete;
    lookup& operator=(const lookup&) = delete;
};

void wait_for_all(std::vector<gaicb*>& requests, int timeout_ms) {
    const auto until = deadline::in_ms(static_cast<uint64_t>(timeout_ms));
    for (;;) {
        bool under_way = false;
        for (const gaicb* each : requests)
            under_way = under_way || ::gai_error(const_cast<gaicb*>(each)) == EAI_INPROGRESS;
        if (!under_way || until.passed()) return;
        const int left_ms = until.left_ms();
        const timespec left{left_ms / 1000, left_ms % 1000 * static_cast<long>(ns_per_ms)};
        // It returns as soon as one of them has ended; what it says is in gai_error() as well.
        ::gai_suspend(requests.data(), static_cast<int>(requests.size()), &left);
    }
}

std::vector<socket_address> addresses_of(const lookup& ended) {
    std::vector<socket_address> found;
    for (const addrinfo* each = ended.request.ar_result; each != nullptr; each = each->ai_next) {
        socket_address address;
        if (each->ai_addrlen > sizeof address.bytes) continue;
        std::memcpy(&address.bytes, each->ai_addr, each->ai_addrlen);
        address.size_bytes = each->ai_addrlen;
        found.push_back(address);
    }
    return found;
}

}  // namespace

std::vector<std::vector<socket_address>> resolve(const std::vector<node_facts>& nodes, uint16_t port, int timeout_ms) {
    std::vector<std::unique_ptr<lookup>> lookups;
    std::vector<gaicb*> requests;
    for (const node_facts& node : nodes) {
        lookups.push_back(std::make_unique<lookup>(node, port));
        requests.push_back(&lookups.back()->request);
    }
    std::vector<std::vector<socket_address>> found(nodes.size());
    if (nodes.empty()) return found;
    // On failure some or none of them have begun; those that have not are in no state to be waited for.
    if (::getaddrinfo_a(GAI_NOWAIT, requests.data(), static_cast<int>(requests.size()), nullptr) == 0)
        wait_for_all(requests, timeout_ms);
    for (size_t i = 0; i < nodes.size(); i++) {
        const bool stopped = ::gai_error(requests[i]) != EAI_INPROGRESS || ::gai_cancel(requests[i]) == EAI_CANCELED;
        if (stopped) found[i] = addresses_of(*lookups[i]);
        // A thread of the C library still writes into it.  The program ends soon, and the thread with it.
        else discard(static_cast<int>(lookups[i].release() != nullptr), "it is given to that thread");
    }
    return found;
}

}  // namespace varde::controller
