/* SPDX-License-Identifier: Apache-2.0
 *
 * varde.h - checkpoints of training jobs, written in the background (C99, also C++).
 *
 * The life of a run, as every rank lives it:
 *
 *     varde_run *run;
 *     uint64_t step = 0;
 *     if (varde_open(NULL, &run)) ...                       // once per process
 *     varde_register(run, &shard) ...                       // each tensor piece that this rank owns
 *     varde_restore(run, &step);                            // 0: nothing to restore, start from the beginning
 *     while (step < steps) {
 *         forward_and_backward();
 *         varde_fence(run);                                 // the registered memory may change again
 *         optimizer_step();
 *         step++;
 *         if (varde_due(run, step)) varde_save(run, step);
 *     }
 *     varde_close(run);
 *
 * A step's number is the number of optimizer steps done: what is saved as step 1200 is the state after 1200 of them.
 *
 * Rules that hold for every call:
 * - Threads: one run belongs to one thread at a time. varde_error_text and varde_code_name may be called from any.
 * - A child after fork() must not use the run; there every call but varde_close returns VARDE_E_INVALID (varde_due: 0)
 *   and touches nothing.
 * - No call exits, throws, prints, raises or handles a signal, or waits without a bound.
 * - Return values: VARDE_OK (0) or one of enum varde_code. Out parameters (ret_...) are untouched on failure.
 * - A checkpoint that fails never fails training: after any error of varde_save, varde_fence or varde_wait the
 *   program may simply go on; the next generation is tried at the next due step.
 * - Strings are UTF-8 and end with a zero byte; the library copies what it needs before it returns.
 */
#ifndef VARDE_H
#define VARDE_H

#include <stddef.h>
#include <stdint.h>

#define VARDE_VERSION_MAJOR 0
#define VARDE_VERSION_MINOR 1
#define VARDE_VERSION_PATCH 0
#define VARDE_VERSION "0.1.0"

#if defined(__GNUC__)
#define VARDE_API __attribute__((visibility("default")))
#else
#define VARDE_API
#endif

