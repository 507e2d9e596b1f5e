#!/usr/bin/env bats
#
# Packs over two mounts (agent.mounts): a training that loses a node, and nodes that lack one of the mounts.
#
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a process of its own; training.bash sets the rest

cluster="$BATS_TEST_DIRNAME/cluster"
load support
load training

setup_file() {
    own_cluster
    export FLASH=$BATS_FILE_TMPDIR/tier
    mkdir -m 1777 "$FLASH"
    local mount
    for mount in fast0 fast1; do
        mkdir "$FLASH/$mount"
        mount -t tmpfs -o size=256m,mode=1777 tmpfs "$FLASH/$mount"
    done
    training_cluster 'mounts: /flash/fast0 /flash/fast1' --flash "$FLASH"
}

teardown_file() {
    "$cluster" down
    umount "$FLASH/fast0" "$FLASH/fast1"
}

packs() { # MOUNT: of this test's run
    grep -lx "[0-9]* /flash/$name" "$FLASH/$1"/varde-*/*/owner | while read -r owner; do
        find "$(dirname "$owner")" -name 'node-*' -type f
    done
}
generations() { (cd "$run" && compgen -G 'step-*/manifest.json'); }
again() { # submit once more, on other nodes
    submit "--nodelist=$1" --no-requeue
}
with_all_mounts() { # NODE: as it was at the start
    "$cluster" kill "$1"
    "$cluster" start "$1"
}

@test "a dead node: continued bit for bit from packs on both mounts, and old ones are gone from there" {
    submit
    within 60 complete 1
    local node
    for node in 0 1; do
        [[ $(readlink "$(compgen -G "$run/step-*/node-0000$node-of-00002.safetensors" | head -1)") == \
            /flash/fast$node/varde-*/step-*/node-0000$node-of-00002.safetensors ]]
    done
    "$cluster" kill node2
    within 60 starts 2
    (($(restart_step) > 0))
    within 90 ended
    identical
    run -0 "$cluster" run /opt/varde/bin/varde verify "/flash/$name"
    run -0 "$cluster" run /opt/varde/bin/varde ls "/flash/$name"
    run ! "$cluster" run --user guest ls "/flash/fast0/varde-$(id -u varde 2>/dev/null || stat -c %u "$run")"
    # What is there is what the run names, and no more than is kept.
    local kept
    kept=$(generations | wc -l)
    ((kept >= 1 && kept <= 4))
    for node in 0 1; do [[ $(packs fast$node | wc -l) == "$kept" ]]; done
}

@test "a mount that one node lacks: a clear error with the node's name, and nothing is lost" {
    submit
    within 60 complete 1
    "$cluster" run scancel "$job"
    within 60 no_jobs
    local before
    before=$(generations)
    "$cluster" exec node2 umount --lazy /flash/fast1
    again node1,node2
    within 90 ended
    run ! starts 2
    grep -a "'/flash/fast1' is not mounted on node 'node2'" "$out"
    [[ $(generations) == "$before" ]]
    [[ -z $(find "$run" -name damaged.json) ]]
    run -2 "$cluster" exec node2 setpriv --reuid=varde --regid=varde --clear-groups \
        /opt/varde/bin/varde verify "/flash/$name"
    [[ $output == *"'/flash/fast1' is not mounted on node 'node2'"* ]]

    again node3,node4
    within 90 ended
    starts 2
    (($(restart_step) > 0))
    identical
    run -0 "$cluster" run /opt/varde/bin/varde verify "/flash/$name"
    [[ -z $("$cluster" exec node2 ls -A /flash/fast1) ]]
    with_all_mounts node2
}

@test "a mount that goes away in training: its node goes around it, and nothing lands below it" {
    submit --nodelist=node1,node2
    within 60 complete 1
    "$cluster" exec node2 umount --lazy /flash/fast1
    local newest
    newest=$(generations | tail -1)
    newer() { [[ $(generations | tail -1) > $newest ]]; }
    within 60 newer
    grep -aq "'/flash/fast1': nothing is mounted there" "$run/log/node-00001.log"
    within 90 ended
    identical
    run -0 "$cluster" run /opt/varde/bin/varde verify "/flash/$name"
    [[ -z $("$cluster" exec node2 ls -A /flash/fast1) ]]
    with_all_mounts node2
}

@test "a mount that the leader lacks: nothing is committed that it cannot see, and nothing is lost" {
    submit --nodelist=node1,node2
    within 60 complete 1
    "$cluster" exec node1 umount --lazy /flash/fast1
    uncommitted() {
        grep -aq "is not committed: .*'/flash/fast1' is not mounted on node 'node1'" "$run/log/node-00000.log"
    }
    within 60 uncommitted
    local before
    before=$(generations)
    within 90 ended
    identical
    [[ $(generations) == "$before" ]]
    grep -q '"event":"failed"' "$run/history.jsonl"

    # All packs are there: elsewhere the newest generation is as good as any.
    again node3,node4
    within 90 ended
    starts 2
    (($(restart_step) > 10#$(tail -1 <<<"$before" | sed 's/step-\([0-9]*\).*/\1/')))
    identical
    run -0 "$cluster" run /opt/varde/bin/varde verify "/flash/$name"
    with_all_mounts node1
}
