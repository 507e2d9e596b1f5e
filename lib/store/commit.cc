// The commit record, and the mark of damage.
//
// Two agents may both believe that they lead.  The manifest's name can be taken only once, and whoever comes second
// compares: the same packs are success, others are an error that both can see.
#include "store/files.h"
#include "store/judge.h"
#include "store/manifest.h"
#include "store/names.h"

#include <cerrno>
#include <unistd.h>

namespace varde::store {

namespace {

// `latest` is for people: "ls -l latest", "varde show latest".  A link cannot be replaced in place, so it is made anew
// and renamed.
result<void> point_latest(int run, const std::string& generation) {
    const std::string temporary = files::unique_name(files::temporary_prefix);
    if (::symlinkat(generation.c_str(), run, temporary.c_str()) != 0)
        return os_error(errno, "couldn't make the link 'latest'");
    if (::renameat(run, temporary.c_str(), run, "latest") == 0) return {};
    const int why = errno;
    discard(::unlinkat(run, temporary.c_str(), 0), "the first failure is the one to report");
    return os_error(why, "couldn't replace the link 'latest'");
}

}  // namespace

result<void> run_directory::confirm(const manifest& record) const {
    const result<bool> links = may_have_links();
    if (!links) return links.error();
    if (!*links) return {};
    const std::string generation = generation_name(record.id);
    judged of;
    of.what.id = record.id;
    of.what.status = generation_status::complete;
    of.what.committed = true;  // as it is to be
    of.what.node_count = static_cast<uint32_t>(record.packs.size());
    of.sealed.assign(record.packs.size(), true);
    of.record = record;
    result<unique_fd> directory = files::open_directory(fd_.get(), generation, path_ + "/" + generation);
    if (!directory) return std::move(directory).error();
    of.directory = std::move(*directory);
    of.owner = ::geteuid();
    if (const result<void> measured = measure(of); !measured) return measured;
    if (of.what.status == generation_status::complete) return {};
    return fail(code::io, "'" + path_ + "': " + of.what.reason +
                              ", as this node sees it; each of agent.mounts must be the same file system on all nodes");
}

result<void> run_directory::commit(const manifest& record) {
    const std::string generation = generation_name(record.id);
    const std::string path = path_ + "/" + generation + "/" + std::string(manifest_name);
    const result<std::string> text = encode_manifest(record);
    if (!text) return text.error();
    const result<unique_fd> directory = files::open_directory(fd_.get(), generation, path_ + "/" + generation);
    if (!directory) return directory.error();
    result<void> written =
        files::write_whole(directory->get(), std::string(manifest_name), *text, /*replace=*/false, path);
    if (!written && written.error().os_errno == EEXIST) {
        const result<manifest> there = read_manifest(record.id);
        if (there && !same_packs(*there, record))
            return fail(code::mismatch, "couldn't commit '" + path +
                                            "': another leader has committed this generation with other packs");
        if (!there && there.error().what != code::damaged) return there.error();
        // One that nobody can read helps nobody.  One of another leader is as good as ours; its leader may have died
        // before it synced.
        written = there
                      ? files::sync(directory->get(), path)
                      : files::write_whole(directory->get(), std::string(manifest_name), *text, /*replace=*/true, path);
    }
    if (!written) return written;
    // The node that made the generation's directory may have died before it synced the run's.
    if (const result<void> synced = files::sync(fd_.get(), path_); !synced) return synced;
    discard(point_latest(fd_.get(), generation), "no code reads `latest`; the generation is committed without it");
    return {};
}

result<manifest> run_directory::read_manifest(generation_id id) const {
    const std::string generation = generation_name(id);
    const std::string name(manifest_name);
    const std::string path = path_ + "/" + generation;
    const result<unique_fd> directory = files::open_directory(fd_.get(), generation, path);
    if (!directory) return directory.error();
    const result<std::string> text = files::read_text(directory->get(), name, manifest_bytes_max, path + "/" + name);
    if (!text) return text.error();
    result<manifest> record = decode_manifest(*text);
    if (!record) return fail(record.error().what, "'" + path + "/" + name + "': " + record.error().context);
    if (record->id != id)
        return fail(code::damaged, "'" + path + "/" + name + "' is the manifest of " + generation_name(record->id));
    return record;
}

result<void> run_directory::mark_damaged(generation_id id, const std::string& reason) {
    const std::string generation = generation_name(id);
    const std::string name(damage_name);
    const std::string path = path_ + "/" + generation;
    const result<unique_fd> directory = files::open_directory(fd_.get(), generation, path);
    if (!directory) return directory.error();
    result<void> written =
        files::write_whole(directory->get(), name, encode_damage(reason), /*replace=*/false, path + "/" + name);
    // The first reason stays: what is found later may follow from it.
    if (!written && written.error().os_errno == EEXIST) return {};
    return written;
}

}  // namespace varde::store
