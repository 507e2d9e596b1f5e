"""One case of tests/cluster/recovery under way: its cluster, its training job, and what can be seen of both.

A case is a function with the decorator @case that takes a `trial`; tests/cluster/README.md says how one is added.
"""
import json
import os
import re
import subprocess
import time
from contextlib import contextmanager

import facts

tool = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster")
examples = "/opt/varde/share/varde/examples"
cases = {}


class failed(Exception):
    """What must hold does not."""


def case(**about):
    """Registers a function as the case of its name.  check: `make check` runs it.  up: more options of `cluster up`.
    yaml: varde.yaml, which is empty else, because what is measured are the default settings.  goal_s: from the strike
    to the first new step; it counts where people ask for it (`recovery --goals`), never in a test."""
    def register(function):
        function.about = {"check": False, "up": (), "yaml": "", "goal_s": None, **about}
        cases[function.__name__.replace("_", "-")] = function
        return function
    return register


class trial:
    rows, steps, step_ms = 60000, 200, 70

    def __init__(self, name, directory, stage):
        self.name, self.directory, self.stage = name, directory, stage
        self.home, self.flash = f"{directory}/home/varde", f"{directory}/flash"
        self.run_path = f"{self.flash}/{name}"
        self.output_path = f"{self.home}/{name}.out"
        self.job, self.reference, self.struck_at, self.struck_step = None, None, None, 0
        self.struck_starts = 0

    # ---- The cluster

    def words(self, *words):
        """The command line of a verb of the cluster tool."""
        return [tool, "--dir", self.directory, *words]

    def cluster(self, *words, check=True):
        """Runs a verb of the cluster tool, and gives what it printed."""
        done = subprocess.run(self.words(*words), stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, check=False, errors="replace")
        if check and done.returncode != 0:
            raise failed(f"'cluster {' '.join(words)}' failed: {(done.stderr or done.stdout).strip()[-400:]}")
        return done.stdout

    def run(self, *words, check=True):
        """A command on the controller as the job's user."""
        return self.cluster("run", *words, check=check)

    def exec(self, machine, *words, check=True):
        """A command as root in a node, or in the controller."""
        return self.cluster("exec", machine, *words, check=check)

    def scontrol(self, *words, check=True):
        """As the administrator."""
        return self.exec("controller", "scontrol", *words, check=check)

    def kill_processes(self, node, pattern, signal="KILL"):
        """Signals all processes of the node whose command line holds the pattern; there must be one."""
        self.exec(node, "pkill", f"-{signal}", "-f", pattern)

    # ---- The job

    def submit(self, *options, nodes=2, prefix="", script=None, train=""):
        """A training of 4 ranks with a checkpoint every 3 s.  options: of sbatch.  prefix: before the program of each
        rank, after `srun`.  script: the batch script's lines in the place of that srun; {train} is the program."""
        train = (f"{examples}/train --rows {self.rows} --steps {self.steps} --step-ms {self.step_ms} --print-every 1"
                 f" --result {self.name}.result {train}")
        lines = [f"srun {prefix} {train}"] if script is None else [line.format(train=train) for line in script]
        with open(f"{self.home}/{self.name}.sbatch", "w", encoding="utf-8") as file:
            file.write("\n".join(["#!/bin/bash", *lines]) + "\n")
        self.job = self.run(
            "sbatch", "--parsable", f"--nodes={nodes}", *self.ranks(nodes), f"--job-name={self.name}",
            f"--output={self.name}.out", "--ckpt-interval=3s", "--ckpt-dir=/flash", f"--ckpt-name={self.name}",
            "--ckpt-memory=128M", *options, f"{self.name}.sbatch").strip()

    @staticmethod
    def ranks(nodes):
        """Four, as evenly as the nodes allow."""
        return ["--ntasks=4", *([f"--ntasks-per-node={4 // nodes}"] if 4 % nodes == 0 else [])]

    def learn_reference(self, nodes=2):
        """The final weights of the same training, undisturbed."""
        self.run("srun", f"--nodes={nodes}", *self.ranks(nodes), f"{examples}/train", "--no-checkpoint",
                 "--rows", str(self.rows), "--steps", str(self.steps), "--result", "reference")
        with open(f"{self.home}/reference", encoding="utf-8") as file:
            self.reference = file.read()

    # ---- What can be seen

    def output(self):
        return facts.output(self.output_path)

    def history(self, *names):
        """Events of the run, of these names if any are given."""
        events = facts.read_history(f"{self.run_path}/history.jsonl")
        return [event for event in events if not names or event["event"] in names]

    def field(self, name):
        """Of `scontrol show job`; "" where Slurm knows nothing of it."""
        shown = self.run("scontrol", "show", "job", "-o", self.job, check=False)
        found = re.search(rf"(?:^| ){name}=(\S*)", shown)
        return found[1] if found else ""

    def comment(self):
        return self.run("squeue", "--noheader", "--states=all", f"--jobs={self.job}", "--format=%k").strip()

    def nodes(self):
        return self.run("scontrol", "show", "hostnames", self.field("NodeList")).split()

    def requeues(self):
        return int(self.field("Restarts") or 0)

    def generations(self):
        """Those that `varde ls` shows, newest first: {"step": .., "incarnation": .., "status": ..}."""
        shown = self.run("varde", "ls", "--json", f"/flash/{self.name}", check=False)
        try:
            found = [one for run in json.loads(shown)["runs"] for one in run["generations"]]
        except (json.JSONDecodeError, KeyError):
            return []
        return sorted(found, key=lambda one: one["step"], reverse=True)

    def newest_complete(self):
        return max((one["step"] for one in self.generations() if one["status"] == "complete"), default=0)

    # ---- Waiting.  The ends are generous: they only guard against a hang.

    def wait_for(self, what, condition, seconds=150, look_s=0.2):
        until = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > until:
                raise failed(f"couldn't see {what}: gave up after {seconds} s")
            time.sleep(look_s)
        return found

    def wait_for_checkpoint(self):
        """A generation is complete, and training some steps further: steps that will have to be repeated."""
        def ready():
            complete = self.newest_complete()
            return complete and self.output().newest_step() >= complete + 5
        self.wait_for("a complete checkpoint and more steps", ready)

    def wait_for_restart(self, seconds=150):
        """The first step of a start after the strike; it began at a checkpoint."""
        def stepped():
            starts = self.output().starts[self.struck_starts:]
            return starts and starts[-1][1]
        self.wait_for("a step after the restart", stepped, seconds)
        require(self.output().starts[-1][0] > 0, "the training began anew, not at a checkpoint")

    def wait_for_end(self, state="COMPLETED"):
        ended = r"COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|DEADLINE|BOOT_FAIL"
        found = self.wait_for("the end of the job", lambda: re.fullmatch(ended, self.field("JobState")))[0]
        require(found == state, f"the job ended {found}, not {state}")

    def goes_on(self, without=(), requeues=1):
        """From the strike to the end of the job: it continued, on other nodes, after one requeue."""
        self.wait_for_restart()
        there = set(self.nodes()) & set(without)
        require(not there, f"the job runs on {', '.join(there)}")
        self.wait_for_end()
        require(self.requeues() == requeues, f"{self.requeues()} requeues, not {requeues}")

    # ---- Acting

    @contextmanager
    def strike(self):
        """Around what is done to the job: its seconds, and the steps to be repeated, count from here."""
        output = self.output()
        self.struck_at, self.struck_step = time.time(), output.newest_step()
        self.struck_starts = len(output.starts)
        yield

    def kill(self, *names):
        """Power cuts, all at once."""
        with self.strike():
            for cut in [subprocess.Popen(self.words("kill", name)) for name in names]:
                require(cut.wait() == 0, f"'cluster kill' of {', '.join(names)} failed")

    def measure(self):
        """The case's JSON line, of the strike and what followed it."""
        with_steps = [(after, steps) for after, steps in self.output().starts[self.struck_starts:] if steps]
        from_step, steps = with_steps[0] if with_steps and self.struck_at else (None, None)
        seconds = facts.phases(self.history(), self.struck_at or 0, steps[0][1] if steps else None)
        if steps is None:
            seconds = dict.fromkeys(seconds)
        # A batch host takes the last lines of the output with it; what the agents saw of the training is in the events.
        seen = [event["step"] for event in self.history()
                if "cause" in event and event["wall_ns"] / 1e9 >= (self.struck_at or 0)]
        reached = max([self.struck_step, *seen[:1]])
        return {"case": self.name, **seconds,
                "steps_repeated": None if steps is None else max(0, reached - from_step),
                "requeues": self.requeues() if self.job else None, "identical": self.is_identical()}

    def is_identical(self):
        """None: this case lets no training end."""
        try:
            with open(f"{self.home}/{self.name}.result", encoding="utf-8") as file:
                return file.read() == self.reference
        except FileNotFoundError:
            return None


def require(condition, otherwise):
    if not condition:
        raise failed(otherwise)
