#!/usr/bin/env bats
#
# The plugin as Slurm's own programs load it, with no daemon: a throw-away slurm.conf, `--help`, and submissions that
# end when their options are read (there is no controller to talk to).

load ../cluster/support

setup() {
    bats_require_minimum_version 1.5.0
    plugin=$(tested_build)/spank_varde.so
    cat >"$BATS_TEST_TMPDIR/slurm.conf" <<END
ClusterName=load
SlurmctldHost=localhost
SlurmctldPort=1
MessageTimeout=1
PlugStackConfig=$BATS_TEST_TMPDIR/plugstack.conf
NodeName=localhost CPUs=1
PartitionName=all Nodes=ALL
END
    echo "required $plugin" >"$BATS_TEST_TMPDIR/plugstack.conf"
    export SLURM_CONF=$BATS_TEST_TMPDIR/slurm.conf
    unset "${!VARDE_@}" "${!SLURM_VARDE_@}"
    printf '#!/bin/bash\ntrue\n' >"$BATS_TEST_TMPDIR/job"
}

# The options were fine if sbatch went on to look for the controller.
reaches_controller() {
    run timeout 20 sbatch "$@" "$BATS_TEST_TMPDIR/job"
    echo "$output"
    [[ $output == *ontact*controller* || $output == *"Batch job submission failed"* ]]
    [[ $output != *varde* ]]
}

refused_by_us() { # REGEX OPTIONS...
    local expected=$1
    shift
    run timeout 20 sbatch "$@" "$BATS_TEST_TMPDIR/job"
    echo "$output"
    [[ $status -ne 0 && $output =~ varde:\ couldn\'t\ use.*$expected && $output != *ontroller* ]]
    # One line of ours, whatever Slurm adds.
    [[ $(grep -c 'varde:' <<<"$output") == 1 ]]
}

@test "only Slurm's symbols are exported" {
    run -0 nm -D --defined-only "$plugin"
    [[ $output == *slurm_spank_init_post_opt* && $output == *slurm_spank_task_exit* ]]
    local slurms='^(plugin_(name|type|version)|spank_plugin_version|slurm_spank_[a-z_]+)$'
    run ! grep -Ev "$slurms" <<<"$(awk '{print $3}' <<<"$output")"
}

@test "it needs libc alone" {
    run -0 readelf -d "$plugin"
    grep -q 'NEEDED.*libc\.so' <<<"$output"
    run -1 grep -Ev 'libc\.so|libm\.so|ld-linux' <<<"$(grep NEEDED <<<"$output")"
}

@test "srun, sbatch and salloc show the options" {
    for program in srun sbatch salloc; do
        run "$program" --help
        echo "$output"
        [[ $status -eq 0 ]]
        for option in interval=TIME dir=PATH name=NAME keep=N memory=SIZE restart=auto max-restarts=N \
            final-exits=LIST hang-timeout=TIME; do
            [[ $output == *"--ckpt-$option"* ]]
        done
    done
}

@test "right values pass" {
    reaches_controller
    reaches_controller --ckpt-interval=20m --ckpt-dir=/p/%u/%x --ckpt-name=n --ckpt-keep=2 --ckpt-memory=10% \
        --ckpt-restart=never --ckpt-max-restarts=3 --ckpt-final-exits=2,64-78 \
        --ckpt-hang-timeout=30m
    reaches_controller --ckpt-hang-timeout=off
    reaches_controller --ckpt-interval=off
    VARDE_INTERVAL=90s reaches_controller
}

@test "wrong values are refused at submit, with option, value and example" {
    refused_by_us "'--ckpt-interval=20x'.*--ckpt-interval=20m" --ckpt-interval=20x
    refused_by_us "'--ckpt-dir=/p/%q'.*'%q' is unknown.*--ckpt-dir=/" --ckpt-dir=/p/%q
    refused_by_us "'--ckpt-name=a/b'" --ckpt-name=a/b
    refused_by_us "'--ckpt-keep=0'" --ckpt-keep=0
    refused_by_us "'--ckpt-memory=99%'" --ckpt-memory=99%
    refused_by_us "'--ckpt-restart=sometimes'" --ckpt-restart=sometimes
    refused_by_us "'--ckpt-max-restarts=-1'" --ckpt-max-restarts=-1
    refused_by_us "'--ckpt-final-exits=0'" --ckpt-final-exits=0
    VARDE_INTERVAL=soon refused_by_us "'--ckpt-interval=soon'.*VARDE_INTERVAL"
}

@test "a wrong value in the script is refused too" {
    printf '#!/bin/bash\n#SBATCH --ckpt-interval=never\ntrue\n' >"$BATS_TEST_TMPDIR/job"
    refused_by_us "'--ckpt-interval=never'"
}

@test "srun and salloc refuse as well" {
    for program in srun salloc; do
        run timeout 20 "$program" --ckpt-interval=20x true
        echo "$output"
        [[ $status -ne 0 && $output == *"--ckpt-interval=20x"*"--ckpt-interval=20m"* ]]
    done
}
