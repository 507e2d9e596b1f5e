#!/usr/bin/env bats
#
# The cluster tool itself: that its nodes are nodes (they die without a word, they can be cut off
# and come back), that jobs run and are requeued, and that it leaves nothing on the host.
# One cluster serves the file; tests that need another state bring it up and down themselves.

cluster="$BATS_TEST_DIRNAME/cluster"
load support

# What is on the host of the cluster in directory $1: nothing, after `down`. A process of a machine
# shows the directory in its mounts, one that is about to become a machine in its arguments.
traces() {
    local path
    local -a files=(/proc/[0-9]*/{mountinfo,cmdline})
    [ ! -e "$1" ] || echo "$1"
    echo "$1" | grep -lsaF --file=- "${files[@]}" | while read -r path; do
        # The test itself and its children have the directory in their arguments too.
        [[ $path == *cmdline && $(<"${path%cmdline}cgroup") != *varde-cluster* ]] || echo "$path"
    done
    find /sys/fs/cgroup -type d -name "varde-cluster-$(cksum <<<"$1" | cut -d' ' -f1)"
}

# What no cluster ever changes on the host.
host_state() {
    ip -o link show | cut -d' ' -f2
    find / -maxdepth 1 -printf '%p %m\n' | sort
    find /opt /home /etc/slurm /etc/varde /etc/munge /var/lib/slurm -xdev 2>/dev/null | sort
    find /run -maxdepth 1 ! -name 'varde-*' | sort # other clusters may come and go
    sort /etc/passwd
}

setup_file() {
    own_cluster
    "$cluster" up --nodes 3
}

teardown_file() {
    "$cluster" down
    [ ! -e "$VARDE_CLUSTER_DIR" ]
}

setup() {
    bats_require_minimum_version 1.5.0
    flash="$VARDE_CLUSTER_DIR/flash"
}

teardown() {
    "$cluster" --dir "$BATS_TEST_TMPDIR/second" down
}

job_state() { [[ $("$cluster" run squeue -h -j "$1" -o %T) == "$2" ]]; }
submit() { "$cluster" run sbatch --parsable "$@"; }

# A server on node $1 says one byte and holds the connection; a client on the controller then says
# what it sees of it in the next $2 seconds.
hold_connection() {
    cat >"$flash/server.py" <<'END'
import socket
server = socket.create_server(("0.0.0.0", 7777))
peer, _ = server.accept()
peer.sendall(b"x")
peer.recv(1)
END
    cat >"$flash/client.py" <<END
import socket, time
end = time.time() + 10
while True:
    try:
        peer = socket.create_connection(("$1", 7777), timeout=1)
        break
    except ConnectionRefusedError:
        assert time.time() < end
        time.sleep(0.05)
assert peer.recv(1) == b"x"
print("connected", flush=True)
peer.settimeout($2)
try:
    print("end of stream" if peer.recv(1) == b"" else "data")
except TimeoutError:
    print("silence")
except OSError as error:
    print("reset", error)
END
    "$cluster" exec "$1" python3 /flash/server.py 3>&- &
    "$cluster" run python3 /flash/client.py >"$BATS_TEST_TMPDIR/client" 3>&- &
    client=$!
    within 5 grep -q connected "$BATS_TEST_TMPDIR/client"
}

@test "all nodes are idle when up returns" {
    run "$cluster" run sinfo -h -o '%D %T'
    [ "$output" = "3 idle" ]
}

@test "a two-node step runs as the ordinary user, each task on its node" {
    # shellcheck disable=SC2016 # for the shell in the step
    run "$cluster" run srun -N2 -w node1,node2 bash -c 'echo $(hostname) $(id -un)'
    [ "$(sort <<<"$output")" = $'node1 varde\nnode2 varde' ]
}

