# shellcheck shell=bash disable=SC2154
#
# A machine is a set of namespaces (pid, mount, net, uts, ipc, cgroup) with machine-init as its
# first process. Nothing pins these namespaces: SIGKILL of the first process ends every process in
# the machine and with them the namespaces, as a power cut would. The controller and each node are
# machines; the switch is a bare network namespace that holds the two bridges.

# Every process that starts a machine carries this argument, so `down` finds them all, even those
# of a half-built cluster whose pid files were never written.
machine_mark() { printf 'cluster=%s' "$dir"; }

# machine_boot NAME COMMAND...: runs COMMAND as the first process, away from the caller's session,
# environment, signal dispositions (bash ignores SIGINT for '&' jobs) and descriptors.
machine_boot() {
    local name=$1
    shift
    rm -f "$dir/machines/$name"/{pid,ended}
    make_machine_groups "$name"
    (
        close_inherited
        join_machine_groups "$name"
        cd /
        umask 022
        setsid --fork env -i --default-signal PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            unshare --fork --pid --mount --net --uts --ipc --cgroup --propagation private \
            "$@" "$(machine_mark)" </dev/null >>"$dir/machines/$name/log/machine.log" 2>&1
    )
    wait_for 5 "the first process of $name" test -e "$dir/machines/$name/pid"
}

# The host's pid of the machine's first process; fails when the machine is dead. The mark guards
# against a pid that the kernel has given to somebody else.
machine_pid() {
    local pid
    pid=$(cat "$dir/machines/$1/pid" 2>/dev/null) || return 1
    grep -qszxF -- "$(machine_mark)" "/proc/$pid/cmdline" || return 1
    printf '%s\n' "$pid"
}

machine_is_dead() { ! machine_pid "$1" >/dev/null; }

# Processes that hold machines of this cluster, by their mark (the pattern comes on stdin, so that
# grep doesn't find itself).
machine_processes() {
    local path
    local -a all=(/proc/[0-9]*/cmdline)
    { machine_mark; echo; } | grep -lszxF --file=- "${all[@]}" | while read -r path; do
        path=${path#/proc/}
        printf '%s\n' "${path%/cmdline}"
    done
}

# Exits 0 also where nothing was left to kill.
kill_all_machines() {
    local pids
    # A machine that was just being forked may appear after the first look: look until none is left.
    for _ in {1..200}; do
        mapfile -t pids < <(machine_processes)
        ((${#pids[@]})) || return 0
        kill -KILL "${pids[@]}" 2>/dev/null || true
        sleep 0.02
    done
    die "couldn't end the processes ${pids[*]} of '$dir': still there after 4 s of SIGKILL"
}

# machine_enter NAME COMMAND...: replaces this shell by COMMAND inside the machine, as root.
machine_enter() {
    local name=$1 pid
    shift
    pid=$(machine_pid "$name") ||
        die "couldn't enter '$name': it is dead; bring it back with 'cluster start $name'"
    join_machine_groups "$name"
    exec nsenter --target "$pid" --mount --net --uts --ipc --pid --cgroup -- "$@"
}

# The same, and returns: for the tool's own questions.
inside() { (machine_enter "$@"); }