#ifdef __cplusplus
#define VARDE_NOEXCEPT noexcept
extern "C" {
#else
#define VARDE_NOEXCEPT
#endif

typedef struct varde_run varde_run;

enum varde_code {
    VARDE_OK = 0,
    VARDE_E_INVALID = 1,     /* an argument or option is wrong; trying again does not help */
    VARDE_E_UNAVAILABLE = 2, /* no agent or no storage answers; may work later */
    VARDE_E_TIMEOUT = 3,     /* the deadline passed */
    VARDE_E_BUSY = 4,        /* another job writes this run */
    VARDE_E_NO_MEMORY = 5,   /* the arena, or memory that may be locked, is too small */
    VARDE_E_NO_SPACE = 6,    /* the file system is full, or the quota */
    VARDE_E_IO = 7,          /* the system refused a read, a write or another call */
    VARDE_E_DAMAGED = 8,     /* what was read breaks a rule of its format */
    VARDE_E_NOT_FOUND = 9,   /* there is no such thing */
    VARDE_E_FENCED = 10,     /* a newer incarnation of the run exists; this one writes no more */
    VARDE_E_MISMATCH = 11,   /* what is stored does not fit what is registered (shape, type, world) */
    VARDE_E_INTERNAL = 12    /* a mistake of ours: please report it */
};

/* Element types, those of the safetensors format. Sub-byte types pack their elements; a shard must fill whole bytes. */
enum varde_dtype {
    VARDE_BOOL = 1,
    VARDE_U8 = 2,
    VARDE_I8 = 3,
    VARDE_F8_E5M2 = 4,
    VARDE_F8_E4M3 = 5,
    VARDE_I16 = 6,
    VARDE_U16 = 7,
    VARDE_F16 = 8,
    VARDE_BF16 = 9,
    VARDE_I32 = 10,
    VARDE_U32 = 11,
    VARDE_F32 = 12,
    VARDE_F64 = 13,
    VARDE_I64 = 14,
    VARDE_U64 = 15,
    VARDE_C64 = 16,
    VARDE_F4 = 17,
    VARDE_F6_E2M3 = 18,
    VARDE_F6_E3M2 = 19,
    VARDE_F8_E8M0 = 20,
    VARDE_F8_E4M3FNUZ = 21,
    VARDE_F8_E5M2FNUZ = 22
};

/* How to open a run. Fill with VARDE_OPTIONS_INIT, then change what you need; NULL and -1 mean "from the environment":
 * VARDE_... variables, then what sbatch --ckpt-... set, then the launcher's (torchrun, Open MPI, MPICH, Slurm). */
typedef struct varde_options {
    size_t size;           /* sizeof(varde_options): how later versions tell what the caller knows */
    const char *directory; /* where runs live, taken as it is; else --ckpt-dir with its patterns; else ./checkpoints */
    const char *name;      /* of the run, at most 128 of A-Z a-z 0-9 . _ - ; else --ckpt-name; else the job's; "run" */
    const char *socket;    /* of the agent; else VARDE_SOCKET; else /run/varde/JOBID/agent.sock; else one is started */
    const char *launch;    /* name of this start: same on all ranks, new each time; else VARDE_LAUNCH; the launcher's */
    int64_t interval_s;    /* seconds between checkpoints; 0: varde_due never asks for one; VARDE_INTERVAL_AUTO */
    int32_t rank;          /* this process's rank in the world */
    int32_t world;         /* ranks in all */
    int32_t local_rank;    /* rank within this node, from 0 */
    int32_t local_count;   /* ranks of this node */
    int32_t node_index;    /* this node, from 0 */
    int32_t node_count;    /* nodes in all */
} varde_options;

#define VARDE_INTERVAL_AUTO (-2)

#define VARDE_OPTIONS_INIT \
    { sizeof(varde_options), NULL, NULL, NULL, NULL, -1, -1, -1, -1, -1, -1, -1 }

/* A piece of a tensor that this rank owns. `data` stays the caller's and must stay valid until the shard is removed or
 * the run closed. A tensor that is not split: global_shape and offset NULL. Elements lie in C order, without gaps.
 * `data` may be memory of any GPU of this process, managed memory, host memory registered with the CUDA driver, or any
 * other host memory: varde_register asks the driver. All of one shard lies in memory of one kind and GPU. */
typedef struct varde_shard {
    size_t size;      /* sizeof(varde_shard) */
    const char *name; /* of the whole tensor, 1 to 1024 bytes, unique within this rank */
    enum varde_dtype dtype;
    uint32_t dims;                /* 0 (a scalar) to 64 */
    const uint64_t *shape;        /* of this piece, `dims` numbers of elements; NULL if dims is 0 */
    const uint64_t *global_shape; /* of the whole tensor, `dims` numbers, or NULL */
    const uint64_t *offset;       /* where the piece begins in the whole, `dims` numbers, or NULL */
    void *data;                   /* host or GPU memory; may be NULL only for zero elements */
} varde_shard;

/* Opens the run: finds this node's agent (or starts one), shakes hands and maps this rank's slab.
 * options     NULL for everything from the environment
 * ret_run     the handle; freed by varde_close
 * May block up to 60 s (until an earlier start of this job on the node has ended).
 * Returns VARDE_OK; VARDE_E_INVALID a bad option; VARDE_E_UNAVAILABLE no agent answers and none could be started;
 * VARDE_E_IO somebody else listens on the agent's socket, or a system call failed; VARDE_E_TIMEOUT; VARDE_E_BUSY
 * another step of this job has the run open on this node; VARDE_E_NO_MEMORY the arena is too small. */
VARDE_API int varde_open(const varde_options *options, varde_run **ret_run) VARDE_NOEXCEPT;

/* Adds a shard. Between checkpoints at any time: what is registered when varde_save is called is saved.
 * Does not block. The slab is registered with the CUDA driver in varde_restore, if a shard is then in GPU memory; else
 * in the first varde_save with one, which takes longer by that.
 * Returns VARDE_OK; VARDE_E_INVALID name, shape, type or pointer is wrong, or the name is taken; VARDE_E_UNAVAILABLE
 * the CUDA driver that this process has loaded is too old; VARDE_E_IO, VARDE_E_NO_MEMORY it refuses a call. */
VARDE_API int varde_register(varde_run *run, const varde_shard *shard) VARDE_NOEXCEPT;

/* Says on which CUDA stream the work is enqueued that writes registered memory: each varde_save then copies what the
 * memory holds after the work enqueued there before the call, and varde_restore writes after it. Without this call it
 * is the legacy default stream of each GPU, which waits for all streams but non-blocking ones.
 * cuda_stream  a CUstream or cudaStream_t, as torch.cuda.current_stream().cuda_stream; it must live until it is
 *              replaced or the run closed. NULL: the legacy default stream of the current context
 * One stream counts per GPU (CUDA context), the last one given: a process with several calls it once for each. Work on
 * any of them comes before every copy of a save, whatever GPU the memory is on.
 * Does not block. Returns VARDE_OK; VARDE_E_INVALID no CUDA driver is loaded; VARDE_E_UNAVAILABLE it is too old;
 * VARDE_E_IO the driver refuses the stream. */
VARDE_API int varde_order_after(varde_run *run, void *cuda_stream) VARDE_NOEXCEPT;

/* Removes a shard by its name. Calls varde_fence first when a copy is under way, so it may block like it.
 * Returns VARDE_OK or VARDE_E_NOT_FOUND. */
VARDE_API int varde_unregister(varde_run *run, const char *name) VARDE_NOEXCEPT;

/* Fills the registered memory from the newest complete generation, the same one on every rank, and opens the
 * incarnation. Every rank calls it once, after registering and before training, also on the first start.
 * ret_step    the number of steps done in what was restored; 0: there is nothing yet, memory is untouched
 * Blocks until all ranks have loaded; gives up after 10 min without a sign of life of the agent.
 * Returns VARDE_OK; VARDE_E_BUSY another job writes this run; VARDE_E_DAMAGED generations exist, but none can be used
 * (contents of the memory are then undefined; nothing was deleted); VARDE_E_MISMATCH what is stored does not fit what
 * is registered; VARDE_E_IO, _NOT_FOUND the directory cannot be read; VARDE_E_IO a GPU or its driver fails;
 * VARDE_E_INVALID a CUDA graph is being captured; VARDE_E_FENCED; VARDE_E_UNAVAILABLE; VARDE_E_TIMEOUT. */
VARDE_API int varde_restore(varde_run *run, uint64_t *ret_step) VARDE_NOEXCEPT;

/* Asks whether a checkpoint of this step is wanted, and tells the agent where training is (its only source).
 * Call it once per step, on every rank, with growing steps from 1 on. One load and one store of shared memory: some
 * nanoseconds, never blocks.
 * Returns 1 yes, 0 no. */
VARDE_API int varde_due(varde_run *run, uint64_t step) VARDE_NOEXCEPT;

/* Starts a checkpoint of all registered shards under this step, and returns; the copies run in the background.
 * All ranks call it with the same step; it need not have been due. The memory must not change before varde_fence.
 * Work that is enqueued on a GPU (see varde_order_after) need not have ended: the copies wait for it, not the caller.
 * Calls varde_fence first if the last one was not waited for. Does not block otherwise.
 * Returns VARDE_OK; VARDE_E_INVALID step 0, not above the last one, before varde_restore, or while a CUDA graph is
 * captured on the program's stream; VARDE_E_FENCED; VARDE_E_UNAVAILABLE the agent is gone and could not be reached
 * again, VARDE_E_IO a GPU or its driver fails: this generation is skipped. */
VARDE_API int varde_save(varde_run *run, uint64_t step) VARDE_NOEXCEPT;

/* Waits until the registered memory may change again, that is until the last save's copies are in the slab.
 * Free when there is nothing to wait for. Where the slab is smaller than the shards it waits for storage, as long as
 * that makes progress at least once in 120 s, and as long for a GPU.
 * Returns VARDE_OK; VARDE_E_TIMEOUT, VARDE_E_UNAVAILABLE, VARDE_E_IO a GPU fails (the text names it and the driver's
 * error), VARDE_E_FENCED: this generation was given up, the memory may change. A GPU's copy that has not ended even
 * then may still come into the slab: this run saves no more, and its slab stays mapped until the process ends. */
VARDE_API int varde_fence(varde_run *run) VARDE_NOEXCEPT;

/* Waits until the newest save is complete on storage, on all nodes, or has failed.
 * timeout_ms  0 only looks
 * Returns VARDE_OK complete (or nothing was saved); VARDE_E_TIMEOUT not yet; another code: that generation failed. */
VARDE_API int varde_wait(varde_run *run, uint32_t timeout_ms) VARDE_NOEXCEPT;

/* What a run has done so far, on this rank. Set `size` before the call. */
typedef struct varde_status_info {
    size_t size;
    uint64_t incarnation;   /* 0 before varde_restore */
    uint64_t restored_step; /* 0: none */
    uint64_t saved_step;    /* newest step given to varde_save */
    uint64_t complete_step; /* newest step that is complete on storage; 0: none in this incarnation */
    uint64_t failed_step;   /* newest step that was given up; 0: none */
    uint64_t saves;         /* calls of varde_save that began a generation */
    uint64_t staged_bytes;  /* copied to the slab */
    uint64_t stall_ns;      /* time spent inside varde_save and varde_fence */
    uint64_t stall_ns_max;  /* the longest of them for one generation */
    uint64_t pinned_bytes;  /* of the slab, registered with the CUDA driver; 0: no GPU in use, or refused */
    uint64_t pin_error;     /* the CUDA driver's number (CUresult) of the refusal; 0: none. Copies are slower then,
                             * and varde_fence waits inside the driver: as long as a GPU that hangs */
} varde_status_info;

/* Fills ret_status. Does not block. Returns VARDE_OK or VARDE_E_INVALID. */
VARDE_API int varde_status(const varde_run *run, varde_status_info *ret_status) VARDE_NOEXCEPT;

/* Closes the run: waits for the copies (as varde_fence), then tells the agent that this rank is done, and frees all.
 * The agent goes on writing; use varde_wait before it to know that the last generation is safe, needed only where
 * the agent was started by this library. NULL is allowed. Returns what varde_fence would. */
VARDE_API int varde_close(varde_run *run) VARDE_NOEXCEPT;

/* The last failure of this run in one line, for people: what failed, on what, why, and what can be done. Never NULL.
 * run         NULL: the last failure without a run (varde_open, varde_close, a call with a NULL run) of this thread
 * Valid until the next call with the same run. Waits only for a call of another thread that is under way. */
VARDE_API const char *varde_error_text(const varde_run *run) VARDE_NOEXCEPT;

/* "busy", "damaged", ...; "unknown" for a number that is no code. Never NULL. */
VARDE_API const char *varde_code_name(int code) VARDE_NOEXCEPT;

/* The version of the library that was loaded, as VARDE_VERSION. */
VARDE_API const char *varde_version(void) VARDE_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
