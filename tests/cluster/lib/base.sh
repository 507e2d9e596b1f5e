# shellcheck shell=bash disable=SC2154
#
# What every part of the cluster tool needs: messages, waiting with a deadline, and the names of
# the state directory. Sourced by `cluster`, never run. Globals set there and read here:
#   dir      absolute path of the state directory; everything the tool keeps is below it
#   library  the directory of this file

# One line on stderr, then exit: the tool never goes on after a failure.
die() {
    printf 'cluster: %s\n' "$*" >&2
    exit 1
}

# wait_for SECONDS WHAT COMMAND...: until COMMAND succeeds. Its output is not shown.
wait_for() {
    local seconds=$1 what=$2 deadline
    shift 2
    deadline=$((${EPOCHREALTIME/[.,]/} + seconds * 1000000))
    until "$@" >/dev/null 2>&1; do
        ((${EPOCHREALTIME/[.,]/} < deadline)) || {
            printf "cluster: couldn't see %s: gave up after %d s\n" "$what" "$seconds" >&2
            return 1
        }
        sleep 0.03
    done
}

# The machines of this cluster, from the directories that `up` made: controller, node1, node2...
node_names() {
    local path
    for path in "$dir"/machines/node*; do
        [[ -d $path ]] && printf '%s\n' "${path##*/}"
    done | sort -V
}

require_cluster() {
    [[ -e $dir/varde-cluster ]] ||
        die "couldn't find a cluster at '$dir': start one with 'cluster up'"
}

require_node() {
    require_cluster
    [[ $1 == node[0-9]* && -d $dir/machines/$1 ]] ||
        die "couldn't find node '$1': this cluster has $(node_names | paste -sd' ')"
}

# Background programs must not hold the caller's pipes: a test runner waits for those to close.
close_inherited() {
    local descriptor
    for descriptor in /proc/"$BASHPID"/fd/*; do
        descriptor=${descriptor##*/}
        ((descriptor > 2)) && eval "exec $descriptor>&-"
    done
}
