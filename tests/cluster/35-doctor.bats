#!/usr/bin/env bats
#
# What an administrator asks on a real Slurm: `varde doctor` on a node, on the controller and as a user, with nothing
# wrong and with what is wrong in Slurm's own files; `varde config --job` in a job.

cluster="$BATS_TEST_DIRNAME/cluster"
load support

setup_file() {
    own_cluster
    install_varde "$BATS_FILE_TMPDIR/stage"
    printf 'defaults:\n  keep: 5\nprolog: {ready_ms: 20000}\n' >"$BATS_FILE_TMPDIR/varde.yaml"
    "$cluster" up --nodes 1 --varde "$BATS_FILE_TMPDIR/stage" --varde-yaml "$BATS_FILE_TMPDIR/varde.yaml"
}

teardown_file() { "$cluster" down; }

setup() {
    bats_require_minimum_version 1.5.0
    slurm="$VARDE_CLUSTER_DIR/etc/slurm"
    cp -a "$slurm" "$BATS_TEST_TMPDIR/slurm"
}

teardown() {
    cp -a "$BATS_TEST_TMPDIR"/slurm/*.conf "$slurm/"
    reconfigure
    clean_slate node1
}

reconfigure() { "$cluster" exec controller scontrol reconfigure; }
doctor() { "$cluster" exec "$1" varde doctor "${@:2}"; } # MACHINE OPTIONS...
says() { grep -qE "$1" <<<"$output" || { echo "no '$1' in: $output"; return 1; }; }

@test "nothing is wrong on a node and on the controller that are set up as the README says" {
    run doctor node1 --dir /flash
    [[ $status -eq 0 ]] || { echo "$output"; return 1; }
    says '^ok +host +node'
    says '^ok +scontrol +Slurm [0-9]+\.'
    says '^ok +PrologFlags +.*DeferBatch'
    says '^ok +plugin +/opt/varde/lib/varde/spank_varde.so is built for Slurm '
    says '^ok +sbatch --help +knows'
    says '^ok +varde.yaml +/etc/varde/varde.yaml'
    says '^(ok|warn) +directory +/flash'
    run doctor controller
    [[ $status -eq 0 ]] || { echo "$output"; return 1; }
    says '^ok +host +controller'
    says '^ok +EpilogSlurmctld +/opt/varde/libexec/varde/varde-controller'
    run "$cluster" run varde doctor
    [[ $status -eq 0 ]] || { echo "$output"; return 1; }
}

@test "what Slurm has read is judged, not only what stands in the file" {
    sed -i -e '/^EpilogSlurmctld=/d' -e 's/^PrologFlags=.*/PrologFlags=Alloc/' "$slurm/slurm.conf"
    run doctor node1
    [[ $status -eq 0 ]] # slurmctld has not read it yet
    reconfigure
    run doctor node1
    [[ $status -eq 1 ]]
    says '^wrong +PrologFlags +Alloc  ->  /etc/slurm/slurm.conf: PrologFlags=Alloc,DeferBatch'
    says '^wrong +EpilogSlurmctld +not set  ->  .*EpilogSlurmctld=/opt/varde/libexec/varde/varde-controller'
}

@test "a plugin that plugstack.conf does not name, and one that is not loaded" {
    echo '# nothing' >"$slurm/plugstack.conf"
    run doctor node1
    [[ $status -eq 1 ]]
    says '^wrong +plugstack.conf +.*has no line.*optional /opt/varde/lib/varde/spank_varde.so'
    echo 'optional /opt/varde/lib/libvarde.so.0 spank_varde.so' >"$slurm/plugstack.conf"
    run doctor node1
    [[ $status -eq 1 ]]
    says '^wrong +sbatch --help +does not know --ckpt-interval'
}

@test "a job that runs degraded is named with its reason" {
    local job
    job=$("$cluster" run sbatch --parsable --chdir=/flash --output=/dev/null --ckpt-interval=5m --ckpt-memory=15T \
        --wrap='sleep 100')
    within 60 "$cluster" exec node1 test -e "/run/varde/$job/state.json"
    within 30 degraded "$job"
    run doctor node1
    [[ $status -eq 0 ]] # a warning: the job runs
    says "^warn +job $job +degraded: .*15 TiB"
}
degraded() { [[ $("$cluster" exec node1 cat "/run/varde/$1/state.json" | json state) == degraded ]]; }

@test "a job sees which of its options are in force, and from where" {
    run "$cluster" run srun -n1 --ckpt-interval=5m --ckpt-memory=16M --ckpt-keep=7 \
        env VARDE_MAX_RESTARTS=2 VARDE_MEMORY=32M varde config --job
    [[ $status -eq 0 ]] || { echo "$output"; return 1; }
    says '^defaults.keep +7 .*option SLURM_VARDE_KEEP'
    says '^defaults.max_restarts +2 .*environment VARDE_MAX_RESTARTS'
    says '^agent.memory +16M .*option SLURM_VARDE_MEMORY'
    says '^prolog.ready_ms +20000 .*file /etc/varde/varde.yaml:3'
    says '^--ckpt-interval +5m .*option SLURM_VARDE_INTERVAL'
    run "$cluster" run srun -n1 varde config --job
    says '^defaults.keep +5 .*file /etc/varde/varde.yaml:2'
}
