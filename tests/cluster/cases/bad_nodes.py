"""Nodes that are no good: left out of the next start, and the administrator is told."""
from trial import case, require


@case(check=True)
def failing_node(t):
    """The ranks of one node fail first, twice: the third start does without it."""
    t.steps = 500
    t.learn_reference()
    crash = ("bash -c 'if [[ $(hostname) == node2 && $SLURM_PROCID == 3 ]]; then exec timeout --signal=KILL 10 \"$@\"; "
             "fi; exec \"$@\"' rank")
    t.submit(prefix=f"--kill-on-bad-exit=1 {crash}")
    t.wait_for("the first failure", lambda: t.history("batch_failed"))
    t.wait_for("the second start", lambda: len(t.history("restored")) >= 2)
    require("node2" in t.nodes(), "one failure is no reason to leave a node out")
    with t.strike():
        t.wait_for("the second failure", lambda: len(t.history("batch_failed")) >= 2)
    t.struck_at = t.history("batch_failed")[1]["last_step_wall_ns"] / 1e9  # the crash comes by itself
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
