# What the .bats files share: the build under test, a cluster of the file's own, waiting, and a clean slate between
# tests.
# shellcheck shell=bash disable=SC2154 # $cluster is the test file's

# The build under test: what tests/run says, else BUILD as make has it.
tested_build() { realpath -m "${VARDE_BUILD:-$BATS_TEST_DIRNAME/../../build/${BUILD:-release}}"; }

# First in setup_file: teardown_file must not find another cluster than this file's, whatever fails.
own_cluster() {
    export VARDE_CLUSTER_DIR=$BATS_FILE_TMPDIR/cluster
    ((EUID == 0)) && return
    echo "these tests need root" >&2
    return 1
}

within() { # SECONDS COMMAND...: until COMMAND succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

# A question that Slurm does not answer has no good answer.
no_jobs() {
    local jobs
    jobs=$("$cluster" run squeue -h) && [[ -z $jobs ]]
}
all_idle() { [[ $("$cluster" run sinfo -h -o %T) == idle ]]; }
no_node_is() { # PATTERN: of a state
    local states
    states=$("$cluster" run sinfo -h -o %T) && [[ -n $states ]] && ! grep -qE "$1" <<<"$states"
}

# json KEY <FILE: the value of a top-level member.
json() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

# clean_slate NODE...: no test leaves a job or a dead node to the next.
clean_slate() {
    local node
    "$cluster" run scancel --user=varde
    within 60 no_jobs
    for node in "$@"; do
        "$cluster" exec "$node" true 2>/dev/null || "$cluster" start "$node"
        "$cluster" exec controller scontrol update "nodename=$node" state=resume 2>/dev/null || true
    done
    within 60 all_idle
}

# install_varde DIRECTORY: the build under test, installed as a site would, below DIRECTORY.  One file at a time,
# because make builds first what is not up to date.
install_varde() {
    local build
    build=$(tested_build)
    mkdir -p "$build"
    flock "$build" make -s -C "$BATS_TEST_DIRNAME/../.." install "BUILD=$(basename "$build")" "DESTDIR=$1"
}
