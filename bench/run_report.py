"""Time from the crash of a rank to the report of ``pgdb run``, as a ratio to the time of the job.

The job is one that ends at once, without a crash and without PGDB: its time is that of a start and
an end of all ranks on this machine, which other work makes longer in the same way.

    python bench/run_report.py [--ranks 32] [--rounds 5]

``python -m bench.emulate sessions`` has the row *report* for thousands of emulated ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).parent / "programs" / "dies.c"


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mpirun", default="mpirun --oversubscribe")
    parser.add_argument("--mpicc", default="mpicc")
    given = parser.parse_args()
    launcher, *options = given.mpirun.split()
    launcher = shutil.which(launcher) or sys.exit(f"there is no {launcher}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "dies"
        subprocess.run([given.mpicc, "-g", "-O2", "-o", program, SOURCE], check=True)
        line = [launcher, *options, "-n", str(given.ranks), str(program)]
        ratios = []
        for _ in range(given.rounds):
            plain_s = seconds(line, folder)
            report_s, shown = report_seconds([*line, "die"], folder)
            ratios.append(report_s / plain_s)
            print(f"report after {ratios[-1]:.2f} of a job's time, stacks of {shown} ranks")
        print(f"{given.ranks} ranks: median ratio {statistics.median(ratios):.2f}")


def seconds(line: Sequence[str], folder: Path) -> float:
    """Return the time of a job that ends well."""
    begun_s = time.monotonic()
    subprocess.run(line, cwd=folder, stdin=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun_s


def report_seconds(line: Sequence[str], folder: Path) -> tuple[float, int]:
    """Return the time from the crash to the file of the report, and the ranks with a stack."""
    path = folder / "report.json"
    path.unlink(missing_ok=True)
    words = [sys.executable, "-m", "pgdb", "run", "--quiet", "--no-cores", "-o", str(path), "--"]
    subprocess.run([*words, *line], cwd=folder, stdin=subprocess.DEVNULL, check=False)
    report = json.loads(path.read_bytes())
    died = next(
        each["time"] for each in report["timeline"] if each["kind"] == "exit" and "is_error" in each
    )
    shown = sum(each["count"] for each in report["classes"])
    return os.stat(path).st_mtime - died, shown


if __name__ == "__main__":
    main()
