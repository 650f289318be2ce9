"""The costs for which PGDB has targets, each beside a plain way to do the same.

    python bench/targets.py [ROW ...] [--ranks N] [--rounds N] [--plot FILE.png]

Every row is measured on this machine in rounds; in each round PGDB and its reference take turns.
The median of the ratios of all rounds counts. A Markdown table is printed, row by row as they are
measured; --plot draws the ratios beside their targets.

Rows (all, if none is named), with the ranks they are measured with:
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import Row, report_autogroup
from rows import answers, attaching, explaining, idle, memory, starting, stops

ROUNDS = 3


Measure = Callable[[int, int, Sequence[str]], list[Row]]
"""Function that measures with a number of ranks, a number of rounds, and the wanted rows."""


@dataclass(frozen=True)
class Choice:
    """A row that can be chosen."""

    measure: Measure
    ranks: tuple[int, ...]
    """Numbers of ranks that it is measured with."""
    about: str


CHOICES = {
    "attach": Choice(attaching.measure, attaching.RANKS, "pgdb attach to the merged backtrace"),
    "memory": Choice(memory.measure, (memory.RANKS,), "of all GDBs and aggregators"),
    "bt": Choice(answers.measure, (answers.RANKS,), "a backtrace, command to merged answer"),
    "first": Choice(answers.measure, (answers.RANKS,), "the same, all ranks having made a step"),
    "values": Choice(
        answers.measure, (answers.RANKS,), "what the reference of bt takes with values"
    ),
    "step": Choice(answers.measure, (answers.RANKS,), "a step of all ranks, likewise"),
    "storm": Choice(answers.measure, (answers.RANKS,), "a stop of all at a breakpoint, likewise"),
    "barrier": Choice(answers.measure, (answers.RANKS,), "a barrier that all ranks reach at once"),
    "stops": Choice(stops.measure, (stops.RANKS,), "CPU of stops that a condition turns down"),
    "why": Choice(explaining.measure, (explaining.RANKS,), "an explanation, at the front end"),
    "idle": Choice(idle.measure, (idle.RANKS,), "CPU of an idle session, slowdown of the job"),
    "start": Choice(starting.measure, (starting.RANKS,), "of aggregators, launch to ready"),
}


def main() -> None:
    """Measure, print the table and draw the plot."""
    described = [
        f"  {name:8} {', '.join(map(str, each.ranks)):8} {each.about}"
        for name, each in CHOICES.items()
    ]
    parser = argparse.ArgumentParser(
        description="\n".join([(__doc__ or "").strip(), *described]), formatter_class=_Raw
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="what to measure")
    parser.add_argument("--ranks", type=int, metavar="N", help="in place of each row's own number")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    given = parser.parse_args()
    if unknown := set(given.rows) - CHOICES.keys():
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(CHOICES)}")
    if given.rounds < 1 or (given.ranks is not None and given.ranks < 1):
        parser.error("N must be at least 1")
    if given.plot is not None and (why := why_not_drawn(given.plot)):
        parser.error(f"--plot {given.plot}: {why}")
    # Ended by `timeout`, for example, it must end its job and its session as well.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    report_autogroup()
    print(f"{os.cpu_count()} cores, {given.rounds} rounds\n")
    print("| what | beside | rounds | median | target | met |")
    print("|---|---|---|--:|--:|---|", flush=True)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="pgdb-bench-") as folder:
        keep_byte_code(folder)
        for row in measured(given.rows or list(CHOICES), given.ranks, given.rounds):
            print(line(row), flush=True)
            rows.append(row)
    notes = [f"- {row.name}: {row.note}" for row in rows if row.note]
    print("\n".join(["", *notes]) if notes else "")
    if given.plot is not None:
        draw(rows, given.plot)


def why_not_drawn(path: Path) -> str:
    """Return why a plot could not be written, empty if it can: the rows take an hour."""
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    if importlib.util.find_spec("matplotlib") is None:
        return "Matplotlib is not there (pip install '.[plots]')"
    return ""


def keep_byte_code(folder: str) -> None:
    """Give every interpreter compiled modules, as in an installation.

    A checkout, or PYTHONDONTWRITEBYTECODE, would compile them again at each start.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = folder
    backend = "pgdb.backend.__main__, pgdb.backend.node.daemon, pgdb.backend.node.serving"
    modules = f"pgdb.frontend.ui.batch, pgdb.frontend.ui.main, {backend}"
    subprocess.run([sys.executable, "-c", f"import {modules}"], check=True)
    subprocess.run(
        [sys.executable, "-c", "from pgdb.overlay.credentials import *; make_credentials()"],
        check=True,
    )


def measured(names: Sequence[str], ranks: int | None, rounds: int) -> Iterator[Row]:
    """Yield the named rows; adjacent rows of one module share their jobs."""
    for measure, group in itertools.groupby(names, lambda name: CHOICES[name].measure):
        wanted = list(group)
        for count in (ranks,) if ranks is not None else CHOICES[wanted[0]].ranks:
            yield from measure(count, rounds, wanted)


def line(row: Row) -> str:
    """Return a line of the table."""
    rounds = ", ".join(f"{value:.3g}" for value in row.values)
    met = "yes" if row.is_met else "no"
    return (
        f"| {row.name} | {row.reference} | {rounds} | {row.median:.3g} | {row.target:.3g} | {met} |"
    )


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw every row's rounds, their median and the target, as shares of the target."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.45 * len(rows)), layout="constrained")
    for place, row in enumerate(rows):
        shares = [value / row.target for value in row.values]
        axes.barh(place, row.median / row.target, height=0.55, color="C2" if row.is_met else "C1")
        axes.plot(shares, [place] * len(shares), "k|", markersize=10)
        axes.annotate(
            f"{row.median:.3g} of {row.target:.3g}",
            (max(shares), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    axes.axvline(1.0, color="k", linestyle="--", linewidth=1)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlim(left=0)
    axes.set_xlabel("share of the target (bar: median; ticks: rounds; dashed: target)")
    figure.savefig(path)


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Formatter of help that keeps the lines of the description as they are."""


if __name__ == "__main__":
    sys.exit(main())
