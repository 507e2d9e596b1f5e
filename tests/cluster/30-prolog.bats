#!/usr/bin/env bats
#
# Prolog, epilog and controller hook on a real Slurm, with the real agent: what a node looks like during and after a
# job, that no fault of a job or of ours drains a node, and how a requeued job gets away from a dead node.

cluster="$BATS_TEST_DIRNAME/cluster"
load support

setup_file() {
    own_cluster
    local build tree=$BATS_FILE_TMPDIR/tree program
    build=$(tested_build)
    mkdir -p "$tree"/lib/varde "$tree"/libexec/varde
    cp "$build/spank_varde.so" "$tree/lib/varde/"
    for program in agent prolog epilog controller; do cp "$build/bin/varde-$program" "$tree/libexec/varde/"; done
    # A busy build machine is slower than a node that waits for a job.
    printf 'prolog: {ready_ms: 20000, probe_s: 2}\nepilog: {drain_s: 5}\n' >"$BATS_FILE_TMPDIR/varde.yaml"
    "$cluster" up --nodes 3 --varde "$tree" --varde-yaml "$BATS_FILE_TMPDIR/varde.yaml"
}

teardown_file() { "$cluster" down; }

setup() {
    bats_require_minimum_version 1.5.0
    flash="$VARDE_CLUSTER_DIR/flash"
}

# No test leaves a job, a dead node or a changed file to the next.
teardown() {
    clean_slate node1 node2 node3
}

show() { "$cluster" run scontrol show --oneliner job "$1"; }
state_is() { [[ $(show "$1") == *" JobState=$2 "* ]]; }
running_again() { [[ $(show "$1") == *" JobState=RUNNING "*" Restarts=1 "* ]]; }
gone() { ! "$cluster" exec "$1" test -e "$2"; }

submit() { # SCRIPT OPTIONS...
    local script=$1
    shift
    printf '#!/bin/bash\n%s\n' "$script" >"$flash/job.sh"
    "$cluster" run sbatch --parsable --chdir=/flash --output=/flash/out.%j --ckpt-memory=16M "$@" /flash/job.sh
}

# The prolog has done its part; Slurm calls a job RUNNING a moment before.
prepared() { "$cluster" exec "$1" test -e "/run/varde/$2/state.json"; }

# field NODE JOB KEY: of the node's state.json
field() { "$cluster" exec "$1" cat "/run/varde/$2/state.json" | json "$3"; }

# The names of varde's processes on a node; of none, nothing.
processes() { "$cluster" exec "$1" bash -c 'cat /proc/[0-9]*/comm 2>/dev/null' | sed -n '/varde/p'; }
no_processes() { local found; found=$(processes "$1") && [[ -z $found ]]; }
all_nodes_up() { no_node_is 'down|dr'; }

# by_hand PROGRAM VARIABLE=VALUE...: on node1, as slurmd would.
by_hand() { "$cluster" exec node1 env -i "${@:2}" "/opt/varde/libexec/varde/$1"; }

@test "a job that asks has an agent on each node, and nothing is left of it" {
    local job node pid
    # shellcheck disable=SC2016 # for the job's shell
    job=$(submit 'ls -l /run/varde/$SLURM_JOB_ID; sleep 100' --nodes=2 --ckpt-interval=1m)
    within 60 state_is "$job" RUNNING
    for node in node1 node2; do
        within 20 prepared $node "$job"
        [[ $(field $node "$job" state) == ready ]]
        [[ $(processes $node) == *varde-agent* ]]
        [[ $(field $node "$job" arena_bytes) == 16777216 ]]
        pid=$(field $node "$job" agent_pid)
        run "$cluster" exec $node grep -E '^(Uid|NoNewPrivs)' "/proc/$pid/status"
        [[ $output == *61001*61001*61001*61001* && $output == *NoNewPrivs:*1* ]]
        [[ $("$cluster" exec $node stat -c '%U %a' "/run/varde/$job/agent.sock") == "varde 600" ]]
        [[ $("$cluster" exec $node stat -c '%U %a' "/run/varde/$job") == "root 755" ]]
    done
    within 10 grep -q agent.sock "$flash/out.$job"
    run "$cluster" exec node1 setpriv --reuid=guest --regid=guest --clear-groups python3 -c \
        "import socket; socket.socket(socket.AF_UNIX).connect('/run/varde/$job/agent.sock')"
    [[ $status -ne 0 && $output == *PermissionError* ]]
    "$cluster" run scancel "$job"
    within 60 no_jobs
    for node in node1 node2; do
        within 20 gone $node "/run/varde/$job"
        within 10 no_processes $node
    done
}

