# shellcheck shell=bash disable=SC2154
#
# The cluster's shared /etc: a copy of the host's, so that passwd, hosts, munge key and Slurm's
# configuration can differ from it and nothing is changed on the host. Written once by `up`; what
# is edited in $dir/etc later is seen by all machines at once.

# The host's secrets have no business in a directory that test users can look into.
copy_host_etc() {
    cp -a /etc "$dir/etc"
    rm -rf "$dir"/etc/{shadow,gshadow,shadow-,gshadow-,sudoers,sudoers.d,ssh,ssl/private} \
        "$dir"/etc/{slurm,munge,varde,hosts,hostname,resolv.conf}
    mkdir -p "$dir"/etc/{slurm,varde}
}

# add_user NAME UID HOME: only in this cluster's passwd; a user that the host has stays as it is.
add_user() {
    local name=$1 id=$2 home=$3
    getent passwd "$name" >/dev/null && return
    while getent passwd "$id" >/dev/null || getent group "$id" >/dev/null ||
        grep -q "^[^:]*:x:$id:" "$dir/etc/passwd"; do
        id=$((id + 1))
    done
    echo "$name:x:$id:$id::$home:/bin/bash" >>"$dir/etc/passwd"
    echo "$name:x:$id:" >>"$dir/etc/group"
}

# Of the cluster's passwd: 3 is the uid, 4 the gid, 6 the home directory; empty for an unknown user.
user_field() { # NAME FIELD
    awk -F: -v name="$1" -v field="$2" '$1 == name { print $field }' "$dir/etc/passwd"
}

# Homes below /home that the host doesn't have are made in the state directory, shared like NFS.
make_home() {
    local home
    home=$(user_field "$1" 6)
    [[ $home == /home/* && ! -d $home ]] || return 0
    mkdir -p "$dir$home"
    chown "$(user_field "$1" 3):$(user_field "$1" 4)" "$dir$home"
}

write_users() {
    add_user munge 62001 /nonexistent
    add_user slurm 62002 /nonexistent
    add_user varde 61001 /home/varde
    add_user guest 61002 /home/guest
    make_home varde
    make_home guest
    install -d -m 0700 -o "$(user_field munge 3)" "$dir/etc/munge"
    dd if=/dev/urandom of="$dir/etc/munge/munge.key" bs=1024 count=1 status=none
    chmod 0400 "$dir/etc/munge/munge.key"
    chown --reference="$dir/etc/munge" "$dir/etc/munge/munge.key"
}

write_hosts() { # COUNT
    local index
    echo "127.0.0.1 localhost"
    echo "$compute_net.$controller_host controller"
    echo "$storage_net.$controller_host controller-stor"
    for ((index = 1; index <= $1; index++)); do
        echo "$compute_net.$index node$index"
        echo "$storage_net.$index node$index-stor"
    done
}

# SlurmUser is slurm, as Debian and real sites have it, so EpilogSlurmctld meets its real rights.
# task/none: what works without a systemd and with any cgroup layout.
# DebugFlags stay off; logs are below /cluster, that is machines/NAME on the host.
default_slurm_conf() { # COUNT SLURMD_TIMEOUT
    cat <<-END
		ClusterName=varde
		SlurmctldHost=controller($compute_net.$controller_host)
		SlurmUser=slurm
		StateSaveLocation=/cluster/state
		SlurmdSpoolDir=/cluster/spool
		SlurmctldPidFile=/run/slurm/slurmctld.pid
		SlurmdPidFile=/run/slurmd.pid
		SlurmctldLogFile=/cluster/log/slurmctld.log
		SlurmdLogFile=/cluster/log/slurmd.log
		SlurmctldDebug=verbose
		SlurmdDebug=verbose
		ProctrackType=$proctrack
		TaskPlugin=task/none
		PlugStackConfig=/etc/slurm/plugstack.conf
		SlurmdParameters=config_overrides
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		ReturnToService=1
		SlurmdTimeout=$2
		PrologFlags=Alloc,DeferBatch
		NodeName=node[1-$1] NodeAddr=$compute_net.[1-$1] CPUs=4 RealMemory=2048 State=UNKNOWN
		PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	END
}

# write_slurm_conf COUNT SLURMD_TIMEOUT LINE...: LINEs replace the default line of the same key,
# because each Slurm command would complain about a key that is there twice.
write_slurm_conf() {
    local line
    local -a drop=()
    for line in "${@:3}"; do drop+=(-e "^${line%%=*}="); done
    if ((${#drop[@]})); then
        default_slurm_conf "$1" "$2" | grep -vi "${drop[@]}"
        printf '%s\n' "${@:3}"
    else
        default_slurm_conf "$1" "$2"
    fi >"$dir/etc/slurm/slurm.conf"
}

# Sets $proctrack and writes cgroup.conf. Where Slurm and host allow it, steps are tracked by
# control groups, as on most sites; proctrack/linuxproc, which works everywhere, forgets orphans (an
# srun of a killed batch script lives on). Slurm of 24.05 and later runs without any control group.
choose_cgroup_plugin() { # SBIN
    local version line=IgnoreSystemd=yes
    version=$("$1/slurmd" -V) ||
        die "couldn't run '$1/slurmd -V': is there a Slurm? see packaging/setup"
    version=${version##* } # slurm-wlm 22.05.8
    [[ $version =~ ^([0-9]+)\.([0-9]+) ]] ||
        die "couldn't read the version of '$1/slurmd': it says '$version'"
    proctrack=proctrack/linuxproc
    if ((10#${BASH_REMATCH[1]}${BASH_REMATCH[2]} >= 2405)); then
        line=CgroupPlugin=disabled
    elif grep -q '^/sys/fs/cgroup/freezer ' "$dir/cgroups"; then
        proctrack=proctrack/cgroup
    fi
    [[ -e $dir/etc/slurm/cgroup.conf ]] || echo "$line" >"$dir/etc/slurm/cgroup.conf"
}
