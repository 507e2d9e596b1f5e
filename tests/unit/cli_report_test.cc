// varde report: the story that a history tells, and that whatever is in the file there is one.
#include "base/clock.h"
#include "cli/report.h"
#include "cli_support.h"

using namespace cli_test;
using namespace varde::cli;

namespace {

constexpr uint64_t t0 = 1'700'000'000 * ns_per_s;

// A line of the history: seconds after t0, incarnation, and the rest of its members.
std::string line(const char* event, double at_s, uint64_t incarnation, const std::string& members) {
    return "{\"event\":\"" + std::string(event) +
           "\",\"wall_ns\":" + std::to_string(t0 + static_cast<uint64_t>(at_s * 1e9)) +
           ",\"incarnation\":" + std::to_string(incarnation) +
           ",\"job\":7,\"restart\":" + std::to_string(incarnation - 1) + ",\"host\":\"n1\"" +
           (members.empty() ? "" : ",") + members + "}\n";
}

std::string at(double at_s) { return std::to_string(t0 + static_cast<uint64_t>(at_s * 1e9)); }

// A step takes a second.  Step 100 is durable, the node dies at step 150 and is noticed 30 s later.
std::string a_node_dies() {
    return line("start", 0, 1, R"("nodes":2,"ranks":8,"launch":"slurm 7.1.0")") +
           line("restored", 1, 1, R"("step":0,"nodes":2)") + line("first_step", 2, 1, R"("step":1)") +
           line("proposed", 90, 1, R"("step":100,"at_step":89,"step_ns":1000000000)") +
           line("staged", 102, 1, R"("step":100,"bytes":2048,"stage_ns":500000000)") +
           line("sealed", 104, 1, R"("step":100,"bytes":4096,"drain_ns":2000000000,"slowest":"n2")") +
           line("complete", 105, 1, R"("step":100,"generation":"step-000000000100.r1","stall_ns":250000000)") +
           line("silent", 181, 1,
                R"("cause":"node","hosts":"n2","step":150,"complete_step":100,"last_step_wall_ns":)" + at(151)) +
           line("requeued", 183, 1, R"("reason":"node n2 is dead")") + line("stopped", 185, 1, R"("step":150)") +
           line("start", 190, 2,
                R"("nodes":2,"ranks":8,"last_step":150,"last_step_wall_ns":)" + at(151) +
                    ",\"agent_wall_ns\":" + at(187) + ",\"hello_wall_ns\":" + at(189)) +
           line("restored", 194, 2, R"("step":100,"nodes":2)") + line("first_step", 195, 2, R"("step":101)") +
           line("retired", 196, 2, R"("step":100,"generation":"step-000000000100.r1")") +
           line("ended", 250, 2, R"("step":156,"complete_step":100)");
}

story story_of(const std::string& text) { return tell(store::decode_history(text)); }

// A run's directory with this history.
class recorded_run {
public:
    explicit recorded_run(const std::string& text) {
        std::filesystem::create_directories(path() + "/roster");
        store_test::write_file(path() + "/history.jsonl", text);
    }
    std::string path() const { return at_.path() + "/run"; }
    std::string file(const char* name) const { return at_.path() + "/" + name; }

private:
    store_test::temporary_directory at_;
};

}  // namespace

Test(report, a_restart_is_split_into_what_it_cost) {
    const story told = story_of(a_node_dies());
    cr_assert(told.restarts.size() == 1);
    const auto& one = told.restarts[0];
    const uint64_t expected_s[part_count] = {50, 30, 2, 4, 3, 4, 1};
    for (size_t which = 0; which < part_count; which++)
        cr_expect_eq((one.cost_ns[which] + ns_per_s / 2) / ns_per_s, expected_s[which], "%s: %f s", part_names[which],
                     static_cast<double>(one.cost_ns[which]) / 1e9);
    cr_assert(one.steps_repeated() == 50 && one.cause == "node" && one.what == "node died: n2" && !one.planned);
    cr_assert(one.stopped_wall_ns == t0 + 151 * ns_per_s);
    cr_assert((one.repeated_wall_ns - t0 + ns_per_s / 2) / ns_per_s == 101);
    cr_assert(told.over() && told.last_step == 156);
    const auto* complete = told.newest_complete();
    cr_assert(complete != nullptr && complete->bytes == 4096 && complete->retired);
    cr_assert(complete->stage_ns == 500'000'000 && complete->drain_ns == 2 * ns_per_s);
}

