/* What plugin.c calls: the decisions of the plugin, in C++ behind a plain C face.
 *
 * plugin.c knows Slurm's callbacks and nothing else; these functions know the --ckpt-* options and nothing of Slurm but
 * its environment variables.  All run on the one thread on which Slurm calls plugins.  None throws, exits or writes. */
#ifndef VARDE_SPANK_HOOKS_H
#define VARDE_SPANK_HOOKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct varde_option {
    const char *name;  /* "ckpt-interval" */
    const char *value; /* "TIME" */
    const char *usage;
    const char *variable; /* "INTERVAL" */
};

/* Option number `index`, or NULL after the last. */
const struct varde_option *varde_option_at(int index);

/* Starts with no option given; called again, it starts over. */
void varde_begin(void);

/* Slurm hands the options of a job on to each srun, sbatch and salloc inside it as if they had been typed there.
 * That is taken away: sruns have the settled values in SLURM_VARDE_* (a relative directory would now mean another
 * place), and a `new_job` inside a job asks for itself, as with all other options, so that it loses SLURM_VARDE_* and
 * the prolog's SLURM_SPANK_VARDE_* too. */
void varde_forget_inherited(int new_job);

/* One option was given; a later call for the same option wins.  NULL, or the message for the user. */
const char *varde_take(int index, const char *text);

/* All options are known: fills in the defaults of a new job if `use_defaults` is set (VARDE_INTERVAL, ..., and the
 * site's `site_directory`, NULL for none), and makes the directory absolute, from `working_directory` (NULL: the
 * current one). NULL, or the message for the user. */
const char *varde_settle(int use_defaults, const char *site_directory, const char *working_directory);

/* The settled text of an option, or NULL where it is not given. */
const char *varde_value(int index);

/* 1: the job asked for checkpoints. */
int varde_wanted(void);

void varde_end(void);

/* Makes the sbatch job at hand requeue and append to its output, where the user has not said otherwise.  No-op
 * outside sbatch. NULL, or the message for the user. */
const char *varde_make_restartable(void);

/* The --chdir of sbatch, salloc or srun; NULL where there is none or Slurm does not tell. */
const char *varde_working_directory(void);

/* Asks the agent of the job below `run_directory` whether a failed batch script is to be requeued, and waits for its
 * answer for at most 10 s, because the agent runs `scontrol requeue` before it answers.  Returns at once where no
 * agent listens. */
void varde_batch_ended(const char *run_directory, uint32_t job_id, int wait_status);

#ifdef __cplusplus
}
#endif

#endif
