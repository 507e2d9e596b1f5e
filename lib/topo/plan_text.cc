// The plan's file, both ways; PLAN.md describes it.  What is read may be anybody's.
#include "topo/plan.h"

#include "base/checked.h"
#include "base/fields.h"
#include "base/units.h"

#include <algorithm>

namespace varde::topo {

namespace {

constexpr std::string_view first_line = "varde-plan 1";
constexpr std::string_view last_line = "end";
constexpr std::string_view because = " because ";
constexpr size_t reason_bytes_max = 1024;

std::string reasoned(const std::string& fact, const std::string& reason) {
    return fact + std::string(because) + printable(reason, reason_bytes_max) + "\n";
}

// Reads a line from its front; the first thing that is missing is what is told.
class line_reader {
public:
    explicit line_reader(std::string_view line) : rest_(line) {}

    void word(std::string_view expected) {
        if (take_until(rest_, ' ') != expected) refuse("'" + std::string(expected) + "' is missing");
    }
    std::string_view field() { return take_until(rest_, ' '); }
    uint64_t number(uint64_t most = UINT64_MAX) {
        const auto read = parse_number(field(), most);
        if (!read) refuse(read.error().context);
        return read ? *read : 0;
    }
    uint32_t node() { return static_cast<uint32_t>(number(nodes_max - 1)); }
    cpu_set cpus() {
        const auto read = parse_cpus(field());
        if (!read) refuse(read.error().context);
        return read ? *read : cpu_set{};
    }
    std::string text() {
        const auto is_odd = [](char c) { return c < ' ' || c > '~'; };
        if (rest_.empty() || rest_.size() > reason_bytes_max || std::any_of(rest_.begin(), rest_.end(), is_odd))
            refuse("the words at its end are missing, too long or not plain");
        return std::string(std::exchange(rest_, {}));
    }
    std::string reason() {
        word("because");
        return text();
    }
    bool is_spent() const { return rest_.empty(); }
    const std::string& wrong() const { return wrong_; }
    void refuse(const std::string& why) {
        if (wrong_.empty()) wrong_ = why;
    }

private:
    std::string_view rest_;
    std::string wrong_;
};

void read_share(line_reader& line, plan& to) {
    node_share share;
    share.node = line.node();
    line.word("holds");
    share.bytes = line.number();
    line.word("cpus");
    share.cpus = line.cpus();
    share.reason = line.reason();
    if (!to.shares.empty() && to.shares.back().node >= share.node) line.refuse("nodes are not in their order");
    to.shares.push_back(std::move(share));
}

void read_gpu(line_reader& line, plan& to) {
    gpu_place gpu;
    const auto address = parse_pci_address(line.field());
    if (address) gpu.pci = *address;
    else line.refuse("it has no PCI address");
    line.word("node");
    gpu.node = line.node();
    gpu.reason = line.reason();
    const auto is_its = [&](const node_share& each) { return each.node == gpu.node; };
    if (std::none_of(to.shares.begin(), to.shares.end(), is_its)) line.refuse("its node has no line");
    if (!to.gpus.empty() && to.gpus.back().pci >= gpu.pci) line.refuse("GPUs are not in their order");
    to.gpus.push_back(std::move(gpu));
}

void read_storage(line_reader& line, plan& to) {
    storage_place storage;
    storage.name = line.field();
    if (!is_device_name(storage.name)) line.refuse("it has no name of a device");
    line.word("node");
    line_reader ahead = line;
    if (ahead.field() == "unknown") line = ahead;
    else storage.node = line.node();
    storage.reason = line.reason();
    to.storage.push_back(std::move(storage));
}

void read_line(line_reader& line, plan& to) {
    const std::string_view key = line.field();
    if (key == "arena") to.arena_bytes = line.number();
    else if (key == "node") read_share(line, to);
    else if (key == "gpu") read_gpu(line, to);
    else if (key == "storage") read_storage(line, to);
    else if (key == "note") to.notes.push_back(line.text());
    else if (key == "writers") {
        to.writers = line.cpus();
        to.writers_reason = line.reason();
        if (to.writers.none()) line.refuse("there are no CPUs");
    } else line.refuse("'" + printable(key, 20) + "' is no fact of a plan");
    if (!line.is_spent()) line.refuse("there is more than its fact");
}

std::string wrong_sum(const plan& what) {
    uint64_t sum = 0;
    for (const node_share& each : what.shares) {
        const auto more = checked_add(sum, each.bytes);
        if (!more) return "the nodes hold more than there can be";
        sum = *more;
    }
    return sum == what.arena_bytes ? "" : "the nodes do not hold what the arena has";
}

failure wrong_plan(const std::string& why) { return fail(code::damaged, "couldn't read the plan: " + why); }

}  // namespace

std::string format_plan(const plan& what) {
    std::string text = std::string(first_line) + "\narena " + std::to_string(what.arena_bytes) + "\n";
    for (const node_share& each : what.shares)
        text += reasoned("node " + std::to_string(each.node) + " holds " + std::to_string(each.bytes) + " cpus " +
                             format_cpus(each.cpus),
                         each.reason);
    for (const gpu_place& each : what.gpus)
        text += reasoned("gpu " + each.pci + " node " + std::to_string(each.node), each.reason);
    for (const storage_place& each : what.storage)
        text += reasoned("storage " + each.name + " node " + (each.node ? std::to_string(*each.node) : "unknown"),
                         each.reason);
    text += reasoned("writers " + format_cpus(what.writers), what.writers_reason);
    for (const std::string& each : what.notes) text += "note " + printable(each, reason_bytes_max) + "\n";
    return text + std::string(last_line) + "\n";
}

result<plan> parse_plan(std::string_view text) {
    if (text.size() > plan_bytes_max) return wrong_plan("it is larger than " + format_bytes(plan_bytes_max));
    const std::string_view whole = text;
    plan read;
    if (take_until(text, '\n') != first_line)
        return wrong_plan("its first line is not '" + std::string(first_line) + "'");
    size_t number = 1;
    for (;;) {
        if (text.empty()) return wrong_plan("its end is missing");
        number++;
        const std::string_view content = take_until(text, '\n');
        if (content == last_line) break;
        line_reader line(content);
        read_line(line, read);
        if (!line.wrong().empty()) return wrong_plan("line " + std::to_string(number) + ": " + line.wrong());
    }
    if (const std::string why = wrong_sum(read); !why.empty()) return wrong_plan(why);
    // Order, repetition, leading zeros, doubled spaces: there is one text for each plan.
    if (format_plan(read) != whole) return wrong_plan("it is not as it would be written");
    return read;
}

}  // namespace varde::topo
