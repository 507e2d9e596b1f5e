// varde report: the story of a run, as text, JSON or a page.
#include "cli/report.h"

#include "base/clock.h"
#include "cli/json_text.h"
#include "cli/target.h"
#include "cli/verbs.h"
#include "pack/text.h"
#include "store/files.h"

#include <cerrno>
#include <fmt/format.h>

namespace varde::cli {

namespace {

result<story> read_story(const std::string& path, std::string& ret_path) {
    auto where = find_target(path);
    if (!where) return where.error();
    if (where->runs.size() != 1)
        return fail(code::invalid, "couldn't report on " + pack::in_quotes(path) +
                                       ": it holds several runs; give one, 'varde ls' shows them");
    ret_path = where->runs.front();
    const auto run = open_run(ret_path);
    if (!run) return run.error();
    const auto events = run->read_history();
    if (!events) return events.error();
    return tell(*events);
}

// A name of its own first: whoever looks at the page meanwhile sees the old one.
result<void> write_page(const std::string& path, const std::string& text) {
    const size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    const unique_fd at(store::files::open_at(AT_FDCWD, directory.c_str(), O_RDONLY | O_DIRECTORY));
    if (!at) return os_error(errno, "couldn't open the directory " + pack::in_quotes(directory));
    if (name.empty()) return fail(code::invalid, "couldn't write " + pack::in_quotes(path) + ": it names no file");
    return store::files::write_whole(at.get(), name, text, true, path);
}

}  // namespace

status report(const report_options& options, console to) {
    std::string path;
    const auto told = read_story(options.path, path);
    if (!told) {
        complain(to, told.error());
        return status::failed;
    }
    if (!options.html.empty()) {
        if (auto done = write_page(options.html, report_html(*told, path, wall_ns())); !done) {
            complain(to, done.error());
            return status::failed;
        }
        return status::good;
    }
    if (options.json) fmt::print(to.out, "{}", json_text(report_json(*told, path)));
    else fmt::print(to.out, "{}", report_text(*told, path, wall_ns(), options.all));
    return status::good;
}

}  // namespace varde::cli
