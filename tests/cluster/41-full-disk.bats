#!/usr/bin/env bats
#
# Storage that fills up under a training job: a small file system of its own as the flash tier.

cluster="$BATS_TEST_DIRNAME/cluster"
load support

setup_file() {
    own_cluster
    export small=$BATS_FILE_TMPDIR/small
    local stage=$BATS_FILE_TMPDIR/stage
    install_varde "$stage"
    printf 'agent: {pulse_ms: 250, silence_s: 5, memory: 64M}\nprolog: {ready_ms: 20000}\n' \
        >"$BATS_FILE_TMPDIR/varde.yaml"
    truncate -s 96M "$BATS_FILE_TMPDIR/small.img"
    mkfs.ext4 -q -m 0 "$BATS_FILE_TMPDIR/small.img"
    mkdir "$small"
    mount -o loop "$BATS_FILE_TMPDIR/small.img" "$small"
    chmod 1777 "$small"
    "$cluster" up --nodes 2 --flash "$small" --varde "$stage" --varde-yaml "$BATS_FILE_TMPDIR/varde.yaml"
}

teardown_file() {
    "$cluster" down
    umount "$small"
}

setup() { bats_require_minimum_version 1.5.0; }

manifests() { find "$small/full" -maxdepth 2 -name manifest.json | wc -l; }
complete() { (($(manifests 2>/dev/null) >= $1)); }
logged() { grep -aq "$1" "$small"/full/log/*.log; }
steps() { grep -ac '^step' "$VARDE_CLUSTER_DIR/home/varde/full.out"; }
beyond() { (($(steps) > $1)); }
newest() { find "$small/full" -maxdepth 2 -name manifest.json | sort | tail -1; }
newer_than() { [[ $(newest) > $1 ]]; }

@test "a full disk: path, needed and free are logged, training goes on, the older generation is intact" {
    local home=$VARDE_CLUSTER_DIR/home/varde kept
    cat >"$home/full.sbatch" <<'END'
#!/bin/bash
#SBATCH --job-name=full --nodes=2 --ntasks-per-node=2 --output=full.out
#SBATCH --ckpt-interval=2s --ckpt-dir=/flash --ckpt-name=full
srun /opt/varde/share/varde/examples/train --rows 60000 --steps 400 --step-ms 100 --print-every 1 --result full.result
END
    "$cluster" run sbatch full.sbatch
    within 60 complete 1
    # What is free, but for 2 MiB.  A pack of this job has 6 MiB.
    local free_kib
    free_kib=$(df --output=avail -k "$small" | tail -1)
    fallocate -l "$((free_kib - 2048))K" "$small/filler"
    kept=$(manifests)
    within 60 logged 'needed.*free'
    logged "full/step-.*partial"
    within 60 logged 'training continues, older generations are intact'
    within 30 beyond "$(($(steps) + 3))"
    ((kept >= 1 && $(manifests) >= 1))
    run -0 "$cluster" run /opt/varde/bin/varde verify /flash/full
    [[ -z $(find "$small/full" -name '*.partial') ]]

    # Room again: so are checkpoints.
    rm "$small/filler"
    within 60 newer_than "$(newest)"
    within 120 no_jobs
    [[ -s $home/full.result ]]
}
