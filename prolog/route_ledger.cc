// "10.1.0.5 ib0 - 7 9": address, interface, gateway, jobs.
#include "prolog/route_ledger.h"

#include "base/fields.h"
#include "base/units.h"
#include "config/trusted_file.h"
#include "prolog/log.h"
#include "prolog/own_directory.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

namespace varde::node {

namespace {

constexpr int lock_ms = 2000;
constexpr size_t ledger_bytes_max = 1 << 20;
constexpr const char* ledger_name = "routes";
constexpr const char* lock_name = "routes.lock";

class ledger {
public:
    static result<ledger> open(const std::string& run_directory) {
        ledger opened;
        opened.path_ = run_directory + "/" + ledger_name;
        auto directory = open_own_directory(AT_FDCWD, run_directory, run_directory);
        if (!directory) return std::move(directory).error();
        opened.directory_ = std::move(*directory);
        auto locked = lock_own_file(opened.directory_.get(), lock_name, lock_ms, run_directory + "/" + lock_name);
        if (!locked) return std::move(locked).error();
        opened.lock_ = std::move(*locked);
        auto text = read_trusted_file(opened.directory_.get(), ledger_name, opened.path_, ledger_bytes_max);
        if (!text && text.error().what != code::not_found) return std::move(text).error();
        auto routes = text ? decode_routes(*text) : result<std::vector<noted_route>>(std::vector<noted_route>());
        if (!routes)
            return fail(code::damaged, "couldn't use '" + opened.path_ + "': " + routes.error().context +
                                           "; remove it, and what `ip route show proto 118` lists");
        opened.routes = std::move(*routes);
        return opened;
    }

    result<void> write() const { return write_own_file(directory_.get(), ledger_name, encode_routes(routes), path_); }

    // true: the route is one of ours, and the job is noted with it.
    bool hold(uint32_t job_id, const wanted_route& wanted) {
        const auto is_it = [&](const noted_route& each) { return each.route == wanted.route; };
        auto found = std::find_if(routes.begin(), routes.end(), is_it);
        if (found == routes.end()) {
            if (!wanted.missing) return false;
            routes.push_back({wanted.route, {}});
            found = routes.end() - 1;
        }
        auto& jobs = found->jobs;
        if (std::find(jobs.begin(), jobs.end(), job_id) == jobs.end()) jobs.push_back(job_id);
        return true;
    }

    // Takes the jobs away that are not on this node any more, and then the routes without jobs.
    result<void> remove_unneeded(const route_calls& calls) {
        result<void> outcome;
        std::vector<noted_route> kept;
        for (noted_route& each : routes) {
            const auto is_gone = [&](uint32_t job) { return !has_directory(job); };
            each.jobs.erase(std::remove_if(each.jobs.begin(), each.jobs.end(), is_gone), each.jobs.end());
            auto removed = each.jobs.empty() ? calls.remove(each.route) : result<void>();
            if (!each.jobs.empty() || !removed) kept.push_back(std::move(each));
            if (!removed) outcome = std::move(removed);
        }
        routes = std::move(kept);
        return outcome;
    }

    std::vector<noted_route> routes;

private:
    bool has_directory(uint32_t job) const {
        struct stat about {};
        return ::fstatat(directory_.get(), std::to_string(job).c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
    }

    std::string path_;
    unique_fd directory_;
    unique_fd lock_;
};

result<noted_route> decode_route(std::string_view line) {
    const auto words = split(line, ' ');
    if (words.size() < 3) return fail(code::damaged, "a line has too few words");
    const auto to = parse_address(words[0]);
    const auto gateway = words[2] == "-" ? result<ip_address>(ip_address{}) : parse_address(words[2]);
    if (!to || !gateway) return fail(code::damaged, "an address is none");
    noted_route found{{*to, std::string(words[1]), {}}, {}};
    if (words[2] != "-") found.route.gateway = *gateway;
    for (size_t i = 3; i < words.size(); i++) {
        const auto job = parse_number(words[i], UINT32_MAX);
        if (!job) return fail(code::damaged, "a job's number is none");
        found.jobs.push_back(static_cast<uint32_t>(*job));
    }
    return found;
}

}  // namespace

std::string encode_routes(const std::vector<noted_route>& routes) {
    std::string text;
    for (const noted_route& each : routes) {
        text += format_address(each.route.to) + " " + each.route.interface + " ";
        text += each.route.gateway ? format_address(*each.route.gateway) : "-";
        for (const uint32_t job : each.jobs) text += " " + std::to_string(job);
        text += "\n";
    }
    return text;
}

result<std::vector<noted_route>> decode_routes(std::string_view text) {
    std::vector<noted_route> routes;
    while (!text.empty()) {
        if (text.find('\n') == std::string_view::npos) return fail(code::damaged, "its end is missing");
        auto route = decode_route(take_until(text, '\n'));
        if (!route) return std::move(route).error();
        routes.push_back(std::move(*route));
    }
    return routes;
}

result<void> hold_routes(const std::string& run_directory, uint32_t job_id, const std::vector<wanted_route>& wanted,
                         const route_calls& calls) {
    auto opened = ledger::open(run_directory);
    if (!opened) return std::move(opened).error();
    const auto removed = opened->remove_unneeded(calls);
    if (!removed) log_line(LOG_WARNING, removed.error().context);
    std::vector<host_route> ours;
    for (const wanted_route& each : wanted)
        if (opened->hold(job_id, each)) ours.push_back(each.route);
    auto outcome = opened->write();
    if (!outcome) return outcome;
    for (const host_route& each : ours) {
        auto added = calls.add(each);
        if (!added) outcome = std::move(added);
    }
    return outcome;
}

result<void> release_routes(const std::string& run_directory, uint32_t job_id, const route_calls& calls) {
    // Most sites have none, and what this job holds its own prolog has noted.
    if (::access((run_directory + "/" + ledger_name).c_str(), F_OK) != 0) return {};
    auto opened = ledger::open(run_directory);
    if (!opened) return std::move(opened).error();
    for (noted_route& each : opened->routes)
        each.jobs.erase(std::remove(each.jobs.begin(), each.jobs.end(), job_id), each.jobs.end());
    auto removed = opened->remove_unneeded(calls);
    auto written = opened->write();
    return removed ? std::move(written) : std::move(removed);
}

}  // namespace varde::node
