"""The cost and gain of merging: bytes and time of an answer that goes up the tree.

    python bench/merge.py [--ranks N ...] [--real N]

Answers of generated ranks in 1, 5, 1,000 and all-different classes go up a tree of aggregators with
128 ranks each and a fan-out of 32, by the code of the aggregators, message by message. The classes
are blocks of ranks or random. The reference is a plain gather: the root gets every rank's text,
decodes it and groups equal texts. A Markdown table is printed:

- in, out: most bytes into one aggregator, and bytes of the root's answer;
- gather: bytes of all texts, and their ratio to the bytes that reach the root;
- busiest, path: time of the slowest aggregator, and of the longest path (the sum of the slowest of
  each level), each as a share of the time that the plain gather takes at the root.

With --real the answers are those of N ranks of tests/programs/ring.c to ``backtrace`` and
``print local``.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec
from jobs import running_job

from pgdb import attach
from pgdb.frontend.show.text import render
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.normalize import normalize_record
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import Backtrace, Reply, Request
from pgdb.overlay.router import Gathering
from pgdb.ranks import RankSet
from pgdb.records import Frame, Record, Stack, Value, Variable

RANKS_PER_AGGREGATOR = 128
FAN_OUT = 32
DEPTH = 12
Part = tuple[tuple[EquivalenceClass[Record], ...], Missing]
"""The answers of one rank, or of one child."""


@dataclass
class Cost:
    """The cost of the way up."""

    most_in_bytes: int = 0
    out_bytes: int = 0
    busiest_s: float = 0.0
    path_s: float = 0.0
    level_s: float = field(default=0.0, repr=False)

    def node(self, in_bytes: int, out_bytes: int, took_s: float) -> None:
        """Count one aggregator."""
        self.most_in_bytes = max(self.most_in_bytes, in_bytes)
        self.out_bytes = out_bytes
        self.busiest_s = max(self.busiest_s, took_s)
        self.level_s = max(self.level_s, took_s)

    def end_level(self) -> None:
        """Add the slowest aggregator of a level to the path."""
        self.path_s += self.level_s
        self.level_s = 0.0


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("--ranks", type=int, nargs="*", default=[65_536, 1_048_576])
    parser.add_argument("--real", type=int, default=0, metavar="N")
    chosen = parser.parse_args()
    print("| ranks | answer | classes | in | out | gather | more | busiest | path |")
    print("|--:|---|---|--:|--:|--:|--:|--:|--:|")
    if chosen.real:
        for name, answers in real_answers(chosen.real):
            report(name, "as they come", answers, ranks_per_aggregator=16, join_arguments=True)
    for count in chosen.ranks:
        # With fewer ranks than classes all ranks differ.
        for classes in sorted({1, min(5, count), min(1_000, count), count}):
            patterns = ("blocks", "random") if 1 < classes < count else ("",)
            for pattern in patterns:
                labels = make_labels(count, classes, pattern)
                kind = f"{classes:,} {pattern}" if classes < count else "all different"
                report("backtrace", kind, [stack_of(label) for label in labels])
                if classes == count:
                    report("print", kind, [Value(text=str(1.5 * label)) for label in labels])


def make_labels(count: int, classes: int, pattern: str) -> list[int]:
    """Return the class of each rank."""
    if pattern == "random":
        chance = random.Random(1)
        return [chance.randrange(classes) for _ in range(count)]
    return [rank * classes // count for rank in range(count)]


def stack_of(label: int) -> Stack:
    """Return a stack whose innermost frame has an argument that identifies the class."""
    return Stack(frames=(frame_of(0, label), *OUTER_FRAMES))


def frame_of(level: int, argument: int) -> Frame:
    """Return a frame with one argument."""
    return Frame(
        level=level,
        function=f"function_{level}",
        arguments=(Variable(name="n", value=str(argument)),),
        file="solver.c",
        line=100 + level,
    )


OUTER_FRAMES = tuple(frame_of(level, level) for level in range(1, DEPTH))


def report(
    name: str,
    kind: str,
    answers: Sequence[Record],
    *,
    ranks_per_aggregator: int = RANKS_PER_AGGREGATOR,
    join_arguments: bool = False,
) -> None:
    """Send *answers*, one for each rank, up both ways, and print a row."""
    cost = climb(answers, ranks_per_aggregator, join_arguments=join_arguments)
    messages = [msgspec.msgpack.encode((rank, text_of(each))) for rank, each in enumerate(answers)]
    gather_bytes = sum(map(len, messages))
    begun = time.perf_counter()
    ranks_of: dict[str, list[int]] = {}
    for message in messages:
        rank, text = msgspec.msgpack.decode(message)
        ranks_of.setdefault(text, []).append(rank)
    for ranks in ranks_of.values():
        RankSet(ranks)
    gather_s = time.perf_counter() - begun
    print(
        f"| {len(answers):,} | {name} | {kind} | {cost.most_in_bytes:,} | {cost.out_bytes:,} "
        f"| {gather_bytes:,} | {gather_bytes / cost.out_bytes:,.0f} "
        f"| {cost.busiest_s / gather_s:.2f} | {cost.path_s / gather_s:.2f} |",
        flush=True,
    )


def text_of(record: Record) -> str:
    """Return a rank's answer as plain text."""
    return render.record(EquivalenceClass(ranks=RankSet([0]), record=record))


