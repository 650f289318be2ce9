"""Time of a job under ``pgdb run``, as a ratio to the time without it.

Pairs of runs alternate, with and without, so that a change of the machine's load meets both. Two
programs: one computes, one exchanges messages all the time. The program itself measures the time
between two barriers; the start of the job is not in it.

    python bench/run_ratio.py [--pairs 10] [--ranks 2] [--hang-after 300s]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).parent / "programs" / "work.c"
LIMIT = 1.01


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
        for kind, steps in (("compute", 40), ("exchange", 400_000)):
            line = [launcher, "-n", str(given.ranks), str(program), kind]
            line.append(str(given.steps or steps))
            watched = [sys.executable, "-m", "pgdb", "run", "--hang-after", given.hang_after, "--"]
            ratios = []
            for number in range(given.pairs):
                # The first of a pair may meet a colder machine.
                pair = (line, [*watched, *line])
                order = pair if number % 2 else pair[::-1]
                times = {len(each): seconds(each) for each in order}
                ratios.append(times[len(pair[1])] / times[len(pair[0])])
                print(f"{kind}: {times[len(pair[0])]:.3f} s, ratio {ratios[-1]:.4f}", flush=True)
            median = statistics.median(ratios)
            verdict = "within" if median <= LIMIT else "above"
            print(f"{kind}: median ratio {median:.4f} of {len(ratios)} pairs, {verdict} {LIMIT}")


def seconds(line: Sequence[str]) -> float:
    """Run a job; return the time that it has measured."""
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True
    )
    found = re.search(r"worked for ([\d.]+) s", done.stdout)
    assert found, done.stdout
    return float(found[1])


if __name__ == "__main__":
    main()
