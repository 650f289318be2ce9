"""Commands that make breakpoints: their numbers, their stop modes, and the ranks that lack them."""

from __future__ import annotations

import re
from collections.abc import Callable

from pgdb.errors import PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer, failures_text
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.breakpoint_numbers import BreakpointNumbers, last_made
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.options import StopMode
from pgdb.frontend.api.recovery import Recovery
from pgdb.frontend.api.stop_modes import StopModes
from pgdb.overlay.messages import ChangeBreakpoints, InsertBreakpoint
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_LASTING = {"tbreak": "break", "thbreak": "hbreak", "tcatch": "catch"}
"""Commands that make temporary breakpoints, with those that make lasting ones of the kind."""
_CONDITIONAL = frozenset("break tbreak hbreak thbreak watch rwatch awatch catch tcatch".split())
"""Commands that take a condition behind ``if``."""
_BARE_IF = pattern(r"(?:.*\s)?if\s*\Z", re.S)
_NEVER_STOP = ("dprintf", "trace", "ftrace", "strace")


class BreakpointMaker:
    """Maker of the breakpoints of a session."""

    def __init__(
        self, core: Core, recovery: Recovery, numbers: BreakpointNumbers, stop_modes: StopModes
    ) -> None:
        self._core = core
        self._recovery = recovery
        self._numbers = numbers
        self._stop_modes = stop_modes
        stop_modes.delete = self._delete

    async def insert(
        self,
        line: str,
        ranks: RankSet,
        *,
        stop: StopMode | None = None,
        members: str | Callable[[], RankSet] = "",
        members_text: str = "",
        holds: bool = False,
        timeout_s: float | None = None,
    ) -> Answer:
        """Run a GDB command that makes breakpoints, with the next job-wide numbers.

        *stop* is the stop mode of the breakpoint. *members* is a rank set that is read at each hit;
        other ranks run on. *members_text* is that set as it was typed, where *members* is a
        function. A temporary breakpoint with *members* is deleted on each of these ranks that stops
        at it. With *holds* no commands of breakpoints set a rank running that is at it.

        Ranks that are lost get the breakpoints when they are reattached; a notice says so where no
        other rank has them.

        :raises UsageError: if no condition follows ``if``, and for *stop* or *members* of a command
            whose breakpoint stops no rank.
        :raises RankSetError: if *members* is malformed.
        """
        if isinstance(members, str) and members:
            self._stop_modes.parse(members)
        core, numbers, state = self._core, self._numbers, self._core.state
        word, _, rest = line.strip().partition(" ")
        word = gdb_commands.resolve(word)
        if word in _CONDITIONAL and _BARE_IF.match(rest):
            # GDB takes the word for a part of the location.
            raise UsageError(f"{word}: 'if' needs a condition")
        if word in _NEVER_STOP and (stop or members):
            raise UsageError(_never_stops(line, word, members, members_text))
        if is_once := bool(members) and word in _LASTING:
            # GDB would delete it on a rank that is not in the set, too.
            line = f"{_LASTING[word]} {rest}".rstrip()
        first = numbers.reserve()
        self._stop_modes.set_rule(first, stop, members, members_text, is_once=is_once)
        try:
            answer = await self._recovery.ask(
                line,
                InsertBreakpoint(command=line, first_number=first, holds=holds),
                ranks,
                timeout_s=timeout_s,
                of_ended=True,
            )
        except PgdbError:
            self._release(first)  # no rank was asked
            raise
        made = last_made(answer.classes)
        self._stop_modes.copy_rule(first, range(first + 1, made + 1))
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

    async def _delete(self, number: int, ranks: RankSet) -> None:
        operation = ChangeBreakpoints(command="delete", numbers=(str(number),))
        await self._recovery.ask(f"delete {number}", operation, ranks)

    def _release(self, number: int) -> None:
        """Return a number that no breakpoint has got."""
        self._numbers.release(number)
        self._stop_modes.forget_rule(number)


def _never_stops(
    line: str, word: str, members: str | Callable[[], RankSet], members_text: str
) -> str:
    """Return why the options of a stop are refused."""
    what = "a dprintf prints" if word == "dprintf" else "a tracepoint collects"
    why = f"{word}: {what} and stops no rank"
    if not members:
        return f"{why}, so it takes no --stop"
    text = members if isinstance(members, str) else members_text
    return f"{why}, so {text} is not read at its hits; 'proc {text} {line}' is for its ranks now"


def why_none(answer: Answer) -> str:
    """Return why a command that was to make a breakpoint has made none, or not on all ranks."""
    silent = f"[{answer.missing.ranks}] have not answered" if answer.missing else ""
    return failures_text(answer.classes) or silent or "no breakpoint was made"
