// The Slurm that runs on this host: where its programs are, and whether its configuration fits.
//
// Another version's scontrol may come first in a PATH and refuses to work, so the one beside the running daemon is
// taken: its path is in /proc/PID/exe of a parent of ours.
#pragma once

#include "base/result.h"

#include <optional>
#include <string>
#include <string_view>

namespace varde::node {

// "/opt/slurm/bin" for "/opt/slurm/sbin/slurmd", none for a program that is not Slurm's.  Pure.
std::optional<std::string> bin_directory_of(const std::string& executable);

// `configured` if it is not empty; else the directory of the scontrol that belongs to the daemon that started us;
// else /usr/bin.
std::string find_bin_directory(const std::string& configured);

// What is missing in PrologFlags, as a line for the administrator; none if nothing is, or where the text does not
// tell (it includes other files).  Without Alloc the prolog runs late, without DeferBatch a batch script may start
// before all agents.  Pure.
std::optional<std::string> missing_prolog_flags(std::string_view slurm_conf);

// The same for the configuration of this host: SLURM_CONF, or /etc/slurm/slurm.conf.
std::optional<std::string> missing_prolog_flags_here();

}  // namespace varde::node
