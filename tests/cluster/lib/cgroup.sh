# shellcheck shell=bash disable=SC2154
#
# Each machine has a control group of its own in every hierarchy of the host, below the group of who
# ran `up`, and a cgroup namespace that starts there: slurmd and the programs under test find what
# they would find on a real node, two clusters don't meet in a name, and nothing outlives `down`.
#
# $dir/cgroups lists the hierarchies in use, one a line: its mount point, and the cluster's group.

group_name() { printf 'varde-cluster-%s' "$(cksum <<<"$dir" | cut -d' ' -f1)"; }

# Called once by `up`. A hierarchy in which no group can be made is left out.
make_cluster_groups() {
    local controllers path mount group
    : >"$dir/cgroups"
    while IFS=: read -r _ controllers path; do
        if [[ -n $controllers ]]; then
            mount=/sys/fs/cgroup/${controllers#name=}
        else
            mount=$(findmnt -rn -t cgroup2 -o TARGET | head -n 1)
        fi
        group=$mount${path%/}/$(group_name)
        [[ -n $mount && -e $mount$path/cgroup.procs ]] || continue
        mkdir "$group" 2>/dev/null || continue
        printf '%s %s\n' "$mount" "$group" >>"$dir/cgroups"
        # A v1 cpuset is born empty and then refuses processes; its children copy it.
        if [[ -e $group/cpuset.mems && -e $group/cgroup.clone_children ]]; then
            cat "${group%/*}/cpuset.cpus" >"$group/cpuset.cpus"
            cat "${group%/*}/cpuset.mems" >"$group/cpuset.mems"
            echo 1 >"$group/cgroup.clone_children"
        fi
    done </proc/self/cgroup
}

cluster_groups() { cut -d' ' -f2 "$dir/cgroups" 2>/dev/null || true; }

# A machine that boots again starts with an empty tree.
make_machine_groups() {
    local group
    for group in $(cluster_groups); do
        remove_group "$group/$1"
        mkdir "$group/$1"
    done
}

# The calling shell, and what it executes, belongs to the machine from here on.
join_machine_groups() {
    local group
    for group in $(cluster_groups); do
        echo "$BASHPID" >"$group/$1/cgroup.procs"
    done
}

group_is_gone() {
    [[ -d $1 ]] || return 0
    find "$1" -depth -type d -exec rmdir {} + && [[ ! -d $1 ]]
}

# The kernel keeps a group busy for a moment after its last process.
remove_group() {
    wait_for 5 "the end of control group '$1'" group_is_gone "$1" ||
        die "couldn't remove control group '$1': it holds $(paste -sd' ' "$1/cgroup.procs")"
}

# Found by name, so that they go even when the state directory is lost or was never finished.  Meanwhile the groups of
# others come and go: what find says of those is no failure.
remove_cluster_groups() {
    local group
    local -a groups
    mapfile -t groups < <(find /sys/fs/cgroup -type d -name 'varde-cluster-*' -prune \
        -name "$(group_name)" -print 2>/dev/null)
    for group in "${groups[@]}"; do remove_group "$group"; done
}