Test(report, what_two_leaders_both_tell_counts_once) {
    std::string twice;
    const std::string once = a_node_dies();
    for (size_t from = 0; from < once.size(); from = once.find('\n', from) + 1) {
        const std::string one = once.substr(from, once.find('\n', from) + 1 - from);
        twice += one + one;
    }
    const story a = story_of(once);
    const story b = story_of(twice);
    cr_assert(b.restarts.size() == 1 && b.lost_ns() == a.lost_ns() && b.stall_ns() == a.stall_ns());
    cr_assert(b.generations.size() == a.generations.size() && b.count(fate::complete) == 1);
}

Test(report, a_restart_that_nothing_of_ours_noticed) {
    const story told = story_of(line("start", 0, 1, "") + line("restored", 1, 1, R"("step":0)") +
                                line("proposed", 50, 1, R"("step":60,"at_step":50,"step_ns":1000000000)") +
                                line("start", 500, 2, R"("last_step":70,"last_step_wall_ns":)" + at(70)) +
                                line("restored", 501, 2, R"("step":0)"));
    cr_assert(told.restarts.size() == 1 && told.restarts[0].what == "requeued by Slurm or by hand");
    cr_assert(told.restarts[0].cost_ns[detect] == 0 && told.restarts[0].cost_ns[launch] == 430 * ns_per_s);
    cr_assert(told.restarts[0].steps_repeated() == 70);
}

Test(report, late_failed_and_damaged_generations_say_why) {
    const story told = story_of(line("late", 1, 1, R"("step":10,"host":"n5")") +
                                line("failed", 2, 1, R"("step":20,"host":"n6","errno":28)") +
                                line("complete", 3, 1, R"("step":30,"generation":"step-000000000030.r1")") +
                                line("damaged", 4, 2, R"("generation":"step-000000000030.r1","reason":"chunk 7")"));
    cr_assert(told.count(fate::late) == 1 && told.count(fate::failed) == 1 && told.count(fate::damaged) == 1);
    cr_assert(told.newest_complete() == nullptr);
    const std::string text = report_text(told, "/run", t0 + 5 * ns_per_s, true);
    expect_contains(text, "a rank of n5 was past the step when it became due");
    expect_contains(text, "given up on n6: No space left on device");
    expect_contains(text, "damaged: chunk 7");
}

Test(report, the_program_tells_text_json_and_a_page) {
    const recorded_run run(a_node_dies());
    const outcome text = varde_run({"report", run.path()});
    cr_assert(text.status == 0, "%s", text.err.c_str());
    expect_contains(text.out, "came to its end at step 156");
    expect_contains(text.out, "node died: n2");

    const outcome json = varde_run({"report", "--json", run.path()});
    const auto document = nlohmann::json::parse(json.out);
    cr_assert(document["restarts"][0]["detect_ns"] == 30 * ns_per_s && document["restarts"][0]["cause"] == "node");
    cr_assert(document["generations"][0]["status"] == "complete" && document["over"] == true);

    const outcome page = varde_run({"report", "--html", run.file("page.html"), run.path()});
    cr_assert(page.status == 0 && page.out.empty());
    const std::string html = store_test::read_file(run.file("page.html"));
    expect_contains(html, "class=\"band part-detect\"");
    for (const char* foreign : {"http:", "https:", "<script", "<link", "@import", "url(", "src="})
        cr_expect(html.find(foreign) == std::string::npos, "the page has %s", foreign);
}

