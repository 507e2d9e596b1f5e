"""Steps that `varde run` starts again in their allocation: four nodes, of which three train."""
import re

from trial import case, require

step = "varde run -- srun --kill-on-bad-exit=1 --nodes=3 --ntasks=4 {train}"


def train_with_a_spare(t):
    t.learn_reference(nodes=3)
    t.submit("--exclusive", "--no-kill", nodes=4, script=[step])
    t.wait_for_checkpoint()


def goes_on_in_place(t):
    """Slurm ends the job when it has given up the dead node, minutes later; the training has long ended."""
    t.wait_for_restart()
    t.wait_for("the final weights", t.is_identical)
    require(t.history("restarted_in_place"), "the step was not started again in place")
    require(t.requeues() == 0, f"{t.requeues()} requeues of a step that is started again in place")


def kill_ranks(t, node):
    t.kill_processes(node, "^/opt.*examples/train")  # not srun, nor varde run


def sources(t):
    """Of each node's newest load: from memory and from storage, in bytes as the log prints them."""
    found = []
    for index in range(3):
        with open(f"{t.run_path}/log/node-{index:05}.log", encoding="utf-8") as log:
            found.append(re.findall(r"loaded: (.+) from this node's memory, (.+) from storage", log.read())[-1])
    return found


@case(goal_s=45)  # 44-in-place.bats is what `make check` has of it
def in_place(t):
    """A node loses power: a spare takes its ranks, all others restore from memory, and nothing is requeued."""
    train_with_a_spare(t)
    t.kill("node2")
    goes_on_in_place(t)
    # Slurm counts the nodes anew: node 2 is the spare now.
    loads = sources(t)
    require([storage for _, storage in loads[:2]] == ["0 B", "0 B"], f"survivors have read from storage: {loads}")
    require(loads[2][0] == "0 B", f"the spare has loaded from memory: {loads}")


@case(goal_s=45)
def in_place_ranks(t):
    """A rank crashes: the same nodes again, all from memory."""
    train_with_a_spare(t)
    with t.strike():
        kill_ranks(t, "node2")
    goes_on_in_place(t)
    loads = sources(t)
    require([storage for _, storage in loads] == ["0 B"] * 3, f"nodes have read from storage: {loads}")


@case(goal_s=45)
def in_place_node_and_ranks(t):
    """A node loses power, and the other ranks fail of it at once: before anybody is silent."""
    train_with_a_spare(t)
    t.kill("node2")
    kill_ranks(t, "node1")
    goes_on_in_place(t)


@case(up=("--nodes", "6"))
def in_place_used_up(t):
    """Two of four nodes lose power, where three are needed: the agents requeue the job."""
    train_with_a_spare(t)
    t.kill("node2", "node3")
    t.goes_on(without=["node2", "node3"])


@case(up=("--nodes", "6"))
def in_place_batch_host(t):
    """The batch host loses power, and `varde run` with it: the agents requeue the job."""
    train_with_a_spare(t)
    t.kill("node1")
    t.goes_on(without=["node1"])
