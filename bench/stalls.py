"""Time for which the event loop of an aggregator stands still while its ranks have long answers.

    python bench/stalls.py [--ranks N] [--rounds N]

For each command, to all ranks of one host: the characters of a rank's answer, and in each round the
longest CPU time for which one callback kept the loop's thread busy, as a share of the 50 ms that
are allowed. A Markdown table is printed. The reference is the longest such time of the same loop
without a request.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from jobs import long_job
from measuring import report_autogroup

import pgdb
from pgdb.frontend.startup.sync import Session

ALLOWED_S = 0.05
IDLE_S = 3.0
TIMEOUT_S = 600.0
INSIDE = Path(__file__).resolve().parent / "inside"
LINES = (
    "info functions",
    "info variables",
    "info types",
    "x/200000xb block",
    "p cells",
    "p numbers",
)


def commands(session: Session) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield the name of each command, and a function that returns a rank's characters."""

    def text_of(line: str) -> int:
        answer = session.execute(line)
        return max((len(getattr(each.record, "text", "")) for each in answer.classes), default=0)

    def stops() -> int:
        session.break_at("round_begins")
        for _ in range(20):
            session.continue_()
        session.delete()
        return 0

    def nothing() -> int:
        time.sleep(IDLE_S)  # the length of the measurement
        return 0

    def done(act: Callable[[], object]) -> Callable[[], int]:
        def call() -> int:
            act()
            return 0

        return call

    yield "nothing", nothing
    yield "backtrace", done(session.backtrace)
    yield "tree", done(session.tree)
    for line in LINES:
        yield line, lambda line=line: text_of(line)  # type: ignore[misc]
    yield "array of 8 MB", done(lambda: session.array("numbers"))
    yield "step", done(session.step)
    yield "20 stops", stops


def measure(pid: int, folder: Path) -> Iterator[tuple[str, int, float]]:
    """Yield the name of each command, the characters of a rank, and the longest stall."""
    os.environ |= {"PYTHONPATH": str(INSIDE), "PGDB_BENCH_STALLS": str(folder)}
    with pgdb.attach(pid, timeout_s=TIMEOUT_S) as session:
        for setting in ("max-value-size", "print elements"):
            session.execute(f"set {setting} unlimited")
        for name, act in commands(session):
            for note in folder.iterdir():
                note.unlink()
            characters = act()
            notes = [float(note.read_text(encoding="ascii")) for note in folder.iterdir()]
            yield name, characters, max(notes, default=0.0)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=8, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    given = parser.parse_args()
    report_autogroup()
    stalls: dict[str, list[float]] = {}
    texts: dict[str, int] = {}
    with long_job(given.ranks) as pid, tempfile.TemporaryDirectory(prefix="pgdb-bench-") as folder:
        for _ in range(given.rounds):
            for name, characters, longest_s in measure(pid, Path(folder)):
                texts[name] = characters
                stalls.setdefault(name, []).append(longest_s / ALLOWED_S)
    print(f"{given.ranks} ranks on one host, shares of the time that is allowed\n")
    print("| command | characters of a rank | longest in each round | median | target |")
    print("|---|--:|---|--:|--:|")
    for name, shares in stalls.items():
        rounds = " ".join(f"{share:.2f}" for share in shares)
        print(f"| {name} | {texts[name]:,} | {rounds} | {statistics.median(shares):.2f} | 1 |")


if __name__ == "__main__":
    main()
