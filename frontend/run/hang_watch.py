"""Detection of a hang: no output, no reading or writing, and ranks that make no progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.why.words import LOOPS, verb
from pgdb.frontend.report.model import RankClass, Report, parse_ranks
from pgdb.frontend.run.inspection import SAMPLES, Looker, Running
from pgdb.frontend.run.options import in_words
from pgdb.frontend.run.run_report import RunRecord
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

LEAST_RUNNING = 9.0
"""Least time between two looks, as a multiple of the time for which the last one held ranks.

Looks hold a rank for 10 % of its time at most, however slow the host is.
"""
POLL_S = 0.25
_NOBODY = RankSet()

_SLEEP = pattern(r"(?:__GI_)?_*(?:(?:clock_)?nanosleep|u?sleep|pause|sigsuspend)\b(?!_)")
"""The functions in which a rank sleeps that has asked for it."""


class HangWatch:
    """Watch for progress when a job is quiet.

    A task that runs :meth:`run` can be cancelled, and another one goes on.
    """

    def __init__(
        self,
        limit_s: float,
        looker: Looker,
        record: RunRecord,
        activity_s: Callable[[], float],
        on_hang: Callable[[str, Report], None],
    ) -> None:
        self._limit_s = limit_s
        self._looker = looker
        self._record = record
        self._activity_s = activity_s
        self._on_hang = on_hang
        self._progress_s = 0.0
        """Monotonic time at which a look has last seen progress."""
        self._not_before_s = 0.0
        """Monotonic time of the next look at the earliest."""
        self._reported_s = 0.0
        """Time of the last activity before the hang that was reported; 0 if there was none."""
        self._failure = ""

    async def run(self) -> None:
        """Report each hang once."""
        while True:
            since_s = self._last_s()
            wait_s = max(since_s + self._limit_s / 2, self._not_before_s) - _now_s()
            if since_s == self._reported_s:
                wait_s = max(wait_s, self._limit_s / (2 * SAMPLES))
            if wait_s > 0 or since_s == self._reported_s:
                await asyncio.sleep(max(wait_s, POLL_S))
                continue
            await self._look(since_s)

    def _last_s(self) -> float:
        return max(self._activity_s(), self._progress_s)

    async def _look(self, since_s: float) -> None:
        """Look for progress, with no activity since *since_s*."""
        begun_s = _now_s()
        gap = Running(self._limit_s / (2 * SAMPLES), lambda: self._last_s() > since_s)
        try:
            seen = await self._looker.look_for_progress(gap, self._on_progress)
        except PgdbError as error:
            if str(error) != self._failure:
                self._failure = str(error)
                self._record.note(f"no look for progress was possible: {self._failure}")
            self._not_before_s = _now_s() + self._limit_s / 2
            return
        finally:
            again_s = _now_s() + self._looker.held_s * LEAST_RUNNING
            self._not_before_s = max(self._not_before_s, again_s)
        if seen is None:
            return
        # The samples may have taken less than the rest of the time.
        await asyncio.sleep(max(0.0, self._limit_s - (_now_s() - since_s)))
        if self._last_s() > since_s:
            return
        of_time = f" of the last {_now_s() - begun_s:.0f} s"
        looker = self._looker
        text = hang_text(self._limit_s, of_time, seen, looker.stopped, looker.loops)
        self._reported_s = since_s
        self._on_hang(text, seen)

    def _on_progress(self, moved: RankSet, work: str = "") -> None:
        self._progress_s = _now_s()
        text = computing_text(work) if work else f"ranks make progress without output: [{moved}]"
        self._record.add("notice", text)


def computing_text(work: str) -> str:
    """Return the notice about ranks that compute, and may progress or not, with their places."""
    return f"ranks compute without output, and whether they progress is not known: {work}"


def hang_text(
    limit_s: float, of_time: str, report: Report, stopped: RankSet = _NOBODY, loops: str = ""
) -> str:
    """Return the event in words, with the reason that the ranks' stacks show.

    A signal has *stopped* some ranks. *loops* names those in loops that change nothing.
    """
    text = (
        f"no progress for {in_words(limit_s)}: no output, and the same stacks in {SAMPLES} "
        f"samples{of_time}"
    )
    if stopped:
        subject = f"rank {stopped} is" if len(stopped) == 1 else f"ranks {stopped} are"
        text += f"; {subject} stopped by a signal such as SIGSTOP"
    reason = next((each for each in report.verdicts if each.is_error), None)
    if loops and (reason is None or not any(each in reason.text for each in LOOPS.values())):
        text += f"; {loops}"
    if reason is not None:
        return f"{text}; {reason.text}{_leaving(report)}"
    if report.classes and all(map(_sleeps, report.classes)):
        return f"{text}; all ranks sleep"
    return text


def _leaving(report: Report) -> str:
    """Return the status of ranks that hang as they end, as a sentence to append."""
    found: dict[str, RankSet] = {}
    for each in report.classes:
        said = next((frame.dying for frame in each.frames if frame.dying), "")
        if said.startswith("status "):
            found[said] = found.get(said, _NOBODY) | parse_ranks(each.ranks)
    return "".join(
        f"; {'rank' if len(ranks) == 1 else 'ranks'} {ranks} {verb(ranks, 'is')} ending with {said}"
        for said, ranks in found.items()
    )


def _sleeps(each: RankClass) -> bool:
    return bool(each.frames) and _SLEEP.match(each.frames[0].function) is not None


def _now_s() -> float:
    """Return the monotonic time."""
    return asyncio.get_running_loop().time()
