"""Nodes that are no good: left out of the next start, and the administrator is told."""
import time

from trial import case, require


def fail_first(t, node, other):
    """Ranks die on one node.  Those of the other stand still meanwhile, so that there is no doubt whose ended first."""
    t.kill_processes(other, "examples/train", "STOP")
    t.kill_processes(node, "examples/train")
    t.wait_for("the end of its ranks", lambda: not t.exec(node, "pgrep", "-f", "[e]xamples/train", check=False))
    time.sleep(1)
    t.kill_processes(other, "examples/train", "CONT")


@case(check=True)
def failing_node(t):
    """The ranks of one node fail first, twice: the third start does without it."""
    t.steps = 500
    t.learn_reference()
    t.submit()
    t.wait_for_checkpoint()
    fail_first(t, "node2", "node1")
    t.wait_for("the second start", lambda: len(t.history("restored")) >= 2)
    require("node2" in t.nodes(), "one failure is no reason to leave a node out")
    t.wait_for("a checkpoint of its own", lambda: any(one["incarnation"] == 2 and one["status"] == "complete"
                                                       for one in t.generations()))
    with t.strike():
        fail_first(t, "node2", "node1")
    t.wait_for("the second failure", lambda: len(t.history("batch_failed")) >= 2)
    hosts = [event["first_host"] for event in t.history("batch_failed")]
    require(hosts == ["node2", "node2"], f"ranks failed first on {hosts}, say the agents")
    t.goes_on(without=["node2"], requeues=2)
    shown = t.scontrol("show", "node", "node2")
    require("State=DOWN" not in shown, "a node is DOWN on the word of a user's process")
    require("ranks fail first" in shown, "the administrator is not told")


@case(check=True)
def whole_cluster(t):
    """The job needs every node, one dies and comes back: it waits for that one, and is not held for ever."""
    train_on_all(t)
    t.kill("node2")
    t.wait_for("the job to wait", lambda: t.field("JobState") == "PENDING" and t.field("StartTime") != "Unknown")
    t.wait_for("the hook to have set node2 DOWN", lambda: "State=DOWN" in t.scontrol("show", "node", "node2"))
    t.cluster("start", "node2")
    t.goes_on()


@case()
def dead_spare(t):
    """An idle node has died unseen before: the job that starts there is not left waiting for it."""
    t.learn_reference()
    t.submit()
    t.wait_for_checkpoint()
    t.cluster("kill", "node3")
    t.kill("node2")
    t.goes_on(without=["node2", "node3"], requeues=2)


def train_on_all(t):
    t.learn_reference(4)
    t.submit(nodes=4)
    t.wait_for_checkpoint()
