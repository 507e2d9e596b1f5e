#!/usr/bin/env bats
#
# Two users' jobs with checkpoints on one node, at the same time.  One is ended as hard as can be, with slurmd and all
# else that could clean up after it; the other's checkpoints go on, and of the first nothing is left.

cluster="$BATS_TEST_DIRNAME/cluster"
load support

setup_file() {
    own_cluster
    install_varde "$BATS_FILE_TMPDIR/stage"
    printf '%s\n' 'agent: {pulse_ms: 250, memory: 16M, huge_pages: 2M}' 'prolog: {ready_ms: 20000}' \
        'epilog: {drain_s: 10}' >"$BATS_FILE_TMPDIR/varde.yaml"
    "$cluster" up --nodes 1 --varde "$BATS_FILE_TMPDIR/stage" --varde-yaml "$BATS_FILE_TMPDIR/varde.yaml"
}

teardown_file() { "$cluster" down; }

setup() {
    bats_require_minimum_version 1.5.0
    flash=$VARDE_CLUSTER_DIR/flash name=t$BATS_TEST_NUMBER
}

teardown() {
    if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
        tail -n 20 "$VARDE_CLUSTER_DIR"/home/*/*.out || true
        "$cluster" run squeue -o '%A %u %T %r' || true
        "$cluster" logs node1 | tail -n 200 || true
    fi
    "$cluster" run --user guest scancel --user=guest
    clean_slate node1
}

on_node() { "$cluster" exec node1 "$@"; }
gone() { ! on_node test -e "$1"; }

# submit USER: a training of one rank that ends when it is cancelled; its job id is in $job.
submit() {
    cat >"$VARDE_CLUSTER_DIR/home/$1/$name.sbatch" <<END
#!/bin/bash
#SBATCH --job-name=$name --ntasks=1 --output=$name.out --no-requeue
#SBATCH --ckpt-interval=2s --ckpt-dir=/flash/%u
srun /opt/varde/share/varde/examples/train --rows 2000 --steps 100000 --step-ms 50
END
    install -d -o "$1" -g "$1" "$flash/$1" 2>/dev/null || on_node install -d -o "$1" -g "$1" "/flash/$1"
    job=$("$cluster" run --user "$1" sbatch --parsable "$name.sbatch")
}

generations() { find "$flash/$1/$name" -maxdepth 2 -name manifest.json 2>/dev/null | sort | tail -1; }
has_generation() { [[ -n $(generations "$1") ]]; }
newer_than() { local last; last=$(generations "$1") && [[ $last > $2 ]]; }
huge_pages() { on_node cat /proc/sys/vm/nr_hugepages; }
agent_of() { on_node cat "/run/varde/$1/state.json" | json agent_pid; }

# as USER PROGRAM...: on the node.
as() { on_node setpriv "--reuid=$1" "--regid=$1" --clear-groups "${@:2}"; }
connect() { # USER JOB
    as "$1" python3 -c "import socket; socket.socket(socket.AF_UNIX).connect('/run/varde/$2/agent.sock')"
}

# Nothing of the job on the node: processes of its user or step, files, control groups.
nothing_left() { # USER JOB
    local controller
    gone "/run/varde/$2" || return 1
    for controller in '' /memory /pids /unified; do gone "/sys/fs/cgroup$controller/varde/$2" || return 1; done
    [[ -z $(on_node ps -u "$1" -o pid=) ]] && ! on_node ps -e -o args= | grep "slurmstepd: \[$2"
}

# SIGKILL to slurmd, and then to all of the user's and the job's, agent and slurmstepd included.
kill_all_of() { # USER JOB
    # shellcheck disable=SC2016 # for the node's shell
    on_node bash -c 'kill -KILL $(cat /run/slurmd.pid)
        kill -KILL $(ps -e -o pid=,args= | sed -n "s/^ *\([0-9]*\) slurmstepd: \[$2.*/\1/p")
        kill -KILL $(ps -u "$1" -o pid=) || true' - "$1" "$2"
}

@test "one of two users' jobs is killed with everything that could clean up, and the other goes on" {
    local mine theirs pages last
    submit varde
    mine=$job
    within 60 has_generation varde
    pages=$(huge_pages)
    submit guest
    theirs=$job
    within 60 has_generation guest
    kill_all_of guest "$theirs"
    on_node test -e "/run/varde/$theirs/state.json"
    last=$(generations varde)
    on_node bash -c 'setsid --fork slurmd -D </dev/null >/dev/null 2>&1'
    within 20 on_node bash -c ': </dev/tcp/127.0.0.1/6818'
    # Slurm itself would take minutes to miss the batch script.
    "$cluster" run --user guest scancel "$theirs"
    within 60 nothing_left guest "$theirs"
    [[ $(huge_pages) == "$pages" ]]
    within 30 newer_than varde "$last"
    on_node test -e "/proc/$(agent_of "$mine")"
    connect varde "$mine"
    no_node_is 'down|dr'
    "$cluster" run scancel "$mine"
    within 60 nothing_left varde "$mine"
}

@test "a user can neither read nor reach, end or hold up the other's checkpoints" {
    local agent path
    submit varde
    within 60 has_generation varde
    agent=$(agent_of "$job")
    as varde ls "/proc/$agent/fd" | grep -q .
    for path in "/flash/varde/$name" "/proc/$agent/fd" "/proc/$agent/environ"; do
        run ! as guest cat "$path/."
        run ! as guest ls "$path/."
        [[ $output == *"Permission denied"* || $output == *"Not a directory"* ]]
    done
    run ! connect guest "$job"
    [[ $output == *PermissionError* ]]
    run ! as guest bash -c "kill $agent"
    for path in "/run/varde/$job" /run/varde; do run ! as guest touch "$path/mine"; done
    # Locked by a stranger as far as that can be done.
    for path in "/run/varde" "/run/varde/$job" "/run/varde/$job/state.json"; do
        as guest flock "$path" sleep 600 3>&- &
    done
    "$cluster" run scancel "$job"
    within 60 nothing_left varde "$job"
    # shellcheck disable=SC2016 # for the node's shell
    on_node bash -c 'kill $(ps -u guest -o pid=)'
    wait
}
