"""Time of a job under ``pgdb run``, as a ratio to the time without it.

Pairs of runs alternate, with and without, so that a change of the machine's load meets both. Two
programs: one computes, one exchanges messages all the time. The program itself measures the time
between two barriers; the start of the job is not in it.

Other work on the machine changes the times of single runs by several percent. So each run also
shows the CPU time of ``pgdb run`` itself, after its start, as a share of one core. Other work
changes that little.

    python bench/run_ratio.py [--pairs 10] [--ranks 2] [--hang-after 300s]
"""

from __future__ import annotations

import argparse
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import cpu_s

SOURCE = Path(__file__).parent / "programs" / "work.c"
LIMIT = 1.01
START_S = 2.0
"""After it, ``pgdb run`` has started."""


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--steps", type=int, default=0, help="0: as many as take some seconds")
    parser.add_argument("--hang-after", default="300s")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--mpicc", default="mpicc")
    given = parser.parse_args()
    launcher = shutil.which(given.mpirun) or sys.exit(f"there is no {given.mpirun}")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "work"
        subprocess.run([given.mpicc, "-O2", "-o", program, SOURCE], check=True)
        for kind, steps in (("compute", 60), ("exchange", 6_000_000)):
            line = [launcher, "-n", str(given.ranks), str(program), kind]
            line.append(str(given.steps or steps))
            watched = [sys.executable, "-m", "pgdb", "run", "--hang-after", given.hang_after, "--"]
            ratios, shares = [], []
            for number in range(given.pairs):
                # The first of a pair may meet a colder machine.
                pair = (line, [*watched, *line])
                order = pair if number % 2 else pair[::-1]
                runs = {len(each): run(each) for each in order}
                alone, under = runs[len(pair[0])], runs[len(pair[1])]
                ratios.append(under.worked_s / alone.worked_s)
                shares.append(under.share)
                print(
                    f"{kind}: {alone.worked_s:.3f} s, ratio {ratios[-1]:.4f}, "
                    f"share of a core {shares[-1]:.5f}",
                    flush=True,
                )
            median = statistics.median(ratios)
            verdict = "within" if median <= LIMIT else "above"
            print(
                f"{kind}: median ratio {median:.4f} of {len(ratios)} pairs, {verdict} {LIMIT}; "
                f"median share of a core {statistics.median(shares):.5f}"
            )


@dataclass(frozen=True)
class Run:
    """One run of the job."""

    worked_s: float
    """Time between the two barriers, as the job has measured it."""
    share: float
    """CPU time of the process that was started, after its first seconds, over the time since."""


def run(line: Sequence[str]) -> Run:
    """Run a job to its end."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output)
        # Readable from the end of the process on, which keeps its times until it is waited for.
        end = os.pidfd_open(process.pid)
        try:
            has_ended, _, _ = select.select([end], [], [], START_S)
            begun = time.monotonic(), cpu_s([process.pid])
            select.select([end], [], [])
            ended = time.monotonic(), cpu_s([process.pid])
        finally:
            os.close(end)
        if process.wait():
            sys.exit(f"{line} ended with status {process.returncode}")
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    found = re.search(r"worked for ([\d.]+) s", text)
    assert found, text
    if has_ended:
        sys.exit(f"the job took less than {START_S:g} s, the time of a start: give more --steps")
    return Run(float(found[1]), (ended[1] - begun[1]) / (ended[0] - begun[0]))


if __name__ == "__main__":
    main()