def climb(
    answers: Sequence[Record], ranks_per_aggregator: int, *, join_arguments: bool = False
) -> Cost:
    """Send the answers of all ranks up the tree, message by message."""
    cost = Cost()
    messages = []
    for first in range(0, len(answers), ranks_per_aggregator):
        part = answers[first : first + ranks_per_aggregator]
        ranks = RankSet.range(first, first + len(part))
        begun = time.perf_counter()
        message = gather(ranks, normalized(part, first, join_arguments=join_arguments))
        took_s = time.perf_counter() - begun
        in_bytes = sum(len(text_of(each)) for each in part)
        cost.node(in_bytes, len(message), took_s)
        messages.append((ranks, message))
    cost.end_level()
    while len(messages) > 1:
        above = []
        for first in range(0, len(messages), FAN_OUT):
            children = messages[first : first + FAN_OUT]
            ranks = RankSet.union(each for each, _ in children)
            begun = time.perf_counter()
            message = gather(ranks, messages=[data for _, data in children])
            took_s = time.perf_counter() - begun
            cost.node(sum(len(data) for _, data in children), len(message), took_s)
            above.append((ranks, message))
        messages = above
        cost.end_level()
    return cost


def normalized(answers: Sequence[Record], first: int, *, join_arguments: bool) -> Iterator[Part]:
    """Yield the answers of an aggregator's ranks, from rank *first* on."""
    for rank, record in enumerate(answers, first):
        normalized = normalize_record(record, join_arguments=join_arguments)
        said = EquivalenceClass(RankSet([rank]), cast(Record, normalized.record), normalized.slots)
        yield (said,), Missing()


def gather(ranks: RankSet, parts: Iterable[Part] = (), messages: Sequence[bytes] = ()) -> bytes:
    """Merge the answers of own ranks and children at one node; return its message to the parent."""
    request = Request(request_id=1, ranks=ranks, operation=Backtrace(), timeout_s=math.inf)
    gathering = Gathering(request, math.inf)
    for classes, missing in parts:
        gathering.add(classes, missing)
    for data in messages:
        reply = decode(data)
        assert isinstance(reply, Reply)
        gathering.add_graph(reply.graph)
    return encode(gathering.gathered().reply())


def real_answers(count: int) -> Iterator[tuple[str, list[Record]]]:
    """Yield the answers of *count* ranks of a real job to two commands."""
    with running_job(count) as (launcher, _), attach(launcher) as session:
        for answer in (session.backtrace(), session.evaluate("local")):
            said = session.recall(answer, session.set)
            yield answer.command, [said.for_rank(rank) for rank in session.set]


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Formatter of help that keeps the lines of the description as they are."""


if __name__ == "__main__":
    main()
