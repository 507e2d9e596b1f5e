#!/usr/bin/env bats
#
# A training job on a real Slurm, and what dies under it: ranks, agents, nodes. The training is lib/examples/train: its
# final weights tell whether a restart was bit for bit.
#
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a process of its own; training.bash sets the rest

cluster="$BATS_TEST_DIRNAME/cluster"
load support
load training

@test "a run that nobody disturbs ends with the reference weights" {
    submit
    within 90 ended
    identical
    complete 1
    run -0 "$cluster" run /opt/varde/bin/varde verify "/flash/$name"
    no_jobs
    for log in "$run"/log/node-0000{0,1}.log; do
        grep -aq ' info ' "$log"
        run -1 grep -a ' error ' "$log"
    done
}

@test "a dead node: requeued without it, and continued bit for bit" {
    submit
    within 60 complete 1
    "$cluster" kill node2
    within 60 starts 2
    (($(restart_step) > 0))
    [[ $(nodes | wc -l) == 2 ]]
    run -1 grep -x node2 <<<"$(nodes)"
    event requeued
    within 90 ended
    identical
    [[ $("$cluster" run sinfo -h -n node2 -o %T) == down* ]]
}

@test "a dead batch host, which is the leader's too" {
    submit
    within 60 complete 1
    "$cluster" kill node1
    within 60 starts 2
    (($(restart_step) > 0))
    within 90 ended
    identical
}

@test "a crashed rank: the batch script fails, and the job goes on from the newest generation" {
    TRAIN_PREFIX=--kill-on-bad-exit=1 submit
    within 60 complete 1
    "$cluster" exec node2 pkill -KILL -f examples/train
    within 60 starts 2
    (($(restart_step) > 0))
    within 90 ended
    identical
    [[ $(grep -ac '"event":"batch_failed"' "$run/history.jsonl") == 1 ]]
}

@test "ranks killed right after the fence: the generation still becomes complete" {
    # The ranks stage a generation and are killed by SIGKILL while the agents have just begun to write it.
    cp "$(tested_build)/tests/tools/killed_after_fence" "$flash/"
    cat >"$home/$name.sbatch" <<END
#!/bin/bash
#SBATCH --job-name=$name --nodes=2 --ntasks-per-node=2 --output=$name.out --no-requeue
LD_LIBRARY_PATH=/opt/varde/lib srun /flash/killed_after_fence
END
    job=$("$cluster" run sbatch --parsable --ckpt-interval=1h --ckpt-dir=/flash "--ckpt-name=$name" "$name.sbatch")
    within 60 ended
    within 20 complete 1
    run -0 "$cluster" run /opt/varde/bin/varde verify "/flash/$name"
}

@test "an agent's worker killed in mid-write: training goes on, and so do the generations" {
    submit
    within 60 complete 1
    local pid
    for _ in 1 2 3; do
        within 10 worker node2
        pid=$(worker node2)
        "$cluster" exec node2 kill -KILL "$pid"
        sleep 1.5
    done
    local done_before
    done_before=$(find "$run" -maxdepth 2 -name manifest.json | wc -l)
    within 60 grep -aq "takes over" "$run/log/node-00001.log"
    within 60 ended
    identical
    event complete
    starts 1
    run ! starts 2
    run -0 "$cluster" run /opt/varde/bin/varde verify "/flash/$name"
    ((done_before >= 1))
}

@test "a whole agent killed: training goes on without checkpoints" {
    submit
    within 60 complete 1
    "$cluster" exec node2 pkill -KILL varde-agent
    within 90 ended
    identical
    starts 1
    run ! starts 2
}

@test "two jobs of one user on one node do not touch each other" {
    submit --nodelist=node1,node2
    local first=$job
    within 60 complete 1
    name=${name}b run=${run}b
    submit --nodelist=node1,node2
    within 60 complete 1
    (($(agents node1 | wc -l) == 4))
    "$cluster" run scancel "$first"
    within 90 ended
    identical
}
