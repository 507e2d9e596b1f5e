"""Trainings that fail of themselves: which are started again, which are not, and that the user is told why."""
from trial import case, require

endless = 100000  # steps: a training that is ended before it ends


def require_told(t, reason):
    """Where people look: the job's comment, and its output."""
    require(reason in t.comment(), f"the comment '{t.comment()}' does not say '{reason}'")
    require("varde: " in t.output().text and reason in t.output().text, f"the job's output does not say '{reason}'")


@case(check=True)
def final_exit(t):
    """A batch script ends with an exit code that is final: no requeue, and the reason is told."""
    t.steps = endless
    t.submit("--ckpt-final-exits=2,64-78", script=["srun timeout --signal=KILL 10 {train}", "exit 70"])
    t.wait_for_end("FAILED")
    require(t.newest_complete() > 0, "there is no checkpoint, so it would not have been requeued anyway")
    require(t.requeues() == 0, "the job was requeued")
    require_told(t, "exit code 70 is final")


@case(check=True)
def no_progress(t):
    """A batch script that fails again and again, and once without a new generation: that ends the loop."""
    t.steps = endless
    t.submit(script=["if ((${{SLURM_RESTART_COUNT:-0}} < 2)); then srun timeout --signal=KILL 10 {train}; else",
                     "srun timeout --signal=KILL 1 {train}; fi", "exit 3"])
    t.wait_for_end("FAILED")
    require(t.requeues() == 2, f"{t.requeues()} requeues, not 2")
    require("varde: exit code 3, requeued" in t.output().text, "the output does not tell of the requeues")
    require_told(t, "no new generation since the last start")


@case()
def budget(t):
    """A batch script that fails again and again, and gets on each time: the budget ends the loop."""
    t.steps = endless
    t.submit("--ckpt-max-restarts=1", script=["srun timeout --signal=KILL 10 {train}", "exit 3"])
    t.wait_for_end("FAILED")
    require(t.requeues() == 1, f"{t.requeues()} requeues, not 1")
    require_told(t, "the budget of 1 restarts is used up")


@case(check=True)
def cancelled(t):
    """The user cancels the job: never requeued, and nothing calls it a failure."""
    t.submit()
    t.wait_for_checkpoint()
    t.run("scancel", t.job)
    t.wait_for_end("CANCELLED")
    require(t.requeues() == 0, "the job was requeued")
    require(not t.history("batch_failed", "requeued", "silent"), "the cancellation passes for a failure")
    require("requeued" not in t.output().text, "the job's output speaks of a requeue")


@case()
def success(t):
    """The training has ended well, and then a node dies under the batch script: never requeued."""
    t.learn_reference()
    t.submit(script=["srun {train}", "sleep 5"])
    t.wait_for("the final weights", t.is_identical)
    t.cluster("kill", "node2")
    # Slurm has still to give up the node.
    t.wait_for("the end of the script", lambda: t.field("JobState") in ("COMPLETING", "COMPLETED"))
    require(t.requeues() == 0 and not t.history("requeued"), "the job was requeued")
