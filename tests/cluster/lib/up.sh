# shellcheck shell=bash disable=SC2154
#
# `cluster up`: reads its options, writes the state directory, boots the machines. Whatever stops
# it on the way, Ctrl-C included, takes down what was already there.

# Where an installed Varde lies below the directory that was given: the prefix itself, or a DESTDIR.
find_varde_tree() {
    local prefix
    for prefix in "" /usr /usr/local /opt/varde; do
        [[ -e $1$prefix/lib/varde/spank_varde.so ]] && { printf '%s\n' "$1$prefix"; return; }
    done
    die "couldn't find lib/varde/spank_varde.so below '$1': give what 'make install' filled"
}

read_up_options() {
    nodes=4 slurm='' slurmd_timeout=300 varde='' varde_yaml='' flash='' prolog='' epilog=''
    epilog_slurmctld='' slurm_lines=() plugstack=() config=()
    while (($#)); do
        (($# >= 2)) || die "couldn't read '$1': it needs a value; see 'cluster help'"
        case $1 in
            --nodes) nodes=$2 ;;
            --slurm) slurm=$(realpath -e "$2") ;;
            --slurmd-timeout) slurmd_timeout=$2 ;;
            --slurm-conf-line) slurm_lines+=("$2") ;;
            --config) config+=("$2") ;;
            --plugstack) plugstack+=("$2") ;;
            --prolog) prolog=$2 ;;
            --epilog) epilog=$2 ;;
            --epilog-slurmctld) epilog_slurmctld=$2 ;;
            --varde) varde=$(find_varde_tree "$2") ;;
            --varde-yaml) varde_yaml=$2 ;;
            --flash) flash=$(realpath -e "$2") ;;
            *) die "couldn't read option '$1' of up: see 'cluster help'" ;;
        esac
        shift 2
    done
    [[ $nodes =~ ^[1-9][0-9]{0,2}$ && $nodes -lt $controller_host ]] ||
        die "couldn't start '$nodes' nodes: give a number from 1 to $((controller_host - 1))"
    [[ $slurmd_timeout =~ ^[0-9]+$ ]] ||
        die "couldn't use '$slurmd_timeout' as SlurmdTimeout: give seconds"
}

# A script that the machines must reach may lie anywhere on the host: it is copied to /etc/slurm.
use_script() { # KEY FILE
    [[ -n $2 ]] || return 0
    local target=/etc/slurm/${1,,}
    install -m 0755 "$2" "$dir$target"
    slurm_lines+=("$1=$target")
}

# Varde's own programs, for every hook that was not given by name.  What is installed on the host itself is used where
# it is: the machines have the host's /usr.
use_varde() {
    local program place=/opt/varde
    case $varde in
        /usr | /usr/local) place=$varde ;;
        *)
            cp -a "$varde/." "$dir/varde"
            chmod -R a+rX "$dir/varde"
            ;;
    esac
    for program in varde-prolog varde-epilog varde-controller varde-agent; do
        [[ -x $varde/libexec/varde/$program ]] ||
            die "couldn't find libexec/varde/$program in '$varde'"
    done
    plugstack=("optional $place/lib/varde/spank_varde.so" "${plugstack[@]}")
    [[ -n $prolog ]] || slurm_lines+=("Prolog=$place/libexec/varde/varde-prolog")
    [[ -n $epilog ]] || slurm_lines+=("Epilog=$place/libexec/varde/varde-epilog")
    [[ -n $epilog_slurmctld ]] ||
        slurm_lines+=("EpilogSlurmctld=$place/libexec/varde/varde-controller")
    [[ -n $varde_yaml || ! -e $varde/etc/varde/varde.yaml ]] ||
        varde_yaml=$varde/etc/varde/varde.yaml
}

# The directory that mkdir makes is ours to remove, and no other: a signal in between is acted upon once both is known.
claim_directory() {
    local interrupted=
    trap 'interrupted=130' INT
    trap 'interrupted=143' TERM HUP
    (
        trap '' INT TERM HUP
        exec mkdir "$dir" 2>/dev/null
    ) || die "couldn't use '$dir': it exists; try 'cluster --dir $dir down' first"
    trap take_down_unless_up EXIT
    exit_on_signals
    [[ -z $interrupted ]] || exit "$interrupted"
}

