// --requeue and --open-mode=append as defaults of a job that asks for checkpoints.
//
// Slurm has no public interface for this.  sbatch, salloc and srun export their options (`opt`) and the two functions
// that read and set one by its name, unchanged from 22.05 to 26.05; each is looked up, and where one is missing the
// user is told what to add by hand.  To be replaced once SPANK can set options.
#include "spank/hooks.h"

#include <cstring>
#include <dlfcn.h>

namespace {

using get_option = char* (*)(void* options, const char* name);
using set_option = int (*)(void* options, const char* name, const char* value, bool early);

constexpr const char* by_hand =
    "couldn't make the job restartable: this Slurm doesn't let a plugin set it; add '--requeue --open-mode=append'";

struct slurm_options {
    void* options = ::dlsym(RTLD_DEFAULT, "opt");
    get_option get = reinterpret_cast<get_option>(::dlsym(RTLD_DEFAULT, "slurm_option_get"));
    set_option set = reinterpret_cast<set_option>(::dlsym(RTLD_DEFAULT, "slurm_option_set"));

    // What `get` returns is Slurm's to free, with a function of its own that no plugin can rely on; some bytes are
    // lost in a process that lives for a moment.
    const char* text(const char* name) const {
        return options != nullptr && get != nullptr ? get(options, name) : nullptr;
    }
    bool unset(const char* name) const {
        const char* value = text(name);
        return value == nullptr || *value == '\0' || std::strcmp(value, "unset") == 0;
    }
};

}  // namespace

extern "C" {

const char* varde_make_restartable(void) {
    if (::dlsym(RTLD_DEFAULT, "sbopt") == nullptr) return nullptr;  // salloc: an interactive job cannot be requeued
    const slurm_options slurm;
    if (slurm.options == nullptr || slurm.get == nullptr || slurm.set == nullptr) return by_hand;
    // Slurm may write into the value.  From 25.11 on, --requeue takes one: empty is the plain requeue that all
    // versions know.
    char empty[1] = "";
    char append[] = "append";
    if (slurm.unset("requeue") && slurm.set(slurm.options, "requeue", empty, false) != 0) return by_hand;
    if (slurm.unset("open-mode") && slurm.set(slurm.options, "open-mode", append, false) != 0) return by_hand;
    return nullptr;
}

const char* varde_working_directory(void) {
    const slurm_options slurm;
    return slurm.unset("chdir") ? nullptr : slurm.text("chdir");
}

}  // extern "C"
