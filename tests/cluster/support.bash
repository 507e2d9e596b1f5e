# What the tests of the cluster share: waiting, and a clean slate between tests.  Loaded by each .bats file.
# shellcheck shell=bash disable=SC2154 # $cluster is the test file's

within() { # SECONDS COMMAND...: until COMMAND succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

no_jobs() { [[ -z $("$cluster" run squeue -h) ]]; }
all_idle() { [[ $("$cluster" run sinfo -h -o %T) == idle ]]; }

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

# install_varde DIRECTORY: the build under test, installed as a site would, below DIRECTORY/opt/varde.
install_varde() {
    make -s -C "$BATS_TEST_DIRNAME/../.." install "BUILD=${BUILD:-release}" PREFIX=/opt/varde "DESTDIR=$1"
}
