#!/usr/bin/env bats
#
# The cases of `recovery` that cover each kind of stop; `make recovery` runs all of them. They wait for default timers,
# and have clusters of their own, so they run side by side.

load support

@test "recovery: every kind of stop, and the training goes on" {
    ((EUID == 0))
    VARDE_BUILD=$(tested_build)
    export VARDE_BUILD
    run "$BATS_TEST_DIRNAME/recovery" --check
    printf '%s\n' "$output"
    [[ $status == 0 ]]
    # One line per case, whole and true.
    [[ $("$BATS_TEST_DIRNAME/recovery" --list | grep -c ' check ') == $(grep -c '^{"case": ' <<<"$output") ]]
    [[ $output == *'"case": "node", "detect_s": '*'"steps_repeated": '*'"requeues": 1, "identical": true}'* ]]
    [[ $output != *'"identical": false'* ]]
}