make_state_directory() {
    local name
    mkdir -p "$(dirname "$dir")"
    if [[ -e $dir/varde-cluster ]] && [[ -z $(machine_processes) ]]; then
        verb_down # what a reboot of the host left
    fi
    claim_directory
    : >"$dir/varde-cluster"
    mkdir -p "$dir"/{root,home,flash,machines/switch/log}
    for name in controller $(seq -f 'node%g' "$nodes"); do
        mkdir -p "$dir/machines/$name"/{log,spool,state}
    done
    chmod 1777 "$dir/flash"
    make_cluster_groups
    printf '%s\n' "$slurm_sbin" >"$dir/slurm-sbin"
    printf '%s\n' "$slurm_bin" >"$dir/slurm-bin"
    printf '%s\n' "${flash:-$dir/flash}" >"$dir/flash-path"
}

write_configuration() {
    copy_host_etc
    write_users
    write_hosts "$nodes" >"$dir/etc/hosts"
    [[ -z $varde ]] || use_varde
    use_script Prolog "$prolog"
    use_script Epilog "$epilog"
    use_script EpilogSlurmctld "$epilog_slurmctld"
    ((${#config[@]} == 0)) || cp -- "${config[@]}" "$dir/etc/slurm/"
    [[ -z $varde_yaml ]] || install -m 0644 "$varde_yaml" "$dir/etc/varde/varde.yaml"
    printf '%s\n' "${plugstack[@]}" >"$dir/etc/slurm/plugstack.conf"
    choose_cgroup_plugin "$slurm_sbin"
    write_slurm_conf "$nodes" "$slurmd_timeout" "${slurm_lines[@]}"
    chown "$(user_field slurm 3)" "$dir"/machines/controller/{log,state}
}

boot_machine() {
    machine_boot "$1" /bin/bash "$library/machine-init" "$dir" "$1" \
        "$(cat "$dir/flash-path")" "$(cat "$dir/slurm-sbin")"
}

# `scontrol` and `sinfo` as root on the controller, of the cluster's own Slurm.
slurm_tool() {
    inside controller env SLURM_CONF=/etc/slurm/slurm.conf "$(cat "$dir/slurm-bin")/$1" "${@:2}"
}

# Also true when a daemon has ended: then there is nothing to wait for.
all_nodes_idle() {
    a_daemon_ended || [[ $(slurm_tool sinfo -h -N -t idle -o %N | sort -u | wc -l) == "$nodes" ]]
}

a_daemon_ended() { compgen -G "$dir/machines/*/ended"; }

# A node that came back is still DOWN when somebody had set it so: resume it, as its owner would.
node_is_back() {
    local state
    # Slurm may not have missed it yet: what counts is that the new slurmd listens.
    inside controller bash -c ": </dev/tcp/$1/6818" || return 1
    state=$(slurm_tool sinfo -h -N -n "$1" -o %T)
    case $state in
        idle | mixed | allocated | completing) return 0 ;;
        *'*') ;; # not responding yet
        *) slurm_tool scontrol update "nodename=$1" state=resume ;;
    esac
    return 1
}

take_down_unless_up() {
    local status=$?
    trap '' INT TERM HUP
    if ((status)); then verb_down; fi
    exit "$status"
}

verb_up() {
    local nodes slurm slurmd_timeout varde varde_yaml flash prolog epilog epilog_slurmctld
    local -a slurm_lines plugstack config
    # shellcheck disable=SC2034 # lib/slurm.sh sets and uses it
    local name slurm_sbin=/usr/sbin slurm_bin=/usr/bin proctrack
    read_up_options "$@"
    if [[ -n $slurm ]]; then slurm_sbin=$slurm/sbin slurm_bin=$slurm/bin; fi
    [[ -x $slurm_sbin/slurmctld && -x $slurm_sbin/slurmd && -x $slurm_bin/sinfo ]] ||
        die "couldn't find slurmctld, slurmd and sinfo in '$slurm_sbin' and '$slurm_bin': run" \
            "packaging/setup, or give --slurm"
    make_state_directory
    write_configuration
    start_switch
    for name in controller $(node_names); do
        boot_machine "$name"
        plug "$name"
    done
    if ! wait_for 30 "$nodes idle nodes" all_nodes_idle || a_daemon_ended >&2; then
        tail -n 15 "$dir"/machines/*/log/* >&2
        die "couldn't start the cluster: the ends of its logs are above"
    fi
}
