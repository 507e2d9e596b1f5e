// history.jsonl: what is written can be read, and nothing that is in the file keeps the rest from being read.
#include "base/clock.h"
#include "store/history.h"
#include "store_support.h"

using namespace store_test;

namespace {

constexpr uint64_t some_day_ns = 1'700'000'000 * ns_per_s;

history_event sample() {
    return {"failed", some_day_ns, 3, 17, 2, "node4", {{"reason", "no \"space\"\n"}}, {{"step", 1200}, {"errno", 28}}};
}

std::string line_of(const std::string& members) {
    return R"({"event":"x","wall_ns":1700000000000000000,"incarnation":1)" + members + "}";
}

}  // namespace

Test(history, an_event_comes_back_as_it_was) {
    const history_event what = sample();
    const std::string line = encode_event(what);
    cr_assert(line.find('\n') == std::string::npos);
    const history_event back = need(decode_event(line));
    cr_assert(back.name == "failed" && back.wall_ns == some_day_ns && back.incarnation == 3 && back.job == 17);
    cr_assert(back.restart == 2 && back.host == "node4");
    cr_assert(back.text("reason") == "no \"space\"\n" && back.text("other").empty());
    cr_assert(back.number("step") == 1200 && back.number("errno") == 28 && back.number("other") == 0);
}

Test(history, what_is_written_is_always_an_event) {
    history_event what = sample();
    // Bytes that are no UTF-8, and control characters, which become six bytes each, more than a line may have.
    what.texts = {{"a", std::string(100'000, '\x01')}, {"b", std::string(5000, '\xff')}, {"c", "short"}};
    what.host = std::string(5000, '\xc3');
    const std::string line = encode_event(what);
    cr_assert(line.size() <= event_bytes_max);
    const history_event back = need(decode_event(line));
    cr_assert(back.text("c") == "short" && !back.text("a").empty() && back.number("step") == 1200);
}

Test(history, lines_that_are_no_events_are_told_from_those_that_are) {
    cr_assert(decode_event(line_of("")).has_value());
    cr_assert(decode_event(line_of(R"(,"a":[1,{}],"b":null,"c":-1,"d":1.5,"e":true)")).has_value());
    for (const std::string& bad :
         {std::string("{}"), std::string("[]"), std::string("7"), std::string("{\"event\":"), std::string("\xff\xfe"),
          std::string(R"({"event":1,"wall_ns":1700000000000000000,"incarnation":1})"),
          std::string(R"({"event":"","wall_ns":1700000000000000000,"incarnation":1})"),
          std::string(R"({"event":"x","wall_ns":"1700000000000000000","incarnation":1})"),
          std::string(R"({"event":"x","wall_ns":-1,"incarnation":1})"),
          std::string(R"({"event":"x","wall_ns":1700000000000000000})"),
          std::string(R"({"event":"x","wall_ns":12,"incarnation":1})"),
          std::string(R"({"event":"x","wall_ns":18446744073709551615,"incarnation":1})"),
          line_of(",\"a\":\"" + std::string(event_bytes_max, 'a') + "\""), std::string(10'000, '[')})
        refused(decode_event(bad), code::damaged);
    refused(decode_event(line_of(""), some_day_ns - 1), code::damaged);
}

Test(history, a_member_of_the_wrong_type_is_left_out) {
    const auto what = need(decode_event(line_of(R"(,"job":"7","host":5,"step":"9","reason":4)")));
    cr_assert(what.job == 0 && what.host.empty() && what.number("step") == 0 && what.text("reason").empty());
}

Test(history, one_line_each_and_never_glued_to_a_torn_one) {
    temporary_directory at;
    run_directory run = open_run(at);
    need(run.append_history("{\"a\":1}"));
    write_file(run.path() + "/history.jsonl", "{\"a\":1}\n{\"b\":");
    need(run.append_history("{\"c\":3}"));
    cr_assert(read_file(run.path() + "/history.jsonl") == "{\"a\":1}\n{\"b\":\n{\"c\":3}\n");
    refused(run.append_history("two\nlines"), code::invalid);
}

Test(history, bad_lines_are_counted_and_hide_no_good_one) {
    temporary_directory at;
    run_directory run = open_run(at);
    refused(run.read_history(), code::not_found);
    need(run.append_history(encode_event(sample())));
    need(run.append_history("not an event"));
    need(run.append_history(std::string(3 * event_bytes_max, 'x')));
    need(run.append_history(encode_event(sample())));
    const std::string whole = read_file(run.path() + "/history.jsonl");
    history all = need(run.read_history());
    cr_assert(all.events.size() == 2 && all.unreadable_count == 2 && !all.torn && all.skipped_bytes == 0);

    // A writer that died in the middle of a line, at every byte of it.
    for (size_t cut = 1; cut < encode_event(sample()).size(); cut++) {
        write_file(run.path() + "/history.jsonl", whole + encode_event(sample()).substr(0, cut));
        all = need(run.read_history());
        cr_assert(all.events.size() == 2 && all.unreadable_count == 2 && all.torn);
    }
    // Only its line feed is missing: what it says is said.
    write_file(run.path() + "/history.jsonl", whole + encode_event(sample()));
    cr_assert(need(run.read_history()).events.size() == 3);
}

Test(history, what_is_no_file_is_not_read) {
    temporary_directory at;
    run_directory run = open_run(at);
    const std::string path = run.path() + "/history.jsonl";
    cr_assert(::mkfifo(path.c_str(), 0600) == 0);
    refused(run.read_history(), code::damaged);
    std::filesystem::remove(path);
    std::filesystem::create_symlink("/etc/passwd", path);
    refused(run.read_history(), code::io);
}

Test(history, of_a_very_large_file_the_newest_part_is_read) {
    temporary_directory at;
    run_directory run = open_run(at);
    const std::string path = run.path() + "/history.jsonl";
    write_file(path, "the first line\n");
    std::filesystem::resize_file(path, history_bytes_max + 100);  // a hole, which is one line of zeros
    std::ofstream(path, std::ios::app) << "\n" << encode_event(sample()) << "\n";
    const history all = need(run.read_history());
    cr_assert(all.events.size() == 1 && all.unreadable_count == 0 && all.skipped_bytes > 100);
}
