// scontrol: calls and the one-line output of `show job`.
#include "agent/slurm.h"

#include "agent/requeue.h"
#include "base/handle.h"
#include "base/process.h"
#include "base/units.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace varde::agent {

namespace {

// Comments of ours begin with this; anything else is the user's text and stays.
constexpr const char* comment_mark = "varde:";

constexpr size_t extra_value_max = 32;  // of its beginning: whose it is shows there

bool may_replace(const std::string& comment) { return comment.empty() || comment.rfind(comment_mark, 0) == 0; }

// Free text in the output (names, paths, the comment itself) may hold blanks and even "Key=" of its own.  Keys come in
// a fixed order, so a key counts only at the start or after a blank, and the comment is cut at the key that follows it
// in every version.
constexpr const char* keys_after_output[] = {" Power=", " CpusPer", " MemPer", " Tres", " Mail", " NtasksPerTRES:"};
constexpr const char* keys_after_comment[] = {" Power=", " TresPerNode=", " MailUser=", " StdErr=", " NtasksPerTRES:"};

std::string comment_of(const std::string& line) {
    const size_t start = line.find(" Comment=");
    if (start == std::string::npos) return {};
    const size_t from = start + 9;
    size_t end = line.find(" StdErr=", from);
    for (const char* key : keys_after_comment) end = std::min(end, line.find(key, from));
    std::string text = line.substr(from, end == std::string::npos ? end : end - from);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
    return text;
}

// StdErr, StdIn and StdOut stand together near the end, in this order, in every version.  Newer ones leave StdErr empty
// where it is StdOut.
std::string error_file_of(const std::string& line) {
    const size_t in = line.rfind(" StdIn=");
    const size_t error = in == std::string::npos ? in : line.rfind(" StdErr=", in);
    const size_t out = in == std::string::npos ? in : line.find(" StdOut=", in);
    if (error == std::string::npos || out == std::string::npos) return {};
    if (error + 8 < in) return line.substr(error + 8, in - error - 8);
    const size_t from = out + 8;
    size_t end = std::min(line.find('\n', from), line.size());
    for (const char* key : keys_after_output) end = std::min(end, line.find(key, from));
    return line.substr(from, line.find_last_not_of(' ', end - 1) + 1 - from);
}

// Appends to a file that is there: the job has made it, and if not (a pattern that Slurm has left as it is, another
// node's local directory), nobody would find what we make.
result<void> append_line(const std::string& path, const std::string& text) {
    const unique_fd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!file) return os_error(errno, "couldn't open the job's output '" + path + "'");
    struct stat about {};
    if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode))
        return fail(code::invalid, "the job's output '" + path + "' is no file");
    const std::string line = text + "\n";
    if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
        return os_error(errno, "couldn't write to the job's output '" + path + "'");
    return {};
}

}  // namespace

std::string field_of(const std::string& line, const std::string& key) {
    const std::string wanted = key + "=";
    size_t at = 0;
    while ((at = line.find(wanted, at)) != std::string::npos) {
        if (at == 0 || line[at - 1] == ' ') {
            const size_t from = at + wanted.size();
            return line.substr(from, line.find_first_of(" \n", from) - from);
        }
        at += wanted.size();
    }
    return {};
}

std::string line_of_job(const std::string& output, uint64_t job_id) {
    const std::string start = "JobId=" + std::to_string(job_id) + " ";
    for (size_t at = 0; at < output.size();) {
        const size_t end = std::min(output.find('\n', at), output.size());
        if (output.compare(at, start.size(), start) == 0) return output.substr(at, end - at);
        at = end + 1;
    }
    return {};
}

