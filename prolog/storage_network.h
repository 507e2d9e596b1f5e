// Which network a job's checkpoints will cross, whether that is the storage network, and what the site's policy makes
// of it.
#pragma once

#include "config/storage.h"
#include "prolog/mount_table.h"
#include "prolog/netlink.h"
#include "prolog/request.h"
#include "prolog/state.h"

#include <optional>
#include <string>
#include <vector>

namespace varde::node {

// What the host says.
struct network_view {
    std::optional<mount_entry> mount;
    bool remote = false;                       // other machines serve it
    bool by_user = false;                      // a user has said which
    std::vector<ip_address> servers;           // `servers` and `ways` are of equal length
    std::vector<result<std::string>> ways;     // the interface to each server
    std::vector<std::string> unknown;          // names of servers that have no address, or had none in time
    std::optional<interface_facts> interface;  // the storage interface; none: there is none of this name
};

// What is wrong: one line, parts joined by "; ".  Empty: nothing, or nothing is expected.  Pure.
std::string describe_network(const storage_settings& site, const network_view& view);

// Why no route is to be added to this server; empty: it may be.  Slurm's own network, and everybody's, is out of reach:
// only an address of the storage subnet, only over an interface whose network has it or the gateway.  Pure.
std::string why_no_route(const storage_settings& site, const network_view& view, const ip_address& server);

// The whole: finds the mount of `path` (no link in it; nothing of it is touched), its servers and the ways to them, and
// with policy `route` puts them right.  Names are looked up by a child as the user, in 1 s at most.
storage_facts check_network(const storage_settings& site, const std::string& path, const request& job,
                            const std::string& run_directory);

// One line for the journal: the problem, or the ways where there are any.  Empty: a file system of this node.
std::string describe_storage(const storage_facts& facts);

}  // namespace varde::node
