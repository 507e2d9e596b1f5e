#!/usr/bin/env bats
#
# A training job on a real Slurm, and everything that may go wrong with it: ranks, agents, nodes, neighbours, damaged
# files. The training is lib/examples/train: its final weights tell whether a restart was bit for bit.
#
# shellcheck disable=SC2030,SC2031 # bats runs each test in a process of its own, and nothing is meant to leave it
# shellcheck disable=SC2012 # the names are ours, and sort as text

cluster="$BATS_TEST_DIRNAME/cluster"
load support

setup_file() {
    own_cluster
    local stage=$BATS_FILE_TMPDIR/stage
    install_varde "$stage"
    printf 'agent: {pulse_ms: 250, silence_s: 5, memory: 128M}\nprolog: {ready_ms: 20000}\nepilog: {drain_s: 10}\n' \
        >"$BATS_FILE_TMPDIR/varde.yaml"
    "$cluster" up --nodes 4 --varde "$stage" --varde-yaml "$BATS_FILE_TMPDIR/varde.yaml"
    # The weights that every disturbed run must end with.
    export rows=60000 steps=160
    "$cluster" run srun -N2 --ntasks-per-node=2 /opt/varde/share/varde/examples/train --no-checkpoint \
        --rows $rows --steps $steps --result reference
    export reference
    reference=$(cat "$VARDE_CLUSTER_DIR/home/varde/reference")
    [[ $reference =~ ^[0-9a-f]{16}$ ]]
}

teardown_file() { "$cluster" down; }

setup() {
    bats_require_minimum_version 1.5.0
    flash=$VARDE_CLUSTER_DIR/flash home=$VARDE_CLUSTER_DIR/home/varde
    name=t$BATS_TEST_NUMBER run=$flash/$name
}

teardown() {
    clean_slate node1 node2 node3 node4
}

# submit OPTIONS...: a training of two nodes with checkpoints; its job id is in $job, its output in $out.
submit() {
    cat >"$home/$name.sbatch" <<END
#!/bin/bash
#SBATCH --job-name=$name --nodes=2 --ntasks-per-node=2 --output=$name.out
#SBATCH --ckpt-interval=2s --ckpt-dir=/flash --ckpt-name=$name
srun ${TRAIN_PREFIX:-} /opt/varde/share/varde/examples/train \\
    --rows $rows --steps $steps --step-ms 70 --print-every 1 --result $name.result
END
    job=$("$cluster" run sbatch --parsable "$@" "$name.sbatch")
    out=$home/$name.out
}

complete() { # AT LEAST N generations
    (($(find "$run" -maxdepth 2 -name manifest.json 2>/dev/null | wc -l) >= $1))
}
newest_step() { grep -ao '^step [0-9]*' "$out" 2>/dev/null | tail -1 | cut -d' ' -f2; }
beyond() { local step; step=$(newest_step); ((${step:-0} > $1)); }
starts() { (($(grep -ac '^starting at step' "$out") >= $1)); }
ended() {
    local jobs
    jobs=$("$cluster" run squeue -h -o %A) && ! grep -qx "$job" <<<"$jobs"
}
restart_step() { grep -a '^starting at step' "$out" | tail -1 | grep -o '[0-9]*$'; }
identical() { [[ $(cat "$home/$name.result") == "$reference" ]]; }
nodes() { # one a line
    "$cluster" run scontrol show hostnames \
        "$("$cluster" run scontrol show job "$job" | grep -o ' NodeList=[^ ]*' | head -1 | cut -d= -f2)"
}
event() { grep -aq "\"event\":\"$1\"" "$run/history.jsonl"; }
# The processes of the agents in a node: of each a holder, and its child, the worker.
agents() { "$cluster" exec "$1" pgrep varde-agent; }
worker() { "$cluster" exec "$1" pgrep -P "$("$cluster" exec "$1" pgrep -o varde-agent)"; }

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

