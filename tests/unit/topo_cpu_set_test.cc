// CPU sets: texts both ways, and a thread that keeps to one.
#include "topo/cpu_set.h"

#include <criterion/criterion.h>
#include <sched.h>

using namespace varde;
using namespace varde::topo;

namespace {

// The canonical text of what was read, or "refused: REASON".
std::string read(std::string_view text) {
    const auto cpus = parse_cpus(text);
    return cpus ? format_cpus(*cpus) : "refused: " + cpus.error().context;
}

}  // namespace

Test(topo_cpu_set, texts_come_back_in_their_one_form) {
    const std::pair<const char*, const char*> cases[] = {
        {"", ""},         {"0", "0"},           {"0-15,32", "0-15,32"},    {"3,2,1", "1-3"}, {"0-4,2-6,7", "0-7"},
        {"8191", "8191"}, {"0-8191", "0-8191"}, {"63-64,127", "63-64,127"}};
    for (const auto& [text, expected] : cases) cr_expect(read(text) == expected, "'%s': %s", text, read(text).c_str());
}

Test(topo_cpu_set, what_is_no_list_is_refused) {
    for (const char* text : {",", "1,", ",1", "1,,2", "-", "1-", "-1", "2-1", "8192", "0-8192", "a", "1 2", "0x1",
                             "99999999999999999999", "1-2-3", "1\n"})
        cr_expect(read(text).starts_with("refused: "), "'%s': %s", text, read(text).c_str());
    cr_expect(read("7-3") == "refused: '7-3' ends before it begins");
}

Test(topo_cpu_set, a_thread_runs_on_the_set_alone) {
    cpu_set_t before;
    cr_assert(::sched_getaffinity(0, sizeof before, &before) == 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &before)) last--;
    cpu_set one;
    one.set(static_cast<size_t>(last));
    cr_assert(run_on(one).has_value());
    cpu_set_t after;
    cr_assert(::sched_getaffinity(0, sizeof after, &after) == 0);
    cr_expect(CPU_COUNT(&after) == 1 && CPU_ISSET(last, &after));
    const auto nowhere = run_on({});
    cr_expect(!nowhere.has_value() && nowhere.error().os_errno == EINVAL);
}