@test "run passes on the exit code, and another user is another user" {
    run -3 "$cluster" run bash -c 'exit 3'
    run "$cluster" run --user guest bash -c 'id -un; pwd'
    [ "$output" = $'guest\n/home/guest' ]
    run ! "$cluster" run --user guest ls /home/varde/nothing-there
    run -1 "$cluster" run --user nobody-here true
    [[ $output == *"couldn't find user 'nobody-here'"* ]]
}

@test "who ends run also ends what it runs" {
    "$cluster" run sleep 98765 3>&- &
    local runner=$!
    within 5 "$cluster" run pgrep -f '^sleep 98765'
    kill "$runner"
    within 5 bash -c "! '$cluster' run pgrep -f '^sleep 98765'"
}

@test "nodes resolve each other on both networks and reach each other" {
    "$cluster" exec node1 bash -c ': </dev/tcp/node2/6818'
    run "$cluster" exec node1 getent hosts node2-stor
    [[ $output == 10.213.1.2* ]]
    run "$cluster" exec node1 ip -o -4 address show dev storage
    [[ $output == *10.213.1.1/24* ]]
}

@test "flash and home are shared, /tmp, /run and /dev/shm are each node's own" {
    "$cluster" run bash -c 'echo hello >/flash/f; echo hello >~/h'
    [ "$("$cluster" exec node3 cat /flash/f /home/varde/h)" = $'hello\nhello' ]
    "$cluster" exec node1 touch /tmp/own /run/own /dev/shm/own
    for own in /tmp/own /run/own /dev/shm/own; do
        "$cluster" exec node1 test -e "$own"
        run -2 "$cluster" exec node2 ls "$own"
        [ ! -e "$own" ]
    done
}

@test "a killed node ends at once, its peers see silence, and it can be started again" {
    hold_connection node2 3
    local first pid
    local -a processes
    first=$(cat "$VARDE_CLUSTER_DIR/machines/node2/pid")
    mapfile -t processes < <(pgrep --ns "$first" --nslist pid)
    [ "${#processes[@]}" -ge 4 ]
    "$cluster" kill node2
    for pid in "${processes[@]}"; do [ ! -e "/proc/$pid" ]; done
    wait "$client"
    [ "$(tail -n 1 "$BATS_TEST_TMPDIR/client")" = silence ]
    run -1 "$cluster" exec node2 true
    [[ $output == *"it is dead"* ]]
    "$cluster" start node2
    "$cluster" run timeout 20 srun -w node2 true
}

@test "a polite end of the server is seen, so the silence above means something" {
    hold_connection node2 3
    "$cluster" exec node2 pkill -f server.py
    wait "$client"
    [ "$(tail -n 1 "$BATS_TEST_TMPDIR/client")" = "end of stream" ]
}

@test "a cut node's processes live on unreachable, and a healed one answers" {
    "$cluster" cut node1
    "$cluster" exec node1 pgrep -x slurmd
    run "$cluster" exec controller timeout 1 bash -c ': </dev/tcp/node1/6818'
    [ "$status" -ne 0 ]
    run "$cluster" status
    [[ $output == *"cut from compute storage"* ]]
    "$cluster" heal node1
    within 5 "$cluster" exec controller timeout 1 bash -c ': </dev/tcp/node1/6818'
}

@test "one network can be cut alone" {
    "$cluster" cut node1 storage
    "$cluster" exec node2 timeout 2 bash -c ': </dev/tcp/node1/6818'
    run "$cluster" exec node2 timeout 1 bash -c ': </dev/tcp/node1-stor/6818'
    [ "$status" -ne 0 ]
    "$cluster" heal node1
    within 5 "$cluster" exec node2 timeout 1 bash -c ': </dev/tcp/node1-stor/6818'
}