@test "a second job that opens a live run is refused with the name of the job that has it" {
    submit
    within 60 complete 1
    local first=$job
    cat >"$home/second.sbatch" <<END
#!/bin/bash
#SBATCH --job-name=second --nodes=2 --ntasks-per-node=2 --output=second.out --no-requeue
#SBATCH --ckpt-interval=2s --ckpt-dir=/flash --ckpt-name=$name
srun /opt/varde/share/varde/examples/train --rows $rows --steps 5
END
    job=$("$cluster" run sbatch --parsable second.sbatch)
    within 60 ended
    grep -a "slurm $first" "$home/second.out"
    grep -a 'another --ckpt-name' "$home/second.out"
    job=$first
    within 90 ended
    identical
}

@test "another user can neither read a run nor reach an agent" {
    submit
    within 60 complete 1
    local file user
    for file in "/flash/$name" "/flash/$name/history.jsonl"; do
        "$cluster" run ls "$file"
        run ! "$cluster" run --user guest ls "$file"
        [[ $output == *"Permission denied"* ]]
    done
    for user in varde guest; do
        run "$cluster" exec node1 setpriv "--reuid=$user" "--regid=$user" --clear-groups python3 -c \
            "import socket; socket.socket(socket.AF_UNIX).connect('/run/varde/$job/agent.sock')"
        [[ $user == guest || $status -eq 0 ]]
    done
    [[ $status -ne 0 && $output == *PermissionError* ]]
}

@test "a damaged newest generation: all ranks take the next older complete one, and it is said" {
    submit
    within 60 complete 2
    "$cluster" run scancel "$job"
    within 60 no_jobs
    local newest older
    newest=$(ls -d "$run"/step-* | tail -1)
    older=$(ls -d "$run"/step-* | tail -2 | head -1)
    # One byte in the middle of the second node's pack.
    python3 - "$newest/node-00001-of-00002.safetensors" <<'END'
import os, sys
with open(sys.argv[1], "r+b") as pack:
    pack.seek(os.path.getsize(sys.argv[1]) // 2)
    byte = pack.read(1)
    pack.seek(-1, 1)
    pack.write(bytes([byte[0] ^ 1]))
END
    submit
    within 60 starts 2
    local expected
    expected=$((10#$(basename "$older" | sed 's/step-\([0-9]*\)\..*/\1/')))
    [[ $(restart_step) == "$expected" ]]
    [[ -e $newest/damaged.json ]]
    grep -q 'node-00001-of-00002' "$newest/damaged.json"
    within 90 ended
    identical
}

@test "a directory that cannot be read is an error, never a start from zero" {
    submit
    within 60 complete 1
    "$cluster" run scancel "$job"
    within 60 no_jobs
    chmod 000 "$run"
    submit --no-requeue
    within 60 ended
    chmod 700 "$run"
    starts 1
    run ! starts 2
    grep -a 'Permission denied' "$out"
}

@test "the budget: a job that fails again and again is not requeued for ever" {
    cat >"$home/$name.sbatch" <<END
#!/bin/bash
#SBATCH --job-name=$name --nodes=1 --ntasks-per-node=1 --output=$name.out
srun /opt/varde/share/varde/examples/train --rows 2000 --steps 3 --save-every 2
for ((i = 0; i < 100; i++)); do compgen -G "/flash/$name/step-*/manifest.json" && break; sleep 0.1; done
exit 3
END
    job=$("$cluster" run sbatch --parsable --ckpt-interval=1h --ckpt-dir=/flash "--ckpt-name=$name" \
        --ckpt-max-restarts=5 "$name.sbatch")
    out=$home/$name.out
    within 120 ended
    # The second start restored step 2 and reached no newer generation.
    starts 2
    run ! starts 3
    [[ $("$cluster" run scontrol show job "$job") == *"JobState=FAILED"* ]]
    [[ $("$cluster" run scontrol show job "$job") == *"no new generation"* ]]
}
