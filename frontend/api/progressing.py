"""Samples of where the ranks of a running job are.

Where all of them have a recorder of MPI calls, it is read while they run. Otherwise each sample
holds a rank for the time of one look.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.progress import Progress, Sample, progress
from pgdb.frontend.api.sampling import MOST_SAMPLES, Sampler
from pgdb.frontend.api.watch_times import PROGRESS_EVERY_S, PROGRESS_SAMPLES
from pgdb.frontend.system import deadline, durations
from pgdb.mpi_calls import MpiCallStatus
from pgdb.overlay.operations import ListMpiCalls, ListRecordedCalls
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session


class Observed(msgspec.Struct, frozen=True):
    """The progress of ranks, and the answer of the last sample."""

    progress: Progress
    answer: Answer


async def observe(
    session: Session,
    ranks: RankSet,
    *,
    samples: int = PROGRESS_SAMPLES,
    every_s: float = PROGRESS_EVERY_S,
) -> Observed:
    """Look *samples* times at the calls of ranks that run; between two looks they run on.

    :raises UsageError: if a number is out of range, or no rank runs.
    """
    if not 1 <= samples <= MOST_SAMPLES:
        raise UsageError(f"progress: {samples} samples cannot be taken; 1 to {MOST_SAMPLES} can")
    durations.check(every_s, f"progress: every {every_s:g} s")
    if not ranks & session.state.running:
        raise UsageError(
            f"progress: no rank of [{ranks}] runs, so that all samples would be the same; "
            "'continue &' sets them running"
        )
    stopped = ranks & session.state.stopped
    running = ranks & session.state.running
    recorded = await _has_recorder(session, running)
    sampler = Sampler(session, ranks - stopped, "mpi calls", ListMpiCalls(threads=False))
    taken: list[Sample] = []
    begun_s = time.monotonic()
    # Stops and continuations for a sample are no news for the user.
    with session.hushed(ranks), session.all_barriers.paused():
        while True:
            at_s = time.monotonic() - begun_s if taken else 0.0
            with deadline.renewed():
                if recorded:
                    asked = (ranks - stopped) & session.state.running
                    answer = await session.ask("mpi calls", ListRecordedCalls(), asked)
                else:
                    answer = await sampler.sample()
            running = ranks & session.state.running
            taken.append(_sample(answer, at_s, ranks & session.state.stopped, ranks - running))
            if len(taken) == samples or not running or deadline.is_over():
                break
            await session.runs.wait_stopped("progress", running, timeout_s=every_s)
    return Observed(progress(taken, ranks, recorded=recorded), answer)


async def _has_recorder(session: Session, ranks: RankSet) -> bool:
    """Return whether the recorder of each of some ranks can be read."""
    answer = await session.ask("mpi calls", ListRecordedCalls(), ranks, is_own=True)
    found = (each.ranks for each in answer.classes if isinstance(each.record, MpiCallStatus))
    return not ranks - RankSet.union(found)


def _sample(answer: Answer, at_s: float, stopped: RankSet, not_running: RankSet) -> Sample:
    classes = tuple(
        (each.record, each.ranks)
        for each in answer.classes
        if isinstance(each.record, MpiCallStatus)
    )
    return Sample(at_s, classes, stopped, not_running - stopped)
