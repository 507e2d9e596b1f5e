#!/usr/bin/env bats
#
# The plugin on a real Slurm: where the options of a job arrive, what they change of it, and that a job without them is
# not touched. Prolog, Epilog and EpilogSlurmctld are scripts that write their environment down; the agent is a few
# lines of Python.

cluster="$BATS_TEST_DIRNAME/cluster"
load support

setup_file() {
    own_cluster
    local hook flags=()
    cat >"$BATS_FILE_TMPDIR/agent.py" <<'END'
# Stands where the agent stands: answers one batch_exit by a requeue as the job's user.
import os, pwd, socket, struct, subprocess, sys
job, uid = int(sys.argv[1]), int(sys.argv[2])
folder = f"/run/varde/{job}"
os.makedirs(folder, exist_ok=True)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(folder + "/starting")
listener.listen(4)
os.rename(folder + "/starting", folder + "/agent.sock")
os.chown(folder + "/agent.sock", uid, -1)
os.setgid(pwd.getpwuid(uid).pw_gid)
os.setuid(uid)
peer, _ = listener.accept()
message = peer.recv(64, socket.MSG_WAITALL)
with open(f"/flash/message.{job}", "wb") as out:
    out.write(message)
requeue = subprocess.run(["/usr/bin/scontrol", "requeue", str(job)])
peer.sendall(message[:32])
END
    for hook in Prolog Epilog EpilogSlurmctld; do
        cat >"$BATS_FILE_TMPDIR/$hook" <<END
#!/bin/bash
/usr/bin/env | /usr/bin/sort >>/flash/$hook.\$SLURM_JOB_ID
if [[ $hook == Prolog && \$SPANK_VARDE_NAME == agent ]]; then
    /usr/bin/setsid /usr/bin/python3 /etc/slurm/agent.py \$SLURM_JOB_ID \$SLURM_JOB_UID </dev/null >/dev/null 2>&1 &
    for ((i = 0; i < 100; i++)); do [[ -S /run/varde/\$SLURM_JOB_ID/agent.sock ]] && break; /usr/bin/sleep 0.05; done
fi
[[ $hook != Epilog ]] || /usr/bin/rm -rf /run/varde/\$SLURM_JOB_ID
exit 0
END
    done
    flags=(--prolog "$BATS_FILE_TMPDIR/Prolog" --epilog "$BATS_FILE_TMPDIR/Epilog"
        --epilog-slurmctld "$BATS_FILE_TMPDIR/EpilogSlurmctld" --config "$BATS_FILE_TMPDIR/agent.py"
        --config "$(tested_build)/spank_varde.so"
        --plugstack "required /etc/slurm/spank_varde.so" --slurm-conf-line JobRequeue=0)
    "$cluster" up --nodes 2 "${flags[@]}"
}

teardown_file() { "$cluster" down; }

setup() {
    bats_require_minimum_version 1.5.0
    flash="$VARDE_CLUSTER_DIR/flash"
}

show() { "$cluster" run scontrol show --oneliner job "$1"; }
state_is() { [[ $(show "$1") == *" JobState=$2 "* ]]; }

# submit SCRIPT OPTIONS...: the job's number.  The script is written where all machines see it.
submit() {
    local script=$1
    shift
    printf '#!/bin/bash\n%s\n' "$script" >"$flash/job.sh"
    "$cluster" run sbatch --parsable --chdir=/flash --output=/flash/out.%j "$@" /flash/job.sh
}

# Not by its state: it is PENDING before its first start, too.
requeued() { [[ $(show "$1") == *" JobState=PENDING "*" Restarts=1 "* ]]; }

ends() { within 30 state_is "$1" "${2:-COMPLETED}"; }

finished() { # JOB: and what it wrote is in $output
    ends "$1"
    output=$(<"$flash/out.$1")
    echo "$output"
}

@test "options reach job, prolog, epilog and controller hook, through every --export mode" {
    local mode job hook
    for mode in ALL NONE NIL HOME,X=1; do
        job=$(submit 'env' --export="$mode" --ckpt-interval=20m --ckpt-dir=/p/%u --ckpt-keep=2)
        finished "$job"
        [[ $output == *$'\nSLURM_VARDE_INTERVAL=20m'* && $output == *SLURM_VARDE_DIR=/p/%u* ]]
        [[ $output == *SLURM_VARDE_KEEP=2* ]]
        for hook in Prolog Epilog EpilogSlurmctld; do
            within 10 grep -qx SPANK_VARDE_INTERVAL=20m "$flash/$hook.$job"
            grep -qx SPANK_VARDE_DIR=/p/%u "$flash/$hook.$job"
            grep -qx SPANK_VARDE_KEEP=2 "$flash/$hook.$job"
        done
    done
}

