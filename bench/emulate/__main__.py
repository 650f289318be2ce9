"""The tree of aggregators at scale, over made-up ranks.

    python -m bench.emulate sessions [--ranks N] [--aggregators N] [--fan-out N] [--classes N ...]
    python -m bench.emulate levels [--ranks N ...] [-o FILE]
    python -m bench.emulate barrier [--ranks N ...]

*sessions* runs real sessions over one emulated GDB for each rank and prints the costs of commands.
*levels* runs one real aggregator of each level of a tree with 128 ranks to an aggregator and a
fan-out of 32, with all of its children, and adds up the longest path:

    path = front end + sum over the levels of a node's time with all of its replies

*barrier* measures the addition of a barrier to a stop storm: work of the front end. The aggregators
do the same for both.

CPU time counts, so other work on the machine does not matter. The hosts of a level work at the same
time, so each level counts once. The sum does not include GDB, which *sessions* measures, and the
network. Times are shares of --whole seconds, the target for the whole answer. *blocked* is the
longest time for which an event loop stood still, in units of 50 ms. *busy* is the same without the
time for which the loop waited for a processor, and at most the process's CPU time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence

from bench.emulate import barrier, sessions
from bench.emulate.farm import Plan
from bench.emulate.levels import Level, measure_levels
from bench.emulate.made_up import Case
from pgdb.overlay.own_process import mark_own

WHOLE_S = 1.0
BLOCKED_S = 0.05


def main() -> None:
    """Measure and print."""
    mark_own()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    ways = parser.add_subparsers(dest="way", required=True)
    real = ways.add_parser("sessions")
    real.add_argument("--ranks", type=int, default=4096)
    real.add_argument("--aggregators", type=int, default=32)
    real.add_argument("--fan-out", type=int, default=8)
    real.add_argument("--classes", type=int, nargs="*", default=[5, 1000])
    real.add_argument("--faults", action="store_true", help="one late, one dead, one silent GDB")
    real.add_argument(
        "--delay", type=int, default=0, metavar="MS", help="each GDB's answers take up to so long"
    )
    tree = ways.add_parser("levels")
    tree.add_argument("--ranks", type=int, nargs="*", default=[65_536, 1_048_576])
    tree.add_argument("--only", default="", help="cases whose names begin so")
    tree.add_argument("-o", "--output", metavar="FILE", help="a plot, by Matplotlib")
    front = ways.add_parser("barrier")
    front.add_argument("--ranks", type=int, nargs="*", default=[4096, 65_536])
    for each in (real, tree, front):
        each.add_argument("--whole", type=float, default=WHOLE_S, metavar="SECONDS")
    chosen = parser.parse_args()
    if chosen.way == "sessions":
        runs = [
            sessions.measure(plan, aggregators=chosen.aggregators, fan_out=chosen.fan_out)
            for plan in _plans(
                chosen.ranks, chosen.classes, has_faults=chosen.faults, delay_ms=chosen.delay
            )
        ]
        _print(sessions.report(runs, chosen.whole))
        return
    if chosen.way == "barrier":
        _print(barrier.report([barrier.measure(ranks) for ranks in chosen.ranks], chosen.whole))
        return
    measured = []
    for ranks in chosen.ranks:
        for case in cases(ranks):
            if case.name.startswith(chosen.only):
                measured.append(measure_levels(case))
                _print([f"{ranks:,} ranks, {case.name}: done"], sys.stderr)
    _print(report(measured, chosen.whole))
    if chosen.output:
        plot(measured, chosen.whole, chosen.output)


def cases(ranks: int) -> Iterator[Case]:
    """Yield the measurements for a number of ranks."""
    for command in ("bt", "bt -args"):
        yield Case(command, ranks, 1)
        for classes in (5, 100, 1000):
            yield Case(command, ranks, classes)
            yield Case(command, ranks, classes, is_random=True)
    yield Case("print", ranks, ranks)
    yield Case("info threads", ranks, 100, is_random=True)
    yield Case("stop storm", ranks, 5, is_random=True)
    yield Case("bt", ranks, 5, lacks="late child")
    yield Case("bt", ranks, 5, lacks="dead child")


def report(measured: Iterable[Sequence[Level]], whole_s: float) -> Iterator[str]:
    """Yield a Markdown table, a row for each level and one for each path."""
    yield "| ranks | case | level | in | out | CPU | blocked | busy | peak MB |"
    yield "|--:|---|---|--:|--:|--:|--:|--:|--:|"
    for levels in measured:
        case = levels[0].case
        for each in levels:
            name = "front end" if each.level < 0 else f"{each.level}, {each.children} children"
            yield (
                f"| {case.ranks:,} | {case.name} | {name} | {each.in_bytes:,} "
                f"| {each.out_bytes:,} | {each.cpu_s / whole_s:.3f} "
                f"| {each.blocked_s / BLOCKED_S:.1f} | {each.busy_s / BLOCKED_S:.1f} "
                f"| {each.peak_bytes / 1e6:.0f} |"
            )
        largest = max(each.peak_bytes for each in levels)
        most = max(each.blocked_s for each in levels)
        busiest = max(each.busy_s for each in levels)
        yield (
            f"| {case.ranks:,} | {case.name} | **path** | | "
            f"| **{path_s(levels) / whole_s:.3f}** | {most / BLOCKED_S:.1f} "
            f"| {busiest / BLOCKED_S:.1f} | {largest / 1e6:.0f} |"
        )


def path_s(levels: Sequence[Level]) -> float:
    """Return the time of the longest path."""
    return sum(each.cpu_s for each in levels)


def plot(measured: Sequence[Sequence[Level]], whole_s: float, file: str) -> None:
    """Draw the paths of all cases beside the target."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 0.25 * len(measured)), layout="constrained")
    axes = figure.subplots()
    names = [f"{each[0].case.ranks:,}: {each[0].case.name}" for each in measured]
    for level in sorted({each.level for levels in measured for each in levels}):
        own = [[x.cpu_s for x in levels if x.level == level] for levels in measured]
        below = [sum(x.cpu_s for x in levels if x.level < level) for levels in measured]
        axes.barh(
            names,
            [sum(each) / whole_s for each in own],
            left=[each / whole_s for each in below],
            label="front end" if level < 0 else f"level {level}",
        )
    axes.axvline(1.0, color="black", linestyle="--", label="target")
    axes.set_xlabel("CPU time along the longest path, as a share of the target")
    axes.invert_yaxis()
    axes.legend()
    figure.savefig(file)


def _plans(
    ranks: int, classes: Sequence[int], *, has_faults: bool, delay_ms: int
) -> Iterator[Plan]:
    for count in classes:
        if has_faults:
            yield Plan(
                ranks=ranks,
                classes=count,
                is_random=True,
                delay_ms=delay_ms,
                late=(3,),
                late_ms=2000,
                dying=(5,),
                silent=(ranks // 2,),
            )
        else:
            yield Plan(ranks=ranks, classes=count, is_random=True, delay_ms=delay_ms)


def _print(lines: Iterable[str], file: object = None) -> None:
    stream = sys.stderr if file is sys.stderr else sys.stdout
    for line in lines:
        stream.write(f"{line}\n")
    stream.flush()


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Formatter of help that keeps the lines of the description as they are."""


if __name__ == "__main__":
    main()
