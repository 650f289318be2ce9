"""A view on some ranks of a session, with the calls that hold ranks and keep them together."""

from __future__ import annotations

from pathlib import Path

from pgdb.errors import UsageError
from pgdb.frontend.api.absentees import Barrier, BarrierThen
from pgdb.frontend.api.argument_types import checks_arguments
from pgdb.frontend.api.lockstep import DIVERGE_WORDS, MOST_STEPS, Lockstep, step_together
from pgdb.frontend.api.rank_data import RankData
from pgdb.frontend.api.until_differ import MOST_HITS, Differ, until_differ
from pgdb.overlay.messages import RunWord
from pgdb.ranks import RankSet


@checks_arguments
class RankGroups(RankData):
    """The calls on some ranks as a group in motion."""

    def hold(self) -> RankSet:
        """Hold the ranks: run commands leave them where they are. Return those that are newly held.

        A rank that runs goes on to its next stop, and stays there. :meth:`release`, the end of the
        rank and :meth:`detach` end the hold.

        :raises UsageError: if there is no job, but a recording.
        :raises CommandError: if none of the ranks lives under a debugger.
        """
        return self._session.holding.hold(self.set)

    def release(self) -> RankSet:
        """End all holds on the ranks; return the ranks that were held.

        These ranks stay stopped until a run command.

        :raises CommandError: if none of the ranks is held.
        """
        return self._session.holding.release(self.set)

    async def barrier(
        self,
        location: str,
        *,
        condition: str = "",
        then: BarrierThen = "stop",
        times: int = 0,
    ) -> Barrier:
        """Set a barrier: each rank is held at *location* until all of these ranks are there.

        It is a breakpoint with a job-wide number, whose deletion ends it. Ranks that end, crash, or
        are detached are not waited for any longer. *then* says what the others do when all have
        come: they stay stopped, or run on (``release``), but for ranks that have come by a step,
        which ends there. After *times* it is deleted; 0 means that it stays.

        :raises UsageError: if it can never be met.
        :raises CommandError: if no rank has the location.
        """
        made, _ = await self._session.all_barriers.make(
            location, self.set, condition=condition, then=then, times=times
        )
        return made

    async def lockstep(
        self,
        word: RunWord = "step",
        count: int = 1,
        *,
        argument: str = "",
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Lockstep:
        """Step the ranks together *count* times, or until their ways part.

        *word* is step, next, stepi, nexti, finish or until; *argument* is the location of until. A
        step is complete when all ranks have stopped. The ranks also end to step when one of them
        ends, is lost, or stops for another reason. *timeout_s* is for all steps together. With
        *settle_s*, they end when a rank has completed the step and no other has for that long: the
        others may wait in MPI for the ranks that have stopped.

        :raises UsageError: if ranks run, or stand at several places; for a number of steps that
            finish does not take; for an *argument* of another word than until.
        """
        return await step_together(
            self._session,
            self.set,
            word,
            argument,
            count=count,
            timeout_s=timeout_s,
            settle_s=settle_s,
        )

    async def until_diverge(
        self,
        limit: int = MOST_STEPS,
        *,
        by: RunWord = "step",
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Lockstep:
        """Step the ranks together until their control flow parts, *limit* times at most.

        *by* is step, next, stepi or nexti. See :meth:`lockstep`.

        :raises UsageError: if *by* is another word.
        """
        if by not in DIVERGE_WORDS:
            raise UsageError(f"until-diverge: by {by!r} is none of {', '.join(DIVERGE_WORDS)}")
        return await step_together(
            self._session,
            self.set,
            by,
            count=limit,
            command="until-diverge",
            timeout_s=timeout_s,
            settle_s=settle_s,
        )

    async def until_differ(
        self,
        expression: str,
        *,
        at: str = "",
        limit: int = MOST_HITS,
        recording: Path | str | None = None,
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Differ:
        """Run the ranks from hit to hit of *at* until the values of *expression* differ.

        Without *at*, it is the line at which they are, and the values are compared there first.
        With a *recording*, the values of each rank are compared with its values there, hit by hit,
        which an earlier ``until_differ`` or ``evaluate`` has recorded. *limit* is the most hits. No
        breakpoint is left behind.

        :raises UsageError: if ranks run, or if they are at several places and none is given.
        :raises CommandError: if a rank does not have the place, no rank knows the expression there,
            or the recording has no value.
        """
        return await until_differ(
            self._session,
            self.set,
            expression,
            at=at,
            limit=limit,
            recording=recording,
            timeout_s=timeout_s,
            settle_s=settle_s,
        )
