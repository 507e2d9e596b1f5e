// /run/varde/JOBID: the job's place on this node, root's own.  It holds agent.sock and state.json.
//
// Every step below the run directory is an openat() without following links, on directories that only root can write;
// the user gets the socket and nothing else, so no name here is ever the user's.  Also for the epilog and another
// prolog of the same job.
#pragma once

#include "base/handle.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace varde::node {

constexpr const char* run_directory_path = "/run/varde";
constexpr const char* socket_name = "agent.sock";
constexpr const char* state_name = "state.json";

class job_directory {
public:
    // Makes the run directory (0755) and the job's where missing.
    static result<job_directory> create(const std::string& run_directory, uint32_t job_id);
    // not_found: this node knows nothing of the job.
    static result<job_directory> open(const std::string& run_directory, uint32_t job_id);

    const std::string& path() const noexcept { return path_; }
    int fd() const noexcept { return job_.get(); }

    // Binds the agent's socket and listens: 0600 and the user's, so that the user and root alone can connect.
    result<unique_fd> listen(uid_t uid, gid_t gid) const;

    // Writes a file whole or not at all (another name, then rename), 0644.
    result<void> write_file(const std::string& name, const std::string& text) const;

    // Removes the files in it (no_entry is fine), then the directory itself.
    result<void> clear() const;
    result<void> remove();

private:
    unique_fd parent_;
    unique_fd job_;
    std::string name_;
    std::string path_;
};

}  // namespace varde::node
