"""Nodes that die, in every form, and that the job goes on without them, once."""
import os
import subprocess
import time

from trial import case, require


def train_until_checkpoint(t, nodes=2, **how):
    t.learn_reference(nodes)
    t.submit(nodes=nodes, **how)
    t.wait_for_checkpoint()


@case(check=True, goal_s=45)
def node(t):
    """A node loses power."""
    train_until_checkpoint(t)
    t.kill("node2")
    t.goes_on(without=["node2"])
    require(t.scontrol("show", "node", "node2").find("State=DOWN") > 0, "the hook has not set the dead node DOWN")


@case(check=True)
def leader(t):
    """The node of the leader loses power, which is the batch host too: Slurm needs longer, because the srun died."""
    train_until_checkpoint(t)
    t.kill("node1")
    t.goes_on(without=["node1"])


@case(goal_s=45)
def leader_alone(t):
    """The node of the leader loses power, which is not the batch host: the step begins at the job's second node."""
    t.learn_reference()
    t.submit("--exclusive", nodes=3, prefix="--relative=1 --nodes=2 --ntasks=4")
    t.wait_for_checkpoint()
    t.kill("node2")
    t.goes_on(without=["node2"])


@case(goal_s=45, up=("--nodes", "6"))
def two_nodes(t):
    """Two of three nodes lose power at once."""
    train_until_checkpoint(t, nodes=3)
    t.kill("node2", "node3")
    t.goes_on(without=["node2", "node3"])


@case(check=True)
def slurmd(t):
    """Only a node's slurmd dies: training is not disturbed, and ends."""
    train_until_checkpoint(t)
    with t.strike():
        t.kill_processes("node2", "^[^ ]*slurmd")
    t.wait_for("the final weights", t.is_identical)
    require(len(t.output().starts) == 1, "the training has been started again")
    require(t.requeues() == 0, f"{t.requeues()} requeues of a training that nothing has disturbed")


@case(up=("--slurmd-timeout", "15"))
def slurmd_noticed(t):
    """Only a node's slurmd dies, and Slurm notices: its own requeue, helped by the hook; the old ranks are fenced."""
    t.steps = 600
    train_until_checkpoint(t)
    with t.strike():
        t.kill_processes("node2", "^[^ ]*slurmd")
    t.goes_on(without=["node2"])


@case(check=True)
def ranks(t):
    """Only a node's ranks die: the batch script fails, and the agent has the job requeued."""
    train_until_checkpoint(t, prefix="--kill-on-bad-exit=1")
    with t.strike():
        t.kill_processes("node2", "examples/train")
    t.goes_on()


@case(goal_s=45)
def node_and_ranks(t):
    """A node loses power, and the other ranks fail of it long before Slurm has noticed anything."""
    train_until_checkpoint(t, prefix="--kill-on-bad-exit=1")
    t.kill("node2")
    t.kill_processes("node1", "examples/train")
    t.goes_on(without=["node2"])


@case(check=True)
def frozen(t):
    """Split brain: a node is cut off and stands still, and works on when the next incarnation is already there."""
    train_until_checkpoint(t)
    with t.strike():
        t.cluster("cut", "node2")
        freeze(t, "node2", "STOP")
    t.wait_for_restart()
    require("node2" not in t.nodes(), "the job runs on the node that is cut off")
    t.wait_for("a generation of the new incarnation",
               lambda: any(one["incarnation"] == 2 and one["status"] == "complete" for one in t.generations()))
    before = packs_of(t, "r1")
    freeze(t, "node2", "CONT")
    time.sleep(2)  # its agent and ranks write, if they can, before the network tells Slurm of them
    t.cluster("heal", "node2")
    t.goes_on(without=["node2"])
    require(packs_of(t, "r1").items() <= before.items(), "the isolated node has sealed a pack of the old incarnation")
    require_whole(t)
    old = t.wait_for("the end of the old ranks", lambda: not t.exec("node2", "pgrep", "-f", "[e]xamples/train",
                                                                    check=False), 60)
    require(old, "ranks of the old incarnation still run")


@case(check=True)
def cut_off(t):
    """Split brain: a node is cut off from all but the storage, its agent and ranks live on, and nothing looks dead."""
    train_until_checkpoint(t)
    with t.strike():
        t.cluster("cut", "node2")
    t.wait_for_restart()
    require("node2" not in t.nodes(), "the job runs on the node that is cut off")
    t.wait_for("a generation of the new incarnation",
               lambda: any(one["incarnation"] == 2 and one["status"] == "complete" for one in t.generations()))
    before = packs_of(t, "r1")
    t.cluster("heal", "node2")
    t.goes_on(without=["node2"])
    require(packs_of(t, "r1").items() <= before.items(), "the isolated node has sealed a pack of the old incarnation")
    require_whole(t)


