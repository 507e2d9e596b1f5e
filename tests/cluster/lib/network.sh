# shellcheck shell=bash disable=SC2154
#
# Two networks, the compute fabric and the storage network, each one bridge in the network namespace
# of the switch. Each machine has a cable (veth pair) to both; cables are made between the switch
# and the machine directly, so the host's own network never shows any of it, and several clusters
# can use the same addresses.

compute_net=10.213.0
storage_net=10.213.1
controller_host=250

host_number() { # NAME
    if [[ $1 == controller ]]; then echo "$controller_host"; else echo "${1#node}"; fi
}

# `ip` commands from stdin, executed in the network namespace of machine $1.
ip_batch() {
    local pid
    pid=$(machine_pid "$1") || die "couldn't reach the network of '$1': it is dead"
    nsenter --net="/proc/$pid/ns/net" ip "${@:2}" -batch -
}

start_switch() {
    # shellcheck disable=SC2016 # for the shell on the machine
    machine_boot switch bash -c 'read -r pid _ </proc/self/stat
        cd "$0/machines/switch" && echo "$pid" >pid.new && mv pid.new pid && cd /
        while :; do sleep infinity; done' "$dir"
    ip_batch switch <<-END
		link add compute up type bridge stp_state 0 mcast_snooping 0
		link add storage up type bridge stp_state 0 mcast_snooping 0
	END
}

# plug NAME: both cables. Interfaces are called compute and storage inside the machine, and
# NAME-c, NAME-s at the switch. Addresses come before carrier, so a machine that sees carrier is
# ready to talk.
plug() {
    local name=$1 pid number
    pid=$(machine_pid "$name") ||
        die "couldn't plug in '$name': it died, see $dir/machines/$name/log"
    number=$(host_number "$name")
    ip_batch switch <<-END
		link add $name-c up master compute type veth peer name compute netns $pid
		link add $name-s up master storage type veth peer name storage netns $pid
	END
    ip_batch "$name" <<-END
		link set lo up
		address add $compute_net.$number/24 dev compute
		address add $storage_net.$number/24 dev storage
		link set compute up
		link set storage up
	END
}

# set_ports NAME up|down [compute|storage]: both networks unless one is named. A port that is down
# drops what arrives from either side: peers see silence, never a reset.
set_ports() {
    local name=$1 state=$2 network=${3:-both}
    case $network in
        both) printf 'link set %s %s\n' "$name-c" "$state" "$name-s" "$state" ;;
        compute) printf 'link set %s %s\n' "$name-c" "$state" ;;
        storage) printf 'link set %s %s\n' "$name-s" "$state" ;;
        *) die "couldn't use network '$network': give compute or storage, or nothing for both" ;;
    esac | ip_batch switch
}

# The kernel removes the cables of a dead machine by itself, but later: `start` cannot wait.
unplug() {
    printf 'link delete %s\n' "$1-c" "$1-s" | ip_batch switch -force 2>/dev/null || true
}

# The networks whose port is administratively down, for `status`.
cut_networks() {
    local pid
    pid=$(machine_pid switch) || return 0
    nsenter --net="/proc/$pid/ns/net" ip -o link show | awk -v name="$1" '
        match($2, "^" name "-[cs]@") && $3 !~ /[<,]UP[,>]/ {
            print ($2 ~ /-c@/) ? "compute" : "storage"
        }'
}
