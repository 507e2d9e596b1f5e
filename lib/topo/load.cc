// hwloc topologies, from this machine or from XML, into the plain description.
#include "topo/machine.h"

#include "base/handle.h"
#include "base/units.h"
#include "topo/bundles.h"
#include "topo/device_files.h"
#include "topo/text_file.h"
#include "topo/topology.h"
#include "topo/trial.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace varde::topo {

namespace {

constexpr unsigned time_s = 5;               // sysfs answers at once, but for a driver that hangs
constexpr unsigned drivers_time_s = 30;      // a driver that nobody keeps alive starts for seconds, each GPU
constexpr size_t xml_bytes_max = 16U << 20;  // the largest machines' files are 1 to 2 MB

// Asks each CPU in turn, for which the child would have to run on each: nothing that a description holds.
constexpr const char* useless_component = "x86";
// Drivers that hwloc's plugins would start: only for whoever has the time.
constexpr const char* slow_components[] = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"};

// Packages, cores and I/O devices that say something; no caches, no CPUs' details, no memory attributes.
result<topology> new_topology() {
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0) return os_error(errno, "couldn't start hwloc");
    topology owned(made);
    constexpr unsigned long flags =
        HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
    bool good = hwloc_topology_set_flags(made, flags) == 0;
    good = hwloc_topology_set_cache_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE) == 0 && good;
    good = hwloc_topology_set_icache_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE) == 0 && good;
    good = hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 && good;
    if (!good) return os_error(errno, "couldn't say to hwloc what to look for");
    return owned;
}

// hwloc counts the zero at the end.
result<machine> load_xml(const std::string& text) {
    const auto made = new_topology();
    if (!made) return made.error();
    if (hwloc_topology_set_xmlbuffer(made->get(), text.c_str(), static_cast<int>(text.size() + 1)) != 0 ||
        hwloc_topology_load(made->get()) != 0)
        return fail(code::damaged, "hwloc does not know it for XML of its own");
    return describe(made->get());
}

void leave_out(hwloc_topology_t to, const char* component) {
    discard(hwloc_topology_set_components(to, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component),
            "what is not there takes no time");
}

// This machine as XML.
result<std::string> look(ask_drivers ask) {
    const auto made = new_topology();
    if (!made) return made.error();
    leave_out(made->get(), useless_component);
    for (const char* each : slow_components)
        if (ask == ask_drivers::no) leave_out(made->get(), each);
    if (hwloc_topology_load(made->get()) != 0) return os_error(errno, "hwloc failed");
    if (hwloc_topology_is_thissystem(made->get()) == 0)
        return fail(code::invalid,
                    "a variable HWLOC_XMLFILE, HWLOC_SYNTHETIC or HWLOC_FSROOT tells hwloc of another; unset it");
    char* xml = nullptr;
    int size_bytes = 0;
    if (hwloc_topology_export_xmlbuffer(made->get(), &xml, &size_bytes, 0) != 0)
        return os_error(errno, "hwloc could not write it down");
    std::string text(xml, static_cast<size_t>(size_bytes) - 1);  // it counts the zero at the end
    hwloc_free_xmlbuffer(made->get(), xml);
    return text;
}

// A machine that hides how much memory it has, as without /sys, has one node, and all of it.
void fill_in_memory(machine& to) {
    const auto has_bytes = [](const numa_node& each) { return each.bytes > 0; };
    if (std::any_of(to.nodes.begin(), to.nodes.end(), has_bytes)) return;
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page_bytes = ::sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        to.nodes.front().bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

}  // namespace

result<machine> load_machine(ask_drivers ask) {
    const std::string what = "couldn't look at this machine: ";
    const auto xml =
        in_child([&] { return look(ask); }, input::of_this_machine, ask == ask_drivers::yes ? drivers_time_s : time_s);
    if (!xml) return fail(xml.error().what, what + xml.error().context);
    auto found = load_xml(*xml);
    if (!found) return fail(found.error().what, what + found.error().context);
    fill_in_memory(*found);
    name_device_files(*found);
    find_bundles(*found);
    return found;
}

result<machine> parse_machine(std::string_view xml, const std::string& shown) {
    const std::string what = "couldn't read the machine '" + shown + "': ";
    if (xml.size() > xml_bytes_max)
        return fail(code::damaged, what + "it is larger than " + format_bytes(xml_bytes_max));
    const std::string text(xml);
    const auto try_it = [&]() -> result<std::string> {
        const auto found = load_xml(text);
        return found ? result<std::string>("") : found.error();
    };
    const auto tried = in_child(try_it, input::of_anybody, time_s);
    auto found = tried ? load_xml(text) : tried.error();
    if (!found)
        return fail(code::damaged, what + found.error().context + "; 'lstopo FILE.xml' makes one that is right");
    return found;
}

result<machine> load_machine_file(const std::string& path) {
    const std::string what = "couldn't read the machine '" + path + "'";
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return os_error(errno, what);
    const auto text = read_all(file.get(), xml_bytes_max, what);
    if (!text) return text.error();
    return parse_machine(*text, path);
}

}  // namespace varde::topo
