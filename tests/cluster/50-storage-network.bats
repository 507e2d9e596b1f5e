#!/usr/bin/env bats
#
# Checkpoints on a real network file system (sshfs), whose server is reached over the storage network.  Interface
# counters show which network they cross: while the routes are right, with a route to the server that leads over the
# compute fabric, and with what each policy makes of that.  The jobs have one node, so that training has no traffic of
# its own between nodes.

cluster="$BATS_TEST_DIRNAME/cluster"
load support

server=10.213.1.250

setup_file() {
    own_cluster
    local stage=$BATS_FILE_TMPDIR/stage node
    install_varde "$stage"
    configure check
    "$cluster" up --nodes 2 --varde "$stage" --varde-yaml "$BATS_FILE_TMPDIR/varde.yaml"
    serve
    for node in node1 node2; do
        "$cluster" exec $node mkdir /tmp/net
        # Nothing remembered: other nodes and the server's own tools change the same files.
        "$cluster" exec $node sshfs -o directport=2222,allow_other,default_permissions,dir_cache=no,entry_timeout=0 \
            -o attr_timeout=0,negative_timeout=0 "$server:/cluster/net" /tmp/net 3>&-
    done
}

teardown_file() { "$cluster" down; }

# An sftp server without ssh, on the controller's storage address.
serve() {
    "$cluster" exec controller install -d -o varde -g varde /cluster/net
    "$cluster" exec controller setsid --fork setpriv --reuid=varde --regid=varde --init-groups python3 -c '
import socketserver, subprocess
class session(socketserver.BaseRequestHandler):
    def handle(self):
        subprocess.run("/usr/lib/openssh/sftp-server", stdin=self.request, stdout=self.request)
socketserver.ThreadingTCPServer(("'$server'", 2222), session).serve_forever()' </dev/null >/dev/null 2>&1 3>&-
    within 10 "$cluster" exec node1 bash -c ": </dev/tcp/$server/2222"
}

configure() { # POLICY
    printf '%s\n' 'agent: {pulse_ms: 250, memory: 64M}' 'prolog: {ready_ms: 20000}' 'epilog: {drain_s: 10}' \
        "storage: {interface: storage, policy: $1, subnet: 10.213.1.0/24}" >"$BATS_FILE_TMPDIR/varde.yaml"
    [[ ! -e $VARDE_CLUSTER_DIR/etc/varde ]] || cp "$BATS_FILE_TMPDIR/varde.yaml" "$VARDE_CLUSTER_DIR/etc/varde/"
}

setup() {
    bats_require_minimum_version 1.5.0
    name=t$BATS_TEST_NUMBER home=$VARDE_CLUSTER_DIR/home/varde net=$VARDE_CLUSTER_DIR/machines/controller/net
}

