# shellcheck shell=bash
#
# For checks whose ranks start their agents themselves: $work, a folder that goes with the check, and an agent in it
# that is told from all others.  An agent outlives its ranks a little, and says its last words into the run's directory:
# so the folder goes when it has ended.  $out is the build folder.
work=$(mktemp -d)
chmod 700 "$work"
trap clean_up EXIT
# shellcheck disable=SC2154 # out: the check's
cp "$out/bin/varde-agent" "$work/varde-agent"

failed() { echo "$(basename "$0"): $*"; exit 1; }

within() { # SECONDS WHAT COMMAND...
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        ((SECONDS < end)) || failed "waited in vain for $what"
        sleep 0.05
    done
}

# The pids of this check's agents.
agents() {
    local link
    for link in /proc/[0-9]*/exe; do
        if [[ $(readlink "$link" 2>/dev/null) == "$work/varde-agent" ]]; then basename "$(dirname "$link")"; fi
    done
}
no_agent() { [[ -z $(agents) ]]; }

clean_up() {
    local status=$?
    trap - EXIT
    (within 60 "the end of the agent" no_agent) || status=1
    rm -rf "$work"
    exit "$status"
}
