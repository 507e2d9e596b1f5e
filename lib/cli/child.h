// The srun that `varde run` starts: in our own process group and on our streams, so that a terminal and Slurm treat it
// as if the user had started it.  Main thread only.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace varde::cli {

class child {
public:
    // `variables` are set over our own environment.
    static result<child> start(const std::vector<std::string>& arguments,
                               const std::vector<std::pair<std::string, std::string>>& variables);

    pid_t pid() const noexcept { return pid_; }
    int fd() const noexcept { return process_.get(); }  // readable when it has ended
    // Its exit code, 128 + signal where it was killed; none: it runs.
    std::optional<int> ended();
    void pass_on(int signal) const;  // nothing where it has ended

private:
    pid_t pid_ = -1;
    unique_fd process_;
    std::optional<int> status_;
};

// The directory of PATH that has the program; "" where none has.
std::string directory_of_program(const std::string& name);

}  // namespace varde::cli