teardown() {
    if [[ -z ${BATS_TEST_COMPLETED:-} ]]; then
        cat "$home/$name".* "$net/$name"/log/* || true
        "$cluster" exec node1 ip route || true
    fi
    clean_slate node1 node2
    mend_route
}

# The server behind the compute fabric, as after somebody's mistake.
break_route() { "$cluster" exec node1 ip route add "$server/32" dev compute; }
mend_route() { "$cluster" exec node1 ip route del "$server/32" dev compute 2>/dev/null || true; }
way() { "$cluster" exec node1 ip -o route get "$server" | grep -o 'dev [a-z]*'; }
our_routes() { "$cluster" exec node1 ip route show proto 118; }

field() { "$cluster" exec node1 cat "/run/varde/$job/state.json" | json "$1"; }
gone() { ! "$cluster" exec node1 test -e "/run/varde/$job"; }
sent() { "$cluster" exec node1 cat "/sys/class/net/$1/statistics/tx_bytes"; }

# train: on node1, with checkpoints on the network file system; returns when the job has ended.
train() {
    cat >"$home/$name.sbatch" <<END
#!/bin/bash
#SBATCH --job-name=$name --nodes=1 --ntasks-per-node=2 --nodelist=node1 --output=$name.out
#SBATCH --ckpt-interval=2s --ckpt-dir=/tmp/net --ckpt-name=$name
cat /run/varde/\$SLURM_JOB_ID/state.json >$name.state
srun /opt/varde/share/varde/examples/train --rows 60000 --steps 75 --step-ms 70 --print-every 1 --result $name.result
END
    "$cluster" run sbatch "$name.sbatch" # not --wait: it looks only every few seconds
    within 120 no_jobs
    [[ -s $home/$name.result ]]
}
state() { json "$1" <"$home/$name.state"; }
complete() { find "$net/$name" -name manifest.json | wc -l; }
packs() { find "$net/$name" -name '*.safetensors' -printf '%s\n'; }

# measured POLICY: trains, and prints what node1 has sent meanwhile, in $on_storage and $on_compute.
measured() {
    local storage compute
    storage=$(sent storage) compute=$(sent compute)
    train
    on_storage=$(($(sent storage) - storage)) on_compute=$(($(sent compute) - compute))
    bytes=$(packs | awk '{ sum += $1 } END { print sum + 0 }')
    echo "# counters: $1: $(complete) checkpoints, $bytes bytes; sent over storage $on_storage, compute $on_compute" >&3
    (($(complete) >= 1 && bytes > 10000000))
}
crossed_storage() { ((on_storage >= bytes && on_compute < bytes / 10)); }
crossed_compute() { ((on_compute >= bytes && on_storage < bytes / 10)); }

@test "checkpoints cross the storage network, and the prolog says so" {
    [[ $(way) == "dev storage" ]]
    measured "check, routes right"
    crossed_storage
    [[ $(state state) == ready ]]
    [[ $(state storage) == *"'mount': '/tmp/net'"*"'problem': ''"*"'address': '$server', 'interface': 'storage'"* ]]
    [[ $(state storage) == *"'type': 'fuse.sshfs'"* ]]
}

@test "policy check: a route over the compute fabric is said, and left" {
    break_route
    [[ $(way) == "dev compute" ]]
    measured "check, route broken"
    crossed_compute
    [[ $(state state) == ready ]]
    [[ $(state storage) == *"server $server of '/tmp/net' (fuse.sshfs) is reached over 'compute', not"* ]]
    [[ -z $(our_routes) ]]
}

@test "policy require: the job has no agent of the prolog, and runs" {
    configure require
    break_route
    measured "require, route broken"
    crossed_compute
    [[ $(state state) == degraded && $(state agent_pid) == 0 ]]
    [[ $(state reason) == *"storage.policy is 'require'"*"reached over 'compute'"*"without the prolog's agent"* ]]
    no_node_is 'down|dr'
}

@test "policy route: checkpoints cross the storage network again, until the last job has left" {
    configure route
    break_route
    # A second job of the node, which stays longer.
    job=4000000000
    "$cluster" exec node1 env -i SLURM_JOB_ID=$job SLURM_JOB_UID=61001 SLURM_JOB_GID=61001 SPANK_VARDE_INTERVAL=1m \
        SPANK_VARDE_MEMORY=16M SPANK_VARDE_DIR=/tmp/net/other /opt/varde/libexec/varde/varde-prolog
    [[ $(field state) == ready && $(way) == "dev storage" ]]
    measured "route, route broken"
    crossed_storage
    [[ $(state state) == ready && $(state storage) == *"'problem': ''"*"'interface': 'storage'"* ]]
    within 20 no_jobs
    [[ $(our_routes) == "$server dev storage"* && $(way) == "dev storage" ]]
    "$cluster" exec node1 env -i SLURM_JOB_ID=$job /opt/varde/libexec/varde/varde-epilog
    gone
    [[ -z $(our_routes) && $(way) == "dev compute" ]]
}