@test "a job without options finds the node as it was" {
    local job
    "$cluster" exec node1 rm -rf /run/varde
    printf '#!/bin/bash\nls -d /run/varde\ncat /proc/[0-9]*/comm\n' >"$flash/job.sh"
    "$cluster" run sbatch --wait --nodelist=node1 -o /flash/out.plain /flash/job.sh
    [[ $(<"$flash/out.plain") == *"cannot access '/run/varde'"* ]]
    grep -q slurmstepd "$flash/out.plain"
    run -1 grep varde- "$flash/out.plain"
    gone node1 /run/varde
}

@test "a node whose agent is missing runs the job all the same, and says why" {
    local job
    mv "$VARDE_CLUSTER_DIR/varde/libexec/varde/varde-agent" "$VARDE_CLUSTER_DIR/varde/libexec/varde/away"
    job=$(submit 'sleep 100' --nodelist=node1 --ckpt-interval=1m)
    within 60 prepared node1 "$job"
    mv "$VARDE_CLUSTER_DIR/varde/libexec/varde/away" "$VARDE_CLUSTER_DIR/varde/libexec/varde/varde-agent"
    [[ $(field node1 "$job" state) == degraded ]]
    [[ $(field node1 "$job" reason) == *"couldn't start varde-agent: No such file"* ]]
}

@test "a wrong varde.yaml and a greedy job degrade their node, and nodes stay up" {
    local job
    echo 'agent: {memry: 1G}' >"$VARDE_CLUSTER_DIR/etc/varde/varde.yaml"
    job=$(submit 'sleep 100' --nodelist=node1 --ckpt-interval=1m)
    within 60 prepared node1 "$job"
    cp "$BATS_FILE_TMPDIR/varde.yaml" "$VARDE_CLUSTER_DIR/etc/varde/varde.yaml"
    [[ $(field node1 "$job" reason) == *"varde.yaml:1"*"memry"* ]]
    job=$(submit 'sleep 100' --nodelist=node2 --ckpt-interval=1m --ckpt-memory=15T)
    within 60 prepared node2 "$job"
    [[ $(field node2 "$job" reason) == *"15 TiB"*"--ckpt-memory"* ]]
    "$cluster" run scancel --user=varde
    within 60 no_jobs
    all_nodes_up
}

# hang NODE DIRECTORY: a file system there that takes each question and answers none, until $hung ends.
hang() {
    "$cluster" exec "$1" mkdir -p "$2"
    "$cluster" exec "$1" python3 - "$2" <<'END' 3>&- &
import ctypes, os, struct, sys
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if ctypes.CDLL(None).mount(b"hung", sys.argv[1].encode(), b"fuse", 0, options) != 0:
    sys.exit("couldn't mount")
unique = struct.unpack_from("=IIQ", os.read(device, 1 << 16))[2]
os.write(device, struct.pack("=IiQ", 80, 0, unique) + struct.pack("=IIIIHHI", 7, 31, 0, 0, 0, 0, 4096) + bytes(40))
while True:
    os.read(device, 1 << 16)
END
    hung=$!
    within 10 "$cluster" exec "$1" grep -q " $2 .* - fuse hung " /proc/self/mountinfo
}

@test "a checkpoint directory that hangs delays the job by the deadline at most, and drains nothing" {
    local job began
    hang node1 /tmp/hung
    began=$EPOCHREALTIME
    job=$(submit 'echo started; sleep 100' --nodelist=node1 --ckpt-interval=1m --ckpt-dir=/tmp/hung/%u)
    within 60 grep -q started "$flash/out.$job"
    echo "# the job started $(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $began }") s after it was submitted" >&3
    [[ $(field node1 "$job" state) == ready ]]
    [[ $(field node1 "$job" directory) == /tmp/hung/varde ]]
    [[ $(field node1 "$job" directory_problem) == *"'/tmp/hung/varde' did not answer within 2 s"*"the job starts"* ]]
    "$cluster" exec node1 test -e "/proc/$(field node1 "$job" probe_pid)"
    all_nodes_up
    "$cluster" run scancel "$job"
    within 60 gone node1 "/run/varde/$job"
    within 60 no_jobs
    all_nodes_up
    kill "$hung"
    "$cluster" exec node1 umount /tmp/hung
}

@test "a checkpoint directory of no use is said, and the job runs" {
    local job
    job=$(submit 'echo started; sleep 100' --nodelist=node2 --ckpt-interval=1m --ckpt-dir=/etc/varde)
    within 60 grep -q started "$flash/out.$job"
    [[ $(field node2 "$job" directory_problem) == *"user 61001 may not make a run in it: Permission denied"* ]]
    [[ $(field node2 "$job" state) == ready ]]
    all_nodes_up
}

@test "agents outlive a restart of slurmd, and its epilog ends them" {
    local job pid
    job=$(submit 'sleep 100' --nodelist=node1 --ckpt-interval=1m)
    within 60 prepared node1 "$job"
    pid=$(field node1 "$job" agent_pid)
    # shellcheck disable=SC2016 # for the node's shell
    "$cluster" exec node1 bash -c \
        'kill $(cat /run/slurmd.pid); sleep 1; setsid --fork slurmd -D </dev/null >/dev/null 2>&1'
    within 20 "$cluster" exec node1 bash -c ': </dev/tcp/127.0.0.1/6818'
    "$cluster" exec node1 test -e "/proc/$pid"
    "$cluster" run scancel "$job"
    within 60 gone node1 "/run/varde/$job"
    gone node1 "/proc/$pid"
}

