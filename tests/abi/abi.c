/* What a program in plain C relies on: the header is C99, structs lie as they lay, numbers mean what they meant, the
 * library loads. */
#include "varde.h"

#include <stdio.h>
#include <string.h>

#define HOLDS(name, condition) typedef char name[(condition) ? 1 : -1]

HOLDS(options_size, sizeof(varde_options) == 72);
HOLDS(options_directory, offsetof(varde_options, directory) == 8);
HOLDS(options_name, offsetof(varde_options, name) == 16);
HOLDS(options_socket, offsetof(varde_options, socket) == 24);
HOLDS(options_launch, offsetof(varde_options, launch) == 32);
HOLDS(options_interval, offsetof(varde_options, interval_s) == 40);
HOLDS(options_rank, offsetof(varde_options, rank) == 48);
HOLDS(options_world, offsetof(varde_options, world) == 52);
HOLDS(options_local_rank, offsetof(varde_options, local_rank) == 56);
HOLDS(options_local_count, offsetof(varde_options, local_count) == 60);
HOLDS(options_node_index, offsetof(varde_options, node_index) == 64);
HOLDS(options_node_count, offsetof(varde_options, node_count) == 68);

HOLDS(shard_size, sizeof(varde_shard) == 56);
HOLDS(shard_name, offsetof(varde_shard, name) == 8);
HOLDS(shard_dtype, offsetof(varde_shard, dtype) == 16);
HOLDS(shard_dims, offsetof(varde_shard, dims) == 20);
HOLDS(shard_shape, offsetof(varde_shard, shape) == 24);
HOLDS(shard_global_shape, offsetof(varde_shard, global_shape) == 32);
HOLDS(shard_offset, offsetof(varde_shard, offset) == 40);
HOLDS(shard_data, offsetof(varde_shard, data) == 48);

HOLDS(status_size, sizeof(varde_status_info) == 96);
HOLDS(status_incarnation, offsetof(varde_status_info, incarnation) == 8);
HOLDS(status_restored, offsetof(varde_status_info, restored_step) == 16);
HOLDS(status_saved, offsetof(varde_status_info, saved_step) == 24);
HOLDS(status_complete, offsetof(varde_status_info, complete_step) == 32);
HOLDS(status_failed, offsetof(varde_status_info, failed_step) == 40);
HOLDS(status_saves, offsetof(varde_status_info, saves) == 48);
HOLDS(status_staged, offsetof(varde_status_info, staged_bytes) == 56);
HOLDS(status_stall, offsetof(varde_status_info, stall_ns) == 64);
HOLDS(status_stall_max, offsetof(varde_status_info, stall_ns_max) == 72);
HOLDS(status_pinned, offsetof(varde_status_info, pinned_bytes) == 80);
HOLDS(status_pin_error, offsetof(varde_status_info, pin_error) == 88);

HOLDS(codes, VARDE_OK == 0 && VARDE_E_INVALID == 1 && VARDE_E_UNAVAILABLE == 2 && VARDE_E_TIMEOUT == 3 &&
                 VARDE_E_BUSY == 4 && VARDE_E_NO_MEMORY == 5 && VARDE_E_NO_SPACE == 6 && VARDE_E_IO == 7 &&
                 VARDE_E_DAMAGED == 8 && VARDE_E_NOT_FOUND == 9 && VARDE_E_FENCED == 10 && VARDE_E_MISMATCH == 11 &&
                 VARDE_E_INTERNAL == 12);
HOLDS(types, VARDE_BOOL == 1 && VARDE_U8 == 2 && VARDE_BF16 == 9 && VARDE_F32 == 12 && VARDE_C64 == 16 &&
                 VARDE_F8_E8M0 == 20 && VARDE_F8_E5M2FNUZ == 22);

static int wrong(const char *what) {
    fprintf(stderr, "abi: %s\n", what);
    return 1;
}

int main(void) {
    varde_options options = VARDE_OPTIONS_INIT;
    varde_run *run = NULL;
    varde_status_info status;
    varde_shard shard;
    uint64_t step = 5;

    memset(&shard, 0, sizeof shard);
    memset(&status, 0, sizeof status);
    status.size = sizeof status;
    if (options.size != sizeof options || options.launch != NULL || options.interval_s != -1 ||
        options.node_count != -1)
        return wrong("VARDE_OPTIONS_INIT does not mean 'from the environment'");
    if (strcmp(varde_version(), VARDE_VERSION) != 0) return wrong("the library is of another version than the header");
    if (strcmp(varde_code_name(VARDE_E_BUSY), "busy") != 0) return wrong("varde_code_name");
    options.world = 1;
    options.rank = 1;
    if (varde_open(&options, &run) != VARDE_E_INVALID || run != NULL) return wrong("varde_open took rank 1 of 1");
    if (strstr(varde_error_text(NULL), "rank 1 of 1") == NULL) return wrong("varde_error_text does not name it");
    if (varde_register(run, &shard) != VARDE_E_INVALID) return wrong("varde_register of a NULL run");
    if (varde_order_after(run, NULL) != VARDE_E_INVALID) return wrong("varde_order_after of a NULL run");
    if (varde_unregister(run, "x") != VARDE_E_INVALID) return wrong("varde_unregister of a NULL run");
    if (varde_restore(run, &step) != VARDE_E_INVALID || step != 5) return wrong("varde_restore of a NULL run");
    if (varde_due(run, 1) != 0 || varde_save(run, 1) != VARDE_E_INVALID) return wrong("varde_save of a NULL run");
    if (varde_fence(run) != VARDE_E_INVALID || varde_wait(run, 0) != VARDE_E_INVALID) return wrong("varde_fence");
    if (varde_status(run, &status) != VARDE_E_INVALID) return wrong("varde_status of a NULL run");
    if (varde_close(run) != VARDE_OK) return wrong("varde_close(NULL)");
    return 0;
}
