# A training job with checkpoints in a cluster of four nodes, for the files that disturb one: set-up, submission, and
# what can be seen of it.  Loaded after support.bash.
# shellcheck shell=bash disable=SC2154 # $cluster is the test file's

setup_file() {
    own_cluster
    training_cluster ''
}

# training_cluster KEYS OPTIONS...: KEYS are more of varde.yaml's agent section, OPTIONS those of `cluster up`.
training_cluster() {
    local stage=$BATS_FILE_TMPDIR/stage yaml=$BATS_FILE_TMPDIR/varde.yaml
    install_varde "$stage"
    printf 'agent: {pulse_ms: 250, silence_s: 5, memory: 128M%s}\n' "${1:+, $1}" >"$yaml"
    printf 'prolog: {ready_ms: 20000}\nepilog: {drain_s: 10}\n' >>"$yaml"
    "$cluster" up --nodes 4 --varde "$stage" --varde-yaml "$yaml" "${@:2}"
    # The weights that every disturbed run must end with.
    export rows=60000 steps=160
    "$cluster" run srun -N2 --ntasks-per-node=2 /opt/varde/share/varde/examples/train --no-checkpoint \
        --rows $rows --steps $steps --result reference
    export reference
    reference=$(cat "$VARDE_CLUSTER_DIR/home/varde/reference")
    [[ $reference =~ ^[0-9a-f]{16}$ ]]
}

teardown_file() { "$cluster" down; }

setup() {
    bats_require_minimum_version 1.5.0
    flash=${FLASH:-$VARDE_CLUSTER_DIR/flash} home=$VARDE_CLUSTER_DIR/home/varde
    name=t$BATS_TEST_NUMBER run=$flash/$name
}

teardown() {
    # Shown where a test has failed: what the agents, Slurm and the training say of it.
    if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
        tail -n 40 "$run"/history.jsonl "$run"/log/*.log "$out" || true
        "$cluster" run squeue -o '%A %T %r %N %k' || true
        "$cluster" logs | grep -av 'pmix\|MPI' | tail -n 400 || true
    fi
    clean_slate node1 node2 node3 node4
}

# submit OPTIONS...: a training of two nodes with checkpoints; its job id is in $job, its output in $out.
submit() {
    cat >"$home/$name.sbatch" <<END
#!/bin/bash
#SBATCH --job-name=$name --nodes=2 --ntasks-per-node=2 --output=$name.out
#SBATCH --ckpt-interval=2s --ckpt-dir=/flash --ckpt-name=$name
srun ${TRAIN_PREFIX:-} /opt/varde/share/varde/examples/train \\
    --rows $rows --steps $steps --step-ms 70 --print-every 1 --result $name.result
END
    job=$("$cluster" run sbatch --parsable "$@" "$name.sbatch")
    out=$home/$name.out
}

complete() { # AT LEAST N generations
    (($(find "$run" -maxdepth 2 -name manifest.json 2>/dev/null | wc -l) >= $1))
}
newest_step() { grep -ao '^step [0-9]*' "$out" 2>/dev/null | tail -1 | cut -d' ' -f2; }
beyond() { local step; step=$(newest_step); ((${step:-0} > $1)); }
starts() { (($(grep -ac '^starting at step' "$out") >= $1)); }
ended() {
    local jobs
    jobs=$("$cluster" run squeue -h -o %A) && ! grep -qx "$job" <<<"$jobs"
}
restart_step() { grep -a '^starting at step' "$out" | tail -1 | grep -o '[0-9]*$'; }
identical() { [[ $(cat "$home/$name.result") == "$reference" ]]; }
nodes() { # one a line
    "$cluster" run scontrol show hostnames \
        "$("$cluster" run scontrol show job "$job" | grep -o ' NodeList=[^ ]*' | head -1 | cut -d= -f2)"
}
event() { grep -aq "\"event\":\"$1\"" "$run/history.jsonl"; }
# The processes of the agents in a node: of each a holder, and its child, the worker.
agents() { "$cluster" exec "$1" pgrep varde-agent; }
worker() { "$cluster" exec "$1" pgrep -P "$("$cluster" exec "$1" pgrep -o varde-agent)"; }
