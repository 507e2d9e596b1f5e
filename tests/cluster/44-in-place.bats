#!/usr/bin/env bats
#
# `varde run` in the batch script: a step of three nodes in an allocation of four is started again in place.
#
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a process of its own; training.bash sets the rest

cluster="$BATS_TEST_DIRNAME/cluster"
load support
load training

setup_file() {
    own_cluster
    training_cluster '' --nodes 5
    # As its steps are placed here: six ranks on three nodes.
    "$cluster" run srun -N3 --ntasks-per-node=2 /opt/varde/share/varde/examples/train --no-checkpoint \
        --rows "$rows" --steps "$steps" --result reference
    export reference
    reference=$(cat "$VARDE_CLUSTER_DIR/home/varde/reference")
}

# submit_in_place OPTIONS...: a training of three nodes in four, under `varde run`.
submit_in_place() {
    cat >"$home/$name.sbatch" <<END
#!/bin/bash
#SBATCH --job-name=$name --nodes=4 --ntasks-per-node=2 --no-kill --output=$name.out
#SBATCH --ckpt-interval=2s --ckpt-dir=/flash --ckpt-name=$name
varde run -- srun --nodes=3 --ntasks=6 ${STEP_OPTIONS:-} ${TRAIN_PREFIX:-} /opt/varde/share/varde/examples/train \\
    --rows $rows --steps $steps --step-ms 70 --print-every 1 --result $name.result
status=\$?
echo "varde run ended with \$status"
exit \$status
END
    job=$("$cluster" run sbatch --parsable "$@" "$name.sbatch")
    out=$home/$name.out
}
said() { grep -aq "^varde run: .*$1" "$out"; }
restarts() { "$cluster" run scontrol show job "$job" | grep -o 'Restarts=[0-9]*'; }
new_generation() { find "$run" -maxdepth 2 -path "*.r$1/manifest.json" | grep -q .; } # of INCARNATION
crash_a_rank() { "$cluster" exec "$1" pkill -KILL -n -f examples/train; }

@test "a dead node: a spare takes its ranks, the others restore from memory, the job is not requeued" {
    submit_in_place
    within 60 complete 1
    "$cluster" kill node2
    within 60 starts 2
    (($(restart_step) > 0))
    said 'node node2 is silent'
    said 'node node2 is dead: started again in place on node1,node4,node3'
    event restarted_in_place
    run ! event requeued
    [[ $(restarts) == Restarts=0 ]]
    # Slurm counts node3 as the second node of the new step now, node4 as the third: the spare alone has read.
    grep -aq 'loaded: .* from this node.s memory, 0 B from storage' "$run/log/node-00000.log"
    grep -aq 'loaded: .* from this node.s memory, 0 B from storage' "$run/log/node-00001.log"
    grep -aq 'loaded: 0 B from this node.s memory' "$run/log/node-00002.log"
    # No spare is left: now it is the agents' turn.
    within 60 new_generation 2
    "$cluster" kill node3
    within 60 said 'no spare node is left: the job is requeued'
    within 60 event requeued
    "$cluster" start node2 # without node3, which is left out now, there are just enough
    within 60 starts 3
    (($(restart_step) > 0))
    within 90 ended
    identical
}

@test "a crashed rank: the same nodes again, all from memory" {
    STEP_OPTIONS=--kill-on-bad-exit=1 submit_in_place
    within 60 complete 1
    crash_a_rank node2
    within 60 starts 2
    (($(restart_step) > 0))
    said 'started again in place on node1,node2,node3'
    within 90 ended
    identical
    grep -aqx 'varde run ended with 0' "$out"
    run ! event requeued
    for index in 0 1 2; do
        grep -aq 'loaded: .* from this node.s memory, 0 B from storage' "$run/log/node-0000$index.log"
    done
}

@test "the budget of restarts is one for both kinds" {
    STEP_OPTIONS=--kill-on-bad-exit=1 submit_in_place --ckpt-max-restarts=1
    within 60 complete 1
    crash_a_rank node2
    within 60 new_generation 2
    crash_a_rank node3
    within 60 ended
    said 'the budget of 1 restarts is used up'
    run ! event requeued
    starts 2
    run ! starts 3
}

@test "a failure before any generation is no restart, and the exit code is the step's" {
    STEP_OPTIONS=--kill-on-bad-exit=1 TRAIN_PREFIX="bash -c 'exit 7'" submit_in_place
    within 60 ended
    said 'not started again: no new generation'
    grep -aqx 'varde run ended with 7' "$out"
}

@test "an exit code that is final ends the training, whatever it has saved" {
    STEP_OPTIONS=--kill-on-bad-exit=1 submit_in_place --ckpt-final-exits=137
    within 60 complete 1
    crash_a_rank node2
    within 60 ended
    said 'exit code 137 is final'
    run ! said 'started again in place'
    run ! event requeued
}

@test "scancel, or a signal for varde run, is no failure" {
    submit_in_place
    within 60 complete 1
    "$cluster" run scancel "$job"
    within 60 ended
    run ! said 'started again in place'
    name=${name}b run=${run}b
    submit_in_place --ckpt-max-restarts=0 # or the failed script is requeued
    within 60 complete 1
    "$cluster" exec node1 pkill -TERM -f 'varde run'
    within 60 ended
    said 'told to end'
    run ! said 'started again in place'
}