@test "options in the script and in variables; the command line wins" {
    local job
    job=$(submit $'#SBATCH --ckpt-interval=30m\n#SBATCH --ckpt-keep=4\nenv')
    finished "$job"
    [[ $output == *SLURM_VARDE_INTERVAL=30m* && $output == *SLURM_VARDE_KEEP=4* ]]
    job=$(submit $'#SBATCH --ckpt-interval=30m\nenv' --ckpt-interval=5m)
    finished "$job"
    [[ $output == *SLURM_VARDE_INTERVAL=5m* && $output != *=30m* ]]
    printf '#!/bin/bash\n#SBATCH --ckpt-keep=4\nenv\n' >"$flash/job.sh"
    job=$("$cluster" run env VARDE_INTERVAL=90s VARDE_KEEP=9 VARDE_NAME=run \
        sbatch --parsable --chdir=/flash -o /flash/out.%j /flash/job.sh)
    finished "$job"
    [[ $output == *SLURM_VARDE_INTERVAL=90s* && $output == *SLURM_VARDE_KEEP=4* ]]
    [[ $output == *SLURM_VARDE_NAME=run* ]]
    run ! grep ^VARDE_ "$flash/out.$job"
    within 10 grep -qx SPANK_VARDE_NAME=run "$flash/EpilogSlurmctld.$job"
}

@test "a job that asks for checkpoints requeues and appends, unless the user says otherwise" {
    local job
    job=$(submit 'echo start; sleep 100' --ckpt-interval=20m)
    within 10 state_is "$job" RUNNING
    [[ $(show "$job") == *" Requeue=1 "* ]]
    within 10 grep -q start "$flash/out.$job"
    "$cluster" run scontrol requeue "$job"
    within 20 state_is "$job" PENDING
    "$cluster" run scontrol update jobid="$job" StartTime=now
    within 20 grep -qzP 'start\n(.*\n)*start' "$flash/out.$job"
    "$cluster" run scancel "$job"

    job=$(submit 'sleep 100' --ckpt-interval=20m --no-requeue)
    [[ $(show "$job") == *" Requeue=0 "* ]]
    "$cluster" run scancel "$job"
    printf '#!/bin/bash\nsleep 100\n' >"$flash/job.sh"
    job=$("$cluster" run env SBATCH_NO_REQUEUE=1 sbatch --parsable -o /dev/null --ckpt-interval=20m /flash/job.sh)
    [[ $(show "$job") == *" Requeue=0 "* ]]
    "$cluster" run scancel "$job"

    job=$(submit 'echo start; sleep 100' --ckpt-interval=20m --open-mode=truncate)
    within 10 grep -q start "$flash/out.$job"
    "$cluster" run scontrol requeue "$job"
    within 20 state_is "$job" PENDING
    "$cluster" run scontrol update jobid="$job" StartTime=now
    within 20 state_is "$job" RUNNING
    within 10 grep -q start "$flash/out.$job"
    [[ $(grep -c start "$flash/out.$job") == 1 ]]
    "$cluster" run scancel "$job"
}

