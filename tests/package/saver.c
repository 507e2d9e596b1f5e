/* A training program in a container, as short as it can be: one checkpoint, durable, through the agent of the host. */
#include <stdio.h>
#include <varde.h>

static float weights[1 << 20];

static int complain(const char *call, const varde_run *run)
{
    fprintf(stderr, "%s: %s\n", call, varde_error_text(run));
    return 1;
}

int main(void)
{
    varde_run *run = NULL;
    uint64_t step = 0;
    const uint64_t shape[] = {1 << 20};
    const varde_shard shard = {sizeof shard, "weights", VARDE_F32, 1, shape, NULL, NULL, weights};

    if (varde_open(NULL, &run) != VARDE_OK) return complain("varde_open", NULL);
    if (varde_register(run, &shard) != VARDE_OK) return complain("varde_register", run);
    if (varde_restore(run, &step) != VARDE_OK) return complain("varde_restore", run);
    if (varde_save(run, step + 1) != VARDE_OK) return complain("varde_save", run);
    if (varde_wait(run, 60000) != VARDE_OK) return complain("varde_wait", run);
    varde_close(run);
    printf("step %llu is durable\n", (unsigned long long)step + 1);
    return 0;
}
