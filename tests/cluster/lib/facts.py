#!/usr/bin/env python3
"""What a run's own files say of a failure: the events of history.jsonl, and the lines of the training's output.

As a program it is for scripts: `facts.py phases HISTORY KILLED_AT FIRST_STEP_AT` prints where the time from a kill to
the first repeated step went, in one line.
"""
import json
import re
import sys
from datetime import datetime

# Each phase of a restart ends with the first such event after the phase before it; the last one, first_step, with a
# line of the job's output.  What detects is any event with a cause (lib/store/HISTORY.md).
phase_ends = (("detect", lambda event: "cause" in event),
              ("requeue", lambda event: event["event"] in ("requeued", "restarted_in_place")),
              ("schedule", lambda event: event["event"] == "choice"),
              ("load", lambda event: event["event"] == "restored"))


def read_history(path):
    """All events, oldest first.  A line that is being written just now is left out."""
    events = []
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):
                    events.append(json.loads(line))
    except FileNotFoundError:
        pass
    return events


def phases(events, struck_at, first_step_at):
    """{"detect_s": seconds or None, ...}: None where no event ends the phase, whose time then is in the next one."""
    found, before = {}, struck_at
    for phase, is_end in phase_ends:
        ends = [event["wall_ns"] / 1e9 for event in events
                if is_end(event) and before <= event["wall_ns"] / 1e9 <= (first_step_at or float("inf"))]
        found[f"{phase}_s"] = round(min(ends) - before, 1) if ends else None
        before = min(ends, default=before)
    found["first_step_s"] = round(first_step_at - before, 1) if first_step_at else None
    return found


class output:
    """The output of the example's training: one "starting at step N" per start, then "step N loss X at TIME"."""

    def __init__(self, path):
        self.starts = []  # of each start: the step that it begins after, and its (step, seconds since 1970)
        try:
            with open(path, encoding="utf-8", errors="replace") as lines:
                self.text = lines.read()
        except FileNotFoundError:
            self.text = ""
        for line in self.text.splitlines():
            begun = re.match(r"starting at step (\d+)$", line)
            step = re.match(r"step (\d+) loss \S+ at (\S+Z)$", line)
            if begun:
                self.starts.append((int(begun[1]), []))
            elif step and self.starts:
                self.starts[-1][1].append((int(step[1]), datetime.fromisoformat(step[2][:-1] + "+00:00").timestamp()))

    def newest_step(self):
        return max((step for _, steps in self.starts for step, _ in steps), default=0)


def main(arguments):
    if len(arguments) != 4 or arguments[0] != "phases":
        sys.exit("usage: facts.py phases HISTORY KILLED_AT FIRST_STEP_AT")
    found = phases(read_history(arguments[1]), float(arguments[2]), float(arguments[3]))
    print(", ".join(f"{name[:-2].replace('_', ' ')} {seconds} s" for name, seconds in found.items()
                    if seconds is not None))


if __name__ == "__main__":
    main(sys.argv[1:])