@test "sruns in the job have its options, and may have their own" {
    local job
    # shellcheck disable=SC2016 # for the job's shell
    job=$(submit 'mkdir -p sub; cd sub
echo "inner $(srun -n1 env | grep ^SLURM_VARDE | sort | paste -sd" ")"
echo "own $(srun -n1 --ckpt-interval=5m env | grep ^SLURM_VARDE | sort | paste -sd" ")"
echo "none $(srun -n1 --ckpt-interval=off --export=NONE /usr/bin/env | grep ^SLURM_VARDE | sort | paste -sd" ")"
export VARDE_INTERVAL=7m
echo "step $(srun -n1 --ckpt-interval=5m env | grep VARDE_I | grep -v SPANK | sort | paste -sd" ")"
echo "nearer $(srun -n1 env | grep VARDE_I | grep -v SPANK | sort | paste -sd" ")"
unset VARDE_INTERVAL
echo "again $(srun -n1 env | grep ^SLURM_VARDE | sort | paste -sd" ")"
srun -n1 --ckpt-interval=wrong true 2>&1 | grep -o "varde: .*"' --ckpt-interval=20m --ckpt-dir=ckpt)
    finished "$job"
    [[ $output == *"inner SLURM_VARDE_DIR=/flash/ckpt SLURM_VARDE_INTERVAL=20m"* ]]
    [[ $output == *"own SLURM_VARDE_DIR=/flash/ckpt SLURM_VARDE_INTERVAL=5m"* ]]
    [[ $output == *"none SLURM_VARDE_DIR=/flash/ckpt SLURM_VARDE_INTERVAL=off"* ]]
    [[ $output == *$'step SLURM_VARDE_INTERVAL=5m\n'* ]]
    [[ $output == *$'nearer SLURM_VARDE_INTERVAL=20m VARDE_INTERVAL=7m\n'* ]]
    [[ $output == *"again SLURM_VARDE_DIR=/flash/ckpt SLURM_VARDE_INTERVAL=20m"* ]]
    [[ $output == *"varde: couldn't use '--ckpt-interval=wrong'"* ]]
}

@test "srun and salloc outside a job" {
    run "$cluster" run srun -n1 --ckpt-interval=5m env
    [[ $status -eq 0 && $output == *SLURM_VARDE_INTERVAL=5m* ]]
    run "$cluster" run salloc -n1 --ckpt-interval=5m srun env
    [[ $status -eq 0 && $output == *SLURM_VARDE_INTERVAL=5m* && $output != *"varde: couldn't"* ]]
    # shellcheck disable=SC2016 # for the shell in the allocation
    run "$cluster" run salloc -n1 --ckpt-interval=5m bash -c 'cat /flash/Prolog.$SLURM_JOB_ID'
    [[ $output == *SPANK_VARDE_INTERVAL=5m* ]]
}

@test "a job submitted from a job asks for itself" {
    local job inner
    job=$(submit "printf '#!/bin/bash\nenv\n' >inner.sh; sbatch --parsable --output=/flash/out.%j inner.sh" \
        --ckpt-interval=20m)
    finished "$job"
    inner=${output##*$'\n'}
    finished "$inner"
    [[ -s $flash/out.$inner && -s $flash/Prolog.$inner ]]
    run ! grep -e VARDE_ -e ckpt "$flash/out.$inner" "$flash/Prolog.$inner"
    [[ $(show "$inner") == *" Requeue=0 "* ]]
}

# All of a job that may differ between two jobs of the same script is taken out: numbers, times, names of files.
normalised() {
    sed -E -e "s/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+/TIME/g; s/\b$1\b/JOB/g" \
        -e 's/(PID|PORT|SLUID|TIME|Priority|node|Node)[A-Za-z_]*=[^ ]*//gi' |
        grep -Ev '^(_|SHLVL|PWD|TMPDIR)=' | sort
}

@test "a job without options is the same as without the plugin" {
    local with without
    with=$(submit 'env')
    finished "$with"
    mv "$VARDE_CLUSTER_DIR/etc/slurm/plugstack.conf" "$VARDE_CLUSTER_DIR/etc/slurm/plugstack.away"
    without=$(submit 'env')
    ends "$without" || true
    mv "$VARDE_CLUSTER_DIR/etc/slurm/plugstack.away" "$VARDE_CLUSTER_DIR/etc/slurm/plugstack.conf"
    ends "$without"
    for file in out Prolog; do [[ -s $flash/$file.$with && -s $flash/$file.$without ]]; done
    diff <(normalised "$with" <"$flash/out.$with") <(normalised "$without" <"$flash/out.$without")
    diff <(show "$with" | tr ' ' '\n' | normalised "$with") <(show "$without" | tr ' ' '\n' | normalised "$without")
    diff <(normalised "$with" <"$flash/Prolog.$with") <(normalised "$without" <"$flash/Prolog.$without")
}

@test "the site names a directory in plugstack.conf" {
    local conf="$VARDE_CLUSTER_DIR/etc/slurm/plugstack.conf" job
    cp "$conf" "$conf.kept"
    sed -i 's|spank_varde.so|& dir=/flash/%u/ckpt|' "$conf"
    job=$(submit 'env' --ckpt-interval=20m)
    finished "$job"
    cp "$conf.kept" "$conf"
    [[ $output == *SLURM_VARDE_DIR=/flash/%u/ckpt* ]]
}

@test "nothing is said to users and nodes stay up" {
    local job
    printf '#!/bin/bash\nsrun true\n' >"$flash/job.sh"
    run --separate-stderr "$cluster" run sbatch --wait --ckpt-interval=20m -o /flash/out.quiet /flash/job.sh
    # shellcheck disable=SC2154 # set by run
    [[ $status -eq 0 && $stderr == "" && ! -s $flash/out.quiet ]]
    no_node_is 'drain|down'
}

@test "a failed batch script asks the agent, which requeues" {
    local job
    job=$(submit 'exit 3' --ckpt-interval=20m --ckpt-name=agent)
    within 20 requeued "$job"
    # u64 job at 16, i32 status at 24
    run od -An -tu4 -j16 -N12 "$flash/message.$job"
    [[ $output =~ ^\ +$job\ +0\ +768$ ]]
    [[ $(stat -c %s "$flash/message.$job") == 64 ]]
    "$cluster" run scancel "$job"
}

@test "a batch script killed by a signal asks too; a good one does not" {
    local job
    job=$(submit 'kill -SEGV $$' --ckpt-interval=20m --ckpt-name=agent)
    within 20 requeued "$job"
    "$cluster" run scancel "$job"
    job=$(submit 'true' --ckpt-interval=20m --ckpt-name=agent)
    ends "$job"
    [[ ! -e $flash/message.$job ]]
}

@test "without an agent a failed job just fails" {
    local job
    job=$(submit 'exit 3' --ckpt-interval=20m)
    ends "$job" FAILED
    job=$(submit 'exit 3')
    ends "$job" FAILED
}
