"""Samples of the stacks of a running job: interrupt ranks, list stacks, continue ranks.

At the end the job is as before: running ranks run and stopped ranks are stopped, also after
cancellation. A rank that stops on its own meanwhile (a breakpoint, a signal) stays stopped.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.call_paths import TreeBy
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.api.notifications import was_interrupted
from pgdb.frontend.store.script_calls import call_text, view_text
from pgdb.frontend.system import deadline, durations
from pgdb.frontend.system.shielding import to_its_end
from pgdb.merge.classes import Missing
from pgdb.overlay.messages import AnyOperation, Backtrace, Interrupt
from pgdb.ranks import RankSet
from pgdb.records import Stop, is_error

if TYPE_CHECKING:
    from pgdb.frontend.api.passing import Passing
    from pgdb.frontend.api.session import Session

Found = TypeVar("Found")

MOST_SAMPLES = 10_000
GO_ON_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 10.0


class Samples(msgspec.Struct, frozen=True):
    """The stacks of one or several samples."""

    tree: CallTree
    answer: Answer
    """Last answer with stacks."""
    ended_early: bool = False
    """Whether there are fewer samples than requested."""
    is_over: bool = False
    """Whether the time limit ended the sampling; otherwise all ranks had stopped on their own."""


async def take(
    session: Session,
    ranks: RankSet,
    *,
    by: TreeBy = "function",
    threads: bool = False,
    samples: int = 1,
    every_s: float = 1.0,
    fold: bool = True,
    tasks: bool = False,
) -> Samples:
    """List the stacks of *ranks* and merge them; for several samples, running ranks are
    interrupted.

    Between two samples the ranks run for *every_s* seconds.

    :raises UsageError: if a number is out of range, or if several samples are requested and no
        rank runs.
    """
    check(session, ranks, by=by, samples=samples, every_s=every_s)
    words: dict[str, object] = {"by": by, "threads": threads, "samples": samples, "fold": fold}
    if tasks:
        words["tasks"] = tasks
    if samples > 1:
        words["every_s"] = every_s
    line = f"{view_text(ranks, session.set)}.{call_text('tree', **words)}"
    with session.one_call(line):
        operation = Backtrace(
            fold=fold,
            threads=threads,
            offsets=by == "pc",
            tasks=tasks,
            glue=session.options.python_glue,
        )
        return await _take(session, ranks, by, operation, samples, every_s)


async def _take(
    session: Session,
    ranks: RankSet,
    by: TreeBy,
    operation: Backtrace,
    samples: int,
    every_s: float,
) -> Samples:
    if samples == 1:
        answer = await session.ask("backtrace", operation, ranks)
        return Samples(_tree(answer, by, 0.0), answer)
    idle, began = ranks & session.state.stopped, ranks & session.state.running
    sampler = Sampler(session, ranks, "backtrace", operation)
    trees: list[CallTree] = []
    is_over = False
    begun_s = time.monotonic()
    # Stops and continuations for a sample are no news for the user.
    with session.hushed(ranks), session.all_barriers.paused():
        while True:
            at_s = time.monotonic() - begun_s if trees else 0.0
            with deadline.renewed():
                answer = await sampler.sample()
            running = ranks & session.state.running
            trees.append(_tree(answer, by, at_s, idle, began - running))
            if len(trees) == samples or not running:
                break
            await session.runs.wait_stopped("tree", running, timeout_s=every_s)
            if is_over := deadline.is_over():
                break
    return Samples(CallTree.union(trees), answer, ended_early=len(trees) < samples, is_over=is_over)


def check(session: Session, ranks: RankSet, *, by: str, samples: int, every_s: float) -> None:
    """Check the arguments of a sampling.

    :raises UsageError: if a number is out of range, or if several samples are requested and no rank
        runs.
    """
    if by not in ("function", "line", "pc"):
        raise UsageError(f"tree: no tree by {by!r}; there are function, line and pc")
    if not 1 <= samples <= MOST_SAMPLES:
        raise UsageError(f"tree: {samples} samples cannot be taken; 1 to {MOST_SAMPLES} can")
    durations.check(every_s, f"tree: every {every_s:g} s")
    if samples > 1 and not ranks & session.state.running:
        raise UsageError(
            f"tree: no rank of [{ranks}] runs, so that all samples would be the same; "
            "'continue &' sets them running"
        )


async def glance(session: Session, ranks: RankSet) -> Answer:
    """List the stacks of *ranks* that run, without a report; they run on."""
    return await glance_at(session, ranks, functools.partial(innermost, session))


async def innermost(session: Session, ranks: RankSet) -> Answer:
    """List the stacks of *ranks* for a glance."""
    return await session.ask("backtrace", Backtrace(offsets=True), ranks, is_own=True)


async def glance_at(
    session: Session, ranks: RankSet, look: Callable[[RankSet], Awaitable[Found]]
) -> Found:
    """Stop *ranks* that run, without a report, *look* at those that have stopped; they run on.

    Meanwhile they count as running for those who wait for their stops (:attr:`JobState.passing`).
    Ranks that the user interrupts meanwhile stay stopped.
    """
    with session.passing.within(ranks) as passing, session.hushed(ranks):
        # Shielded from cancellation: a rank that stops afterwards would stay stopped.
        return await to_its_end(_glance(session, passing, look))


async def _glance(
    session: Session, passing: Passing, look: Callable[[RankSet], Awaitable[Found]]
) -> Found:
    state, ranks = session.state, passing.ranks
    try:
        with deadline.unlimited(), deadline.within(GO_ON_TIMEOUT_S):
            await _stop(session, ranks)
            return await look(ranks & state.stopped)
    finally:
        await go_on(session, passing.ranks)


async def _stop(session: Session, ranks: RankSet) -> Missing:
    """Interrupt ranks for a look, and wait until they have stopped; return those that have not."""
    asked = await session.ask("interrupt", Interrupt(), ranks, is_own=True)
    failed = RankSet.union(each.ranks for each in asked.errors)
    stopped = await session.runs.wait_stopped(
        "interrupt", ranks - failed - asked.missing.ranks, counts_passing=False
    )
    return stopped.missing | asked.missing


async def stop_for_look(session: Session, ranks: RankSet) -> Missing:
    """Do as :func:`_stop`, for at most the time of an interrupt."""
    with deadline.within(deadline.answers_s(_STOP_TIMEOUT_S)):
        return await _stop(session, ranks)


async def go_on(session: Session, ranks: RankSet) -> None:
    """Continue those of *ranks* that have stopped for a sample, and no others.

    They are in the same run as before: an error of one of them concerns all of that run.
    """
    state, has_crashed = session.state, False
    ours: dict[int, tuple[int, RankSet]] = {}  # by the first request of a run: its last request
    for each in state.latest(ranks & state.stopped):
        if isinstance(each.record, Stop):
            has_crashed |= is_error(each.record)
            if was_interrupted(each.record):
                run = each.record.run
                last, part = ours.get(state.origin(run), (run, RankSet()))
                ours[state.origin(run)] = max(run, last), part | each.ranks
    # After a crash all ranks must stop, and those stops look like stops for the sample.
    if has_crashed and session.options.stop_on_error:
        return
    if ours and not session.has_ended:
        # The ranks must continue even if the command's time limit has passed.
        with deadline.unlimited(), deadline.within(GO_ON_TIMEOUT_S):
            starts = session.runs.start
            await asyncio.gather(
                *(
                    starts("continue", "", part, held_too=True, continues=run)
                    for run, part in ours.values()
                )
            )


def _tree(
    answer: Answer,
    by: TreeBy,
    at_s: float,
    idle: RankSet = RankSet(),
    halted: RankSet = RankSet(),
) -> CallTree:
    return CallTree.from_classes(
        answer.classes, by=by, at_s=at_s, missing=answer.missing, idle=idle, halted=halted
    )


class Sampler:
    """Repeated looks at some ranks, which run between two of them."""

    def __init__(
        self, session: Session, ranks: RankSet, command: str, operation: AnyOperation
    ) -> None:
        self._command = command
        self._session = session
        self._ranks = ranks
        self._operation = operation
        self._interrupted = RankSet()
        """Ranks that were interrupted, and may stop later."""

    async def sample(self) -> Answer:
        """Ask once, with running ranks interrupted."""
        session = self._session
        running = self._ranks & session.state.running
        self._interrupted = self._interrupted | running
        with session.passing.within(running) as passing:
            try:
                # Shielded from cancellation: a rank that stops for the sample afterwards would stay
                # stopped.
                asked, missing = self._ranks, Missing()
                if running:
                    missing = await to_its_end(stop_for_look(session, running))
                    asked = asked - missing.ranks
                answer = await session.ask(self._command, self._operation, asked)
                return replace(answer, ranks=self._ranks, missing=answer.missing | missing)
            finally:
                # Ranks that have stopped with others meanwhile stay stopped.
                interrupted = self._interrupted - (running - passing.ranks)
                self._interrupted = interrupted & session.state.running
                await to_its_end(go_on(session, interrupted))
