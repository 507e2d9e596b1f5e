// What must hold in every world.  The first promise that is broken ends the seed and is told with the events before it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace varde::simulate {

class promises {
public:
    // For the story that is told when a promise is broken.
    void note(uint64_t now_ns, const std::string& what);
    void hold(bool held, uint64_t now_ns, const std::string& promise);

    bool broken() const noexcept { return !broken_.empty(); }
    std::string story() const;

private:
    std::string broken_;
    std::deque<std::string> events_;
};

}  // namespace varde::simulate
