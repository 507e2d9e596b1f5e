"""Training that stands still though all its nodes live: found, told with who stopped first, and requeued; and what only
looks like it."""
import time

from trial import case, require


@case(check=True)
def hang(t):
    """One rank is stopped: the job is requeued, and the history, a file and the output say which rank it was."""
    t.learn_reference()
    t.submit("--ckpt-hang-timeout=10s")
    t.wait_for_checkpoint()
    pid = t.exec("node2", "pgrep", "-f", "examples/train").split()[0]
    environment = t.exec("node2", "cat", f"/proc/{pid}/environ").split("\0")
    rank = next(one.split("=")[1] for one in environment if one.startswith("SLURM_PROCID="))
    with t.strike():
        t.exec("node2", "kill", "-STOP", pid)
    t.goes_on()
    told = t.history("hang")
    require(len(told) == 1, f"the history tells of {len(told)} hangs, not 1")
    require((told[0]["cause"], told[0]["host"], told[0]["rank"]) == ("hang", "node2", rank),
            f"the history blames rank {told[0]['rank']} on {told[0]['host']}, not rank {rank} on node2")
    with open(f"{t.run_path}/{told[0]['trace']}", encoding="utf-8") as file:
        trace = file.read()
    require(f"rank {rank} (pid {pid}, step " in trace and "is stopped by a signal" in trace,
            f"'{told[0]['trace']}' does not tell of rank {rank}")
    require("system call " in trace, f"'{told[0]['trace']}' does not tell what its threads are at")
    require(len(t.history("requeued")) == 1, "there was not one requeue of ours")


@case()
def suspended(t):
    """The job is suspended for longer than the time-out, and goes on: no hang."""
    t.learn_reference()
    t.submit("--ckpt-hang-timeout=5s")
    t.wait_for_checkpoint()
    t.scontrol("suspend", t.job)
    time.sleep(15)
    t.scontrol("resume", t.job)
    t.wait_for_end()
    require(t.requeues() == 0 and not t.history("hang"), "the suspension passes for a hang")