@test "a job whose node dies runs again elsewhere once Slurm knows" {
    local job
    "$cluster" run bash -c 'cat >job' <<'END'
#!/bin/bash
echo run ${SLURM_RESTART_COUNT:-0} >>~/runs
sleep 300
END
    job=$(submit -N1 -w node3 --open-mode=append job)
    within 15 grep -q 'run 0' "$VARDE_CLUSTER_DIR/home/varde/runs"
    "$cluster" kill node3
    "$cluster" run scontrol requeue "$job"
    "$cluster" exec controller scontrol update nodename=node3 state=down reason=test
    within 10 job_state "$job" PENDING
    "$cluster" run scontrol update jobid="$job" ReqNodeList= StartTime=now
    within 20 grep -q 'run 1' "$VARDE_CLUSTER_DIR/home/varde/runs"
    "$cluster" run scancel "$job"
    "$cluster" start node3
    within 20 "$cluster" run timeout 20 srun -w node3 true
}

@test "wrong use is refused with what to do" {
    run -1 "$cluster" kill node9
    [[ $output == *"couldn't find node 'node9': this cluster has node1 node2 node3"* ]]
    run -1 "$cluster" up --nodes 0
    [[ $output == *"from 1 to"* ]]
    run -1 "$cluster" up --bogus x
    [[ $output == *"'--bogus'"* ]]
    run -1 "$cluster" up
    [[ $output == *"down' first"* ]]
    "$cluster" run true
    run -1 "$cluster" --dir "$BATS_TEST_TMPDIR/none" run true
    [[ $output == *"couldn't find a cluster"* ]]
    mkdir "$BATS_TEST_TMPDIR/foreign"
    touch "$BATS_TEST_TMPDIR/foreign/file"
    run -1 "$cluster" --dir "$BATS_TEST_TMPDIR/foreign" down
    [ -e "$BATS_TEST_TMPDIR/foreign/file" ]
}

@test "two clusters live side by side, and down of one leaves nothing but the other" {
    local before second="$BATS_TEST_TMPDIR/second"
    before=$(host_state)
    "$cluster" --dir "$second" up --nodes 2
    [ -n "$(traces "$second")" ]
    [ "$("$cluster" --dir "$second" run sinfo -h -o %D)" = 2 ]
    # What a careless program leaves: a control group in each hierarchy, and a process out of sight.
    # shellcheck disable=SC2016 # for the shell on the node
    "$cluster" --dir "$second" exec node1 bash -c '
        for group in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do
            mkdir "${group%/*}/left-over"
        done
        setsid sleep 1000 </dev/null >/dev/null 2>&1 &'
    diff <(echo "$before") <(host_state)
    "$cluster" --dir "$second" down
    [ -z "$(traces "$second")" ]
    "$cluster" --dir "$second" down
    diff <(echo "$before") <(host_state)
    [ "$("$cluster" run sinfo -h -o %D)" = 3 ]
}

# up_with_ctrl_c DIRECTORY PAUSE: Ctrl-C until it ends, as a person does, because bash can lose a SIGINT that comes just
# as a child ends.  --default-signal: bash has '&' jobs ignore SIGINT.
up_with_ctrl_c() {
    env --default-signal=INT setsid "$cluster" --dir "$1" up >/dev/null 2>&1 3>&- &
    local group=$!
    sleep "$2"
    while kill -0 "$group" 2>/dev/null; do
        kill -INT -- "-$group" 2>/dev/null || true
        sleep 0.1
    done
    wait "$group"
}

@test "an up that is interrupted takes down what it started, and down clears what SIGKILL left" {
    local before second="$BATS_TEST_TMPDIR/second" pause
    before=$(host_state)
    for pause in 0.02 0.1 0.2 0.3 0.4 0.5; do
        run ! up_with_ctrl_c "$second" "$pause"
        [ -z "$(traces "$second")" ]
        run ! timeout --signal=TERM "$pause" "$cluster" --dir "$second" up
        [ -z "$(traces "$second")" ]
        run ! timeout --signal=KILL "$pause" "$cluster" --dir "$second" up
        "$cluster" --dir "$second" down
        [ -z "$(traces "$second")" ]
    done
    diff <(echo "$before") <(host_state)
}

