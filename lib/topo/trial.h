// hwloc trusts what it reads, and ends the process where that is odd (2.9: null pointers in XML that is not its own, an
// assertion where a container hides /sys/devices/system/node): a child goes first.
#pragma once

#include "base/result.h"

#include <functional>
#include <string>

namespace varde::topo {

enum class words : bool { ignored, refused };

// What `make` returns in a child that is a copy of this process, but for the code of an error, which becomes `damaged`.
// What it writes to stderr is dropped, or where words are refused it is an error that there are any.  So it is one if
// the child dies, takes more than 1 GiB or 20 s.  A process that does the same thing on the same memory afterwards
// survives what the child did.  Blocking; to be called where no other thread holds a lock that `make` needs.
result<std::string> in_child(const std::function<result<std::string>()>& make, words said);

}  // namespace varde::topo
