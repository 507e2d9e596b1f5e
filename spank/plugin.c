/* spank_varde.so: every callback that Slurm calls, on one screen.  README.md says which run where and which may come
 * twice.
 *
 * In C, because spank.h declares its callbacks outside extern "C", and SPANK_PLUGIN's constants would get internal
 * linkage in C++. Visible by attribute, because the version script (spank.map) cannot un-hide what
 * -fvisibility=hidden hides.
 *
 * Remote callbacks run as root in slurmstepd, and a non-zero one drains the node: they return 0 whatever happens.
 * Failures of sbatch, salloc and srun are negative, because positive values are ignored before Slurm 25.05. */
#include "spank/hooks.h"

#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stddef.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

#pragma GCC visibility push(default)
SPANK_PLUGIN(varde, 1)
#pragma GCC visibility pop

static int submitting(void) {
    const spank_context_t context = spank_context();
    return context == S_CTX_ALLOCATOR || context == S_CTX_LOCAL;
}

/* An srun inside a job is a step of it; everything else that submits makes a job of its own. */
static int new_job(void) { return spank_context() == S_CTX_ALLOCATOR || getenv("SLURM_JOB_ID") == NULL; }

/* The plugin's own arguments in plugstack.conf. */
static const char *site_directory(int argument_count, char *arguments[]) {
    const char *found = NULL;
    for (int i = 0; i < argument_count; i++) {
        if (strncmp(arguments[i], "dir=", 4) == 0) found = arguments[i] + 4;
        else slurm_error("varde: couldn't use '%s' in plugstack.conf: there is dir=PATH only", arguments[i]);
    }
    return found;
}

static int report(const char *message) {
    if (message == NULL) return 0;
    slurm_spank_log("varde: %s", message);
    return -1;
}

/* In the stepd the text is only accepted: the tasks get the values by their environment. */
static int take_option(int index, const char *text, int remote) { return remote ? 0 : report(varde_take(index, text)); }

static void register_options(spank_t spank) {
    const struct varde_option *each = NULL;
    for (int index = 0; (each = varde_option_at(index)) != NULL; index++) {
        /* Slurm copies the struct and its texts; the casts are for an interface without const. */
        struct spank_option option = {(char *)each->name, (char *)each->value, (char *)each->usage, 1, index,
                                      take_option};
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS && submitting())
            slurm_error("varde: couldn't register '--%s', it cannot be used here", each->name);
    }
}

/* For inner steps and tasks as SLURM_VARDE_*, a name that survives every --export mode; for Prolog, Epilog and
 * EpilogSlurmctld as SPANK_VARDE_*, which also tells them that there is anything to do. */
static int export_options(spank_t spank) {
    const struct varde_option *each = NULL;
    for (int index = 0; (each = varde_option_at(index)) != NULL; index++) {
        const char *value = varde_value(index);
        char name[64];
        if (value == NULL) continue;
        snprintf(name, sizeof name, "SLURM_VARDE_%s", each->variable);
        if (setenv(name, value, 1) != 0) return report("couldn't set the job's environment: out of memory");
        /* It has been read, or beaten; the library, for which it is nearer than SLURM_VARDE_*, must not read it too. */
        unsetenv(name + sizeof "SLURM_" - 1);
        if (!varde_wanted()) continue;
        if (spank_job_control_setenv(spank, name + sizeof "SLURM_" - 1, value, 1) != ESPANK_SUCCESS)
            return report("couldn't set the prolog's environment, the job would run without checkpoints");
    }
    return 0;
}

EXPORTED int slurm_spank_init(spank_t spank, int argument_count, char *arguments[]) {
    (void)argument_count;
    (void)arguments;
    if (spank_context() == S_CTX_SLURMD) return 0;
    varde_begin();
    if (submitting()) varde_forget_inherited(new_job());
    register_options(spank);
    return 0;
}

EXPORTED int slurm_spank_init_post_opt(spank_t spank, int argument_count, char *arguments[]) {
    if (!submitting()) return 0;
    const char *site = site_directory(argument_count, arguments);
    if (report(varde_settle(new_job(), site, varde_working_directory())) != 0) return -1;
    if (export_options(spank) != 0) return -1;
    if (spank_context() == S_CTX_ALLOCATOR && varde_wanted()) report(varde_make_restartable());
    return 0;
}

EXPORTED int slurm_spank_task_exit(spank_t spank, int argument_count, char *arguments[]) {
    (void)argument_count;
    (void)arguments;
    uint32_t job_id = 0;
    uint32_t step_id = 0;
    int wait_status = 0;
    if (spank_remote(spank) != 1) return 0;
    if (spank_get_item(spank, S_JOB_STEPID, &step_id) != ESPANK_SUCCESS || step_id != SLURM_BATCH_SCRIPT) return 0;
    if (spank_get_item(spank, S_TASK_EXIT_STATUS, &wait_status) != ESPANK_SUCCESS || wait_status == 0) return 0;
    if (spank_get_item(spank, S_JOB_ID, &job_id) != ESPANK_SUCCESS) return 0;
    varde_batch_ended("/run/varde", job_id, wait_status);
    return 0;
}

EXPORTED int slurm_spank_exit(spank_t spank, int argument_count, char *arguments[]) {
    (void)spank;
    (void)argument_count;
    (void)arguments;
    varde_end();
    return 0;
}