# A stand-in for each program that `up` runs first: it works, and then signals the whole group, as a terminal does.
@test "an interrupt just after any of its commands is not forgotten" {
    local second="$BATS_TEST_TMPDIR/second" bin="$BATS_TEST_TMPDIR/bin" program signal
    for program in readlink dirname realpath mkdir chmod cp; do
        rm -rf "$bin"
        mkdir "$bin"
        cat >"$bin/$program" <<END
#!/bin/bash
trap '' INT TERM
"$(command -v "$program")" "\$@" || exit
[[ $program != mkdir || \$* == "$second" ]] || exit 0
kill -s "\$(<"$BATS_TEST_TMPDIR/signal")" 0
sleep 0.1 # bash can lose a SIGINT that comes just as a child ends
exit 0
END
        chmod +x "$bin/$program"
        for signal in INT TERM; do
            echo "$signal" >"$BATS_TEST_TMPDIR/signal"
            run ! env PATH="$bin:$PATH" setsid --wait "$cluster" --dir "$second" up
            [ -z "$(traces "$second")" ]
        done
    done
}

@test "an up that fails says why and leaves nothing" {
    local second="$BATS_TEST_TMPDIR/second"
    run -1 "$cluster" --dir "$second" up --slurm-conf-line SelectType=select/nonsense
    [[ $output == *select/nonsense* ]]
    [ -z "$(traces "$second")" ]
}

@test "scripts and lines given to up are used, in place of the tool's own" {
    local second="$BATS_TEST_TMPDIR/second" script="$BATS_TEST_TMPDIR/hook"
    cat >"$script" <<'END'
#!/bin/bash
echo "$SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $(id -un)" >"/flash/$SLURM_SCRIPT_CONTEXT"
END
    mkdir "$BATS_TEST_TMPDIR/flash"
    chmod 1777 "$BATS_TEST_TMPDIR/flash"
    echo 'interval: 20m' >"$BATS_TEST_TMPDIR/yaml"
    "$cluster" --dir "$second" up --nodes 1 --flash "$BATS_TEST_TMPDIR/flash" --slurmd-timeout 77 \
        --prolog "$script" --epilog "$script" --epilog-slurmctld "$script" \
        --varde-yaml "$BATS_TEST_TMPDIR/yaml" --slurm-conf-line KillWait=5
    "$cluster" --dir "$second" run srun true
    within 5 grep -qx 'epilog_slurmctld 1 slurm' "$BATS_TEST_TMPDIR/flash/epilog_slurmctld"
    within 5 grep -qx 'epilog_slurmd 1 root' "$BATS_TEST_TMPDIR/flash/epilog_slurmd"
    grep -qx 'prolog_slurmd 1 root' "$BATS_TEST_TMPDIR/flash/prolog_slurmd"
    [ "$("$cluster" --dir "$second" exec node1 cat /etc/varde/varde.yaml)" = 'interval: 20m' ]
    run "$cluster" --dir "$second" run scontrol show config
    [[ $output == *'SlurmdTimeout           = 77 sec'* ]]
    [[ $output == *'KillWait                = 5 sec'* ]]
    "$cluster" --dir "$second" down
    [ -s "$BATS_TEST_TMPDIR/flash/prolog_slurmd" ]
}

# find fails where a group vanishes that it has just seen.
@test "down is not stopped by the groups of others, which come and go" {
    local second="$BATS_TEST_TMPDIR/second" bin="$BATS_TEST_TMPDIR/bin"
    "$cluster" --dir "$second" up --nodes 1
    mkdir "$bin"
    printf '#!/bin/bash\n%s "$@"\necho "find: no such group" >&2\nexit 1\n' "$(command -v find)" >"$bin/find"
    chmod +x "$bin/find"
    PATH="$bin:$PATH" "$cluster" --dir "$second" down
    [ -z "$(traces "$second")" ]
}

@test "down works where the state directory is lost" {
    local second="$BATS_TEST_TMPDIR/second"
    "$cluster" --dir "$second" up --nodes 1
    rm -rf "$second"
    "$cluster" --dir "$second" down
    [ -z "$(traces "$second")" ]
}
