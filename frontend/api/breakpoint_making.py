"""Commands that make breakpoints: their numbers, their stop modes, and the ranks that lack them."""

from __future__ import annotations

from collections.abc import Callable

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.answers import Answer, failures_text
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api.breakpoint_numbers import BreakpointNumbers, last_made
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.options import StopMode
from pgdb.frontend.api.recovery import Recovery
from pgdb.frontend.api.stop_modes import StopModes
from pgdb.overlay.messages import InsertBreakpoint
from pgdb.ranks import RankSet


class BreakpointMaker:
    """Makes the breakpoints of a session."""

    def __init__(
        self, core: Core, recovery: Recovery, numbers: BreakpointNumbers, stop_modes: StopModes
    ) -> None:
        self._core = core
        self._recovery = recovery
        self._numbers = numbers
        self._stop_modes = stop_modes

    async def insert(
        self,
        line: str,
        ranks: RankSet,
        *,
        stop: StopMode | None = None,
        members: str | Callable[[], RankSet] = "",
        members_text: str = "",
        timeout_s: float | None = None,
    ) -> Answer:
        """Run a GDB command that makes breakpoints, with the next job-wide numbers.

        *stop* is the stop mode of the breakpoint. *members* is a rank set that is read at each hit;
        other ranks run on. *members_text* is that set as it was typed, where *members* is a
        function.

        Ranks that are lost get the breakpoints when they are reattached; a notice says so where no
        other rank has them.
        """
        core, numbers, state = self._core, self._numbers, self._core.state
        first = numbers.reserve()
        self._stop_modes.set_rule(first, stop, members, members_text)
        try:
            answer = await self._recovery.ask(
                line,
                InsertBreakpoint(command=line, first_number=first),
                ranks,
                timeout_s=timeout_s,
                of_ended=True,
            )
        except PgdbError:
            self._release(first)  # no rank was asked
            raise
        made = last_made(answer.classes)
        is_kept = core.journal.has(first)
        if not made and is_kept and (gone := answer.missing.lost - state.exited):
            them = by_number(gone, "it", "them")
            core.note(f"[{gone}] breakpoint {first} is set when 'reattach' has attached to {them}")
        elif is_kept and core.can_restart and state.ranks <= state.exited:
            core.note(f"[{ranks}] breakpoint {first} is set when 'restart' has launched the job")
        numbers.has_failed = not made and not is_kept and not answer.missing.late
        if numbers.has_failed:
            self._release(first)
        return answer

    def _release(self, number: int) -> None:
        """Return a number that no breakpoint has got."""
        self._numbers.release(number)
        self._stop_modes.forget_rule(number)


def why_none(answer: Answer) -> str:
    """Return why a command that was to make a breakpoint has made none, or not on all ranks."""
    silent = f"[{answer.missing.ranks}] have not answered" if answer.missing else ""
    return failures_text(answer.classes) or silent or "no breakpoint was made"