@case()
def leader_cut_off(t):
    """The leader's node is cut off from all but the storage: the next one takes over, and has the job requeued."""
    train_until_checkpoint(t)
    with t.strike():
        t.cluster("cut", "node1")
    t.goes_on(without=["node1"])


def freeze(t, name, signal):
    """All of the node's processes but its first one, which is the way in."""
    t.exec(name, "bash", "-c", f"for p in /proc/[0-9]*; do p=${{p#/proc/}}; ((p == 1 || p == $$)) || "
                               f"kill -{signal} $p 2>/dev/null; done; true")


def packs_of(t, incarnation):
    """Sealed packs of an incarnation: path -> what changes when somebody writes."""
    found = {}
    for directory, _, names in os.walk(t.run_path):
        if directory.endswith(f".{incarnation}"):
            for name in names:
                if name.endswith(".safetensors"):
                    about = os.stat(os.path.join(directory, name))
                    found[os.path.join(directory, name)] = (about.st_size, about.st_mtime_ns, about.st_ino)
    return found


def require_whole(t):
    """Every complete generation verifies, and the end of the run is the new incarnation's."""
    t.run("varde", "verify", f"/flash/{t.name}")
    require(t.generations()[0]["incarnation"] == 2, "the newest generation is not the new incarnation's")


@case()
def rebooted(t):
    """A node loses power and is back long before anybody has missed it."""
    train_until_checkpoint(t)
    t.kill("node2")
    t.cluster("start", "node2")
    t.goes_on()


@case(check=True)
def restore(t):
    """A second node dies as soon as the start after the first death has chosen what to restore."""
    train_until_checkpoint(t)
    t.kill("node2")
    t.wait_for("the choice of a generation", lambda: len(t.history("choice")) >= 2, look_s=0.001)
    t.kill("node3")
    # Ranks may have got through before the power is off, and even made a step.
    t.wait_for("the second requeue", lambda: t.requeues() == 2)
    t.goes_on(without=["node2", "node3"], requeues=2)


@case(check=True)
def commit(t):
    """The leader's node dies when the last pack of a generation has been sealed: that one is complete, and restored."""
    t.learn_reference()
    t.submit()
    t.wait_for("a complete checkpoint", t.newest_complete)
    first = t.newest_complete()

    def sealed():
        for name in os.listdir(t.run_path):
            if name.startswith("step-") and int(name[5:17]) > first:
                packs = [one for one in os.listdir(f"{t.run_path}/{name}") if one.endswith(".safetensors")]
                if len(packs) == 2:
                    return int(name[5:17])
        return None
    step = t.wait_for("all packs of the next one", sealed, look_s=0.001)
    t.kill("node1")
    t.goes_on(without=["node1"])
    require(t.output().starts[-1][0] >= step, f"step {step} was sealed on all nodes, and not restored")


@case(yaml="agent: {write_limit: 1M}\n")
def drain(t):
    """A node dies in the middle of its pack: that generation is never offered."""
    t.steps = 300
    t.learn_reference()
    t.submit()
    first = t.wait_for("a complete checkpoint", t.newest_complete)

    def torn():
        for name in os.listdir(t.run_path):
            if name.startswith("step-") and int(name[5:17]) > first:
                if "node-00001-of-00002.safetensors.partial" in os.listdir(f"{t.run_path}/{name}"):
                    return int(name[5:17])
        return None
    step = t.wait_for("a pack that is being written", torn, look_s=0.01)
    t.kill("node2")
    t.goes_on(without=["node2"])
    require(t.output().starts[-1][0] < step, f"step {step} was torn, and restored")


@case(check=True)
def everybody(t):
    """A node dies, and user, administrator and agents ask for a requeue in the same moment: there is one."""
    train_until_checkpoint(t)
    t.kill("node2")
    t.exec("controller", "pkill", "-STOP", "slurmctld")
    asked = [subprocess.Popen([*t.words("run"), "scontrol", "requeue", t.job]),
             subprocess.Popen([*t.words("exec"), "controller", "scontrol", "update", "nodename=node2", "state=down",
                               "reason=administrator"])]
    t.wait_for("the agents to miss the node", lambda: t.history("silent"))
    time.sleep(1)  # the agent's question is on its way, like the others'
    t.exec("controller", "pkill", "-CONT", "slurmctld")
    for one in asked:
        one.wait()
    t.goes_on(without=["node2"])
