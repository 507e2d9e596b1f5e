// Messages on the agent's socket: bytes in, and whatever is accepted must be exactly what encode() makes.
//
// The first byte says how the rest is read: as the payload of one kind of message, or as a stream of frames cut at
// odd places.
#include "arena/protocol.h"

#include <cstdint>
#include <cstdlib>

using namespace varde::arena;

namespace {

template <class T>
void payload(std::string_view bytes) {
    const auto body = decode<T>(bytes);
    if (body && encode(*body) != bytes) std::abort();
}

void stream(std::string_view bytes, size_t piece) {
    frame_reader reader;
    frame out;
    size_t frames = 0;
    for (size_t at = 0; at < bytes.size(); at += piece) {
        reader.feed(bytes.substr(at, piece));
        for (;;) {
            const auto more = reader.next(out);
            if (!more) return;
            if (!*more) break;
            frames++;
            if (out.payload.size() > bytes.size()) std::abort();
        }
    }
    if (frames * 16 > bytes.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0] % 16) {
    case 1: payload<hello>(bytes); break;
    case 2: payload<welcome>(bytes); break;
    case 3: payload<refused>(bytes); break;
    case 4: payload<layout>(bytes); break;
    case 5: payload<restore>(bytes); break;
    case 6: payload<restore_chunk>(bytes); break;
    case 7: payload<chunk_taken>(bytes); break;
    case 8: payload<restored>(bytes); break;
    case 9: payload<save>(bytes); break;
    case 10: payload<give_up>(bytes); break;
    case 11: payload<bye>(bytes); break;
    default: stream(bytes, 1 + data[0] / 16 * 7); break;
    }
    return 0;
}