job_facts parse_job(const std::string& whole) {
    job_facts facts;
    // Before the job's name, which may look like anything: numbers.  After it: the fields from MCS_label on.
    const std::string numbers = whole.substr(0, whole.find(" JobName="));
    facts.id = field_of(numbers, "JobId");
    const std::string task = field_of(numbers, "ArrayTaskId");
    if (parse_number(task)) facts.id = field_of(numbers, "ArrayJobId") + "_" + task;
    const size_t after_name = whole.rfind(" MCS_label=");
    const std::string line = after_name == std::string::npos ? whole : whole.substr(after_name);
    facts.state = field_of(line, "JobState");
    if (const auto restarts = parse_number(field_of(line, "Restarts"))) facts.restarts = *restarts;
    facts.batch = field_of(line, "BatchFlag") != "0" && !field_of(line, "BatchFlag").empty();
    facts.requeue = field_of(line, "Requeue") != "0";
    facts.comment = comment_of(line);
    facts.error_file = error_file_of(line);
    const size_t extra = line.find(" Extra=");
    facts.extra_is_free = extra == std::string::npos || may_replace(line.substr(extra + 7, extra_value_max));
    return facts;
}

result<std::string> slurm::scontrol(std::vector<std::string> arguments) const {
    if (!present()) return fail(code::unavailable, "there is no Slurm job");
    program what;
    what.arguments = {bin_directory_ + "/scontrol"};
    what.timeout_ms = timeout_ms_;
    what.environment = {"PATH=/usr/bin:/bin", "LC_ALL=C"};
    // The configuration of the running Slurm, where it is not at the default place.
    if (const char* conf = ::getenv("SLURM_CONF")) what.environment.push_back(std::string("SLURM_CONF=") + conf);
    std::string verb;
    for (auto& argument : arguments) {
        verb += " " + argument;
        what.arguments.push_back(std::move(argument));
    }
    auto outcome = run_program(what);
    if (!outcome) return outcome.error();
    if (outcome->exit_status != 0) {
        std::string text = outcome->output.substr(0, 300);
        while (!text.empty() && text.back() == '\n') text.pop_back();
        return fail(code::unavailable, "'scontrol" + verb + "' failed: " + text);
    }
    return std::move(outcome->output);
}

result<job_facts> slurm::job() const {
    auto output = scontrol({"--oneliner", "show", "job", std::to_string(job_id_)});
    if (!output) return output.error();
    const std::string line = line_of_job(*output, job_id_);
    if (line.empty()) return fail(code::unavailable, "scontrol shows no job " + std::to_string(job_id_));
    return parse_job(line);
}

result<void> slurm::reach() const {
    auto output = scontrol({"ping"});
    if (!output) return output.error();
    if (output->find(" is UP") == std::string::npos) return fail(code::unavailable, "no slurmctld answers");
    return {};
}

// Whether there is an Extra is not asked by version: it is tried.
result<void> slurm::publish(const job_facts& facts, const std::string& text) const {
    const bool in_comment = may_replace(facts.comment);
    if (!in_comment && (!facts.extra_is_free || extra_refused_)) return {};
    auto done = scontrol({"update", "jobid=" + facts.id, (in_comment ? "comment=" : "extra=") + text});
    if (done) return {};
    if (!in_comment && done.error().context.find("not supported") != std::string::npos) {
        extra_refused_ = true;
        return {};
    }
    return done.error();
}

result<void> slurm::comment(const std::string& text) const {
    auto facts = job();
    return facts ? publish(*facts, text) : facts.error();
}

result<void> slurm::tell(const std::string& text) const {
    auto facts = job();
    if (!facts) return facts.error();
    auto written = append_line(facts->error_file, text);
    auto done = publish(*facts, text);
    return done ? written : done;
}

result<void> slurm::requeue(uint64_t restarts, const std::string& text) const {
    auto facts = job();
    if (!facts) return facts.error();
    if (const auto may = check_requeue(*facts, restarts); !may) return may;
    discard(publish(*facts, text), "the requeue matters more");
    auto done = scontrol({"requeue", facts->id});
    if (!done) return done.error();
    discard(append_line(facts->error_file, text), "the comment has it, and history.jsonl");
    return {};
}

}  // namespace varde::agent
