#!/usr/bin/env bats
#
# What a training job may restart from, and who may touch its run: neighbours, damaged files, other users, a budget. The
# training is lib/examples/train: its final weights tell whether a restart was bit for bit.
#
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a process of its own; training.bash sets the rest
# shellcheck disable=SC2012 # the names are ours, and sort as text

cluster="$BATS_TEST_DIRNAME/cluster"
load support
load training

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