@test "epilog without prolog, after it, and twice" {
    local job=SLURM_JOB_ID=4000000000
    run by_hand varde-epilog "$job"
    [[ $status -eq 0 && -z $output ]]
    run by_hand varde-epilog SLURM_JOB_ID=../etc
    [[ $status -eq 0 && $output == *"SLURM_JOB_ID"* ]]
    by_hand varde-prolog "$job" SLURM_JOB_UID=61001 SLURM_JOB_GID=61001 SPANK_VARDE_INTERVAL=1m SPANK_VARDE_MEMORY=16M
    [[ $(field node1 4000000000 state) == ready ]]
    for _ in 1 2; do
        run by_hand varde-epilog "$job"
        [[ $status -eq 0 && -z $output ]]
        gone node1 /run/varde/4000000000
        no_processes node1
    done
}

# Another status than 0 would drain the node.
@test "a reader of their messages that is gone ends neither prolog nor epilog" {
    local program
    # shellcheck disable=SC2016 # for the node's shell
    local alone='exec 3> >(exit 0); wait $!
        env -i --default-signal=PIPE SPANK_VARDE_INTERVAL=1m SLURM_JOB_ID=none "$@" 2>&3'
    run -141 "$cluster" exec node1 bash -c "$alone" - ls /none
    for program in varde-prolog varde-epilog varde-controller; do
        run -0 "$cluster" exec node1 bash -c "$alone" - "/opt/varde/libexec/varde/$program"
    done
}

@test "a requeued job is free of its dead node within seconds, and does not return to it" {
    local job began
    job=$(submit 'sleep 200' --nodes=2 --ckpt-interval=1m)
    within 60 state_is "$job" RUNNING
    "$cluster" kill node2
    began=$EPOCHREALTIME
    "$cluster" run scontrol requeue "$job"
    within 60 running_again "$job"
    echo "# running again $(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $began }") s after the requeue" >&3
    [[ $(show "$job") == *" ExcNodeList=node2 "* ]]
    run "$cluster" run scontrol show node node2
    [[ $output == *State=DOWN* && $output == *"varde: slurmd does not answer, job $job requeued"* ]]
    within 20 prepared node3 "$job"
    [[ $(field node3 "$job" restart_count) == 1 ]]
}

@test "a requeue with all nodes alive only loses Slurm's delay" {
    local job
    job=$(submit 'sleep 200' --nodes=2 --ckpt-interval=1m)
    within 60 state_is "$job" RUNNING
    "$cluster" run scontrol requeue "$job"
    within 60 running_again "$job"
    [[ $(show "$job") == *" ExcNodeList=(null) "* ]]
    all_nodes_up
}

@test "a task of an array starts again alone" {
    local job
    job=$(submit 'sleep 200' --array=0-1 --ckpt-interval=1m)
    within 60 state_is "${job}_0" RUNNING
    within 60 state_is "${job}_1" RUNNING
    "$cluster" run scontrol requeue "${job}_1"
    within 60 running_again "${job}_1"
    [[ $(show "${job}_0") == *" JobState=RUNNING "*" Restarts=0 "* ]]
}

@test "a requeued job without options waits as Slurm says" {
    local job
    printf '#!/bin/bash\nsleep 200\n' >"$flash/job.sh"
    job=$("$cluster" run sbatch --parsable --requeue -o /dev/null /flash/job.sh)
    within 60 state_is "$job" RUNNING
    "$cluster" run scontrol requeue "$job"
    within 30 state_is "$job" PENDING
    sleep 4
    [[ $(show "$job") == *Reason=BeginTime* ]]
}

@test "a slurmd that is being restarted costs its node nothing" {
    local job
    job=$(submit 'sleep 200' --nodes=2 --ckpt-interval=1m)
    within 60 state_is "$job" RUNNING
    # shellcheck disable=SC2016 # for the node's shell
    "$cluster" exec node2 bash -c 'kill $(cat /run/slurmd.pid)'
    "$cluster" run scontrol requeue "$job"
    sleep 4
    "$cluster" exec node2 bash -c 'setsid --fork slurmd -D </dev/null >/dev/null 2>&1'
    within 60 running_again "$job"
    all_nodes_up
}

@test "a cancelled job with a dead node is left to Slurm" {
    local job
    job=$(submit 'sleep 200' --nodes=2 --ckpt-interval=1m)
    within 60 state_is "$job" RUNNING
    "$cluster" kill node2
    "$cluster" run scancel "$job"
    sleep 5
    all_nodes_up
    "$cluster" exec controller scontrol update nodename=node2 state=down reason=test
}
