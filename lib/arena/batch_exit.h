/* The one message that the SPANK plugin sends to the agent, in plain C: "the batch script has ended".
 *
 * Both structs go over the agent's socket as they are (x86-64 and arm64 are little-endian; the frame head is that of
 * protocol.h).  The plugin runs as root and trusts nothing in the answer: it only waits for it. */
#ifndef VARDE_BATCH_EXIT_H
#define VARDE_BATCH_EXIT_H

#include <stdint.h>

#define VARDE_FRAME_MAGIC 0x45445256u /* "VRDE" */
#define VARDE_FRAME_VERSION 2u
#define VARDE_FRAME_BATCH_EXIT 32u
#define VARDE_FRAME_BATCH_ANSWER 33u

struct varde_frame_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint64_t payload_bytes;
};

struct varde_batch_exit {
    struct varde_frame_head head; /* payload_bytes = 48 */
    uint64_t job_id;
    int32_t wait_status; /* as from waitpid() */
    uint8_t zero[36];
};

struct varde_batch_answer {
    struct varde_frame_head head; /* payload_bytes = 16 */
    uint32_t requeued;            /* 1: the agent has had the job requeued */
    uint8_t zero[12];
};

#endif