Test(report, refusals) {
    const recorded_run run("");
    std::filesystem::remove(run.path() + "/history.jsonl");
    const outcome none = varde_run({"report", run.path()});
    cr_assert(none.status == 2);
    expect_contains(none.err, "has no history yet");
    cr_assert(varde_run({"report", run.file("nothing")}).status == 2);
    store_test::write_file(run.path() + "/history.jsonl", a_node_dies());
    const outcome nowhere = varde_run({"report", "--html", run.file("no/such/page.html"), run.path()});
    cr_assert(nowhere.status == 2);
    expect_contains(nowhere.err, "couldn't open the directory");
}

Test(report, a_history_without_an_event_is_told_of_all_the_same) {
    const recorded_run run("\n\nnot an event\n{\"event\":\"torn");
    const outcome text = varde_run({"report", run.path()});
    cr_assert(text.status == 0);
    expect_contains(text.out, "nothing has been told of it");
    expect_contains(text.out, "1 lines of history.jsonl are no events");
    cr_assert(varde_run({"report", "--html", run.file("page.html"), run.path()}).status == 0);
}

// Numbers at both ends, times that go back, starts and generations out of order, texts of markup and of terminals.
Test(report, hostile_lines_never_break_it) {
    const std::string evil = R"(<script>alert(1)</script>\"'&\u001b[31m\u202e]]>--></svg>)";
    std::string text;
    for (const char* name :
         {"start", "choice",   "restored",  "first_step", "proposed",     "staged",       "sealed",   "complete",
          "late",  "failed",   "damaged",   "retired",    "progress",     "silent",       "requeued", "stopped",
          "ended", "interval", "stretched", "refused",    "not_requeued", "no_such_event"}) {
        for (const char* number : {"0", "1", "18446744073709551615"}) {
            std::string members = "\"cause\":\"" + evil + "\",\"reason\":\"" + evil + "\",\"hosts\":\"" + evil +
                                  "\",\"generation\":\"step-000000000001.r1\",\"launch\":\"" + evil + "\"";
            for (const char* key : {"step", "at_step", "bytes", "stage_ns", "drain_ns", "stall_ns", "step_ns", "nodes",
                                    "ranks", "last_step", "last_step_wall_ns", "agent_wall_ns", "hello_wall_ns",
                                    "interval_s", "errno", "complete_step"})
                members += ",\"" + std::string(key) + "\":" + number;
            text += line(name, 500 - static_cast<double>(text.size() % 499), 1 + text.size() % 5, members);
        }
    }
    text += line("start", 1, UINT64_MAX, "") + line("start", 2, 1, "\"launch\":[[[]]],\"nodes\":\"x\"");
    const recorded_run run(text);
    const outcome told = varde_run({"report", "--all", run.path()});
    cr_assert(told.status == 0, "%s", told.err.c_str());
    cr_assert(told.out.find('\x1b') == std::string::npos);
    cr_assert(varde_run({"report", "--json", run.path()}).status == 0);
    cr_assert(varde_run({"report", "--html", run.file("page.html"), run.path()}).status == 0);
    const std::string html = store_test::read_file(run.file("page.html"));
    cr_assert(html.find("<script") == std::string::npos && html.find('\x1b') == std::string::npos);
    expect_contains(html, "&lt;script&gt;");
    cr_assert(html.find("nan") == std::string::npos && html.find("inf\"") == std::string::npos);
}

Test(report, weeks_of_training_make_a_page_of_bounded_size) {
    std::string text;
    for (uint64_t step = 1; step <= 20'000; step++)
        text += line("complete", static_cast<double>(step) * 60, 1 + step / 100,
                     "\"step\":" + std::to_string(step) + ",\"stall_ns\":5000000");
    const std::string html = report_html(story_of(text), "/run", t0);
    cr_assert(html.size() < 4 << 20, "%zu bytes", html.size());
}
