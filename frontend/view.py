"""Some ranks of a session, and what can be done with them.

Every method returns an :class:`~pgdb.frontend.answers.Answer`; a command that fails on some
ranks is an answer with errors in it, not an exception (see :meth:`Answer.check`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdb.errors import UsageError
from pgdb.frontend import gdbwords
from pgdb.frontend.answers import Answer
from pgdb.overlay.messages import (
    Backtrace,
    BreakpointCommands,
    ChangeBreakpoints,
    Console,
    Detach,
    Evaluate,
    Interrupt,
    Kill,
    ListBreakpoints,
    ListVariables,
    RunWord,
    Script,
    SelectFrame,
)
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.session import Session

DETACH_TIMEOUT_S = 30.0
INTERRUPT_TIMEOUT_S = 10.0


class Ranks:
    """A view on some ranks of a session."""

    def __init__(self, session: Session | None, ranks: RankSet) -> None:
        self._owner = session
        self._ranks = ranks

    @property
    def set(self) -> RankSet:
        """The ranks of this view."""
        return self._ranks

    @property
    def _session(self) -> Session:
        assert self._owner is not None
        return self._owner

    async def evaluate(
        self, expression: str, *, format: str = "", timeout_s: float | None = None
    ) -> Answer:
        """Print the value of *expression*, with GDB's *format* letter if there is one."""
        word = f"print/{format}" if format else "print"
        return await self._session.ask(
            f"{word} {expression}",
            Evaluate(expression=expression, format=format),
            self.set,
            timeout_s=timeout_s,
        )

    async def backtrace(
        self,
        limit: int = 0,
        *,
        fold: bool = True,
        split: bool = False,
        timeout_s: float | None = None,
    ) -> Answer:
        """List the *limit* innermost frames (outermost if negative, all for 0).

        With *fold* what goes on inside an MPI call is left out. Ranks at the same place are of
        one class, whose arguments show as ``…`` where they differ; with *split* they are not.
        """
        return await self._session.ask(
            f"backtrace {limit}" if limit else "backtrace",
            Backtrace(limit=limit, fold=fold, split=split),
            self.set,
            timeout_s=timeout_s,
        )

    async def select_frame(self, line: str, *, timeout_s: float | None = None) -> Answer:
        """Run ``frame …``, ``up …`` or ``down …``; the answer is the frame selected then."""
        return await self._session.ask(
            line, SelectFrame(command=line), self.set, timeout_s=timeout_s
        )

    async def locals(self, *, timeout_s: float | None = None) -> Answer:
        """List the local variables of the selected frame."""
        return await self._session.ask(
            "info locals", ListVariables(which="locals"), self.set, timeout_s=timeout_s
        )

    async def arguments(self, *, timeout_s: float | None = None) -> Answer:
        """List the arguments of the selected frame."""
        return await self._session.ask(
            "info args", ListVariables(which="arguments"), self.set, timeout_s=timeout_s
        )

    async def execute(self, line: str, *, timeout_s: float | None = None) -> Answer:
        """Run one GDB command as it is; a run command waits as :meth:`continue_` does.

        :raises UsageError: for a command that PGDB has to carry out itself or refuses.
        """
        word = gdbwords.resolve(line)
        kind = gdbwords.kind_of(word, line)
        if word in ("detach", "kill", "quit", "interrupt"):
            raise UsageError(f"'{word}' is a call of its own")
        if kind is gdbwords.Kind.REFUSED:
            raise UsageError(gdbwords.why_refused(word))
        if kind is gdbwords.Kind.MULTI_LINE:
            raise UsageError(f"'{word}' takes several lines; use script()")
        if kind is gdbwords.Kind.BREAKPOINT:
            return await self._session.insert_breakpoint(line, self.set, timeout_s=timeout_s)
        if kind is gdbwords.Kind.RUN:
            answer = await self._session.start_console_run(line, self.set, timeout_s=timeout_s)
            return await self._session.finish_run(answer, timeout_s=timeout_s)
        return await self._session.ask(line, Console(command=line), self.set, timeout_s=timeout_s)

    async def execute_plain(self, line: str, *, timeout_s: float | None = None) -> Answer:
        """Run a GDB command that is known to leave the session's state alone."""
        return await self._session.ask(line, Console(command=line), self.set, timeout_s=timeout_s)

    async def script(self, lines: Sequence[str], *, timeout_s: float | None = None) -> Answer:
        """Run several lines as one GDB script: ``define`` … ``end``, ``python`` … ``end``."""
        return await self._session.ask(
            lines[0] if lines else "", Script(lines=tuple(lines)), self.set, timeout_s=timeout_s
        )

    # -- breakpoints -------------------------------------------------------------------------

    async def break_at(
        self, location: str = "", *, condition: str = "", temporary: bool = False
    ) -> Answer:
        """Set a breakpoint; all ranks get the same job-wide number for it."""
        line = " ".join(
            part
            for part in (
                "tbreak" if temporary else "break",
                location,
                f"if {condition}" if condition else "",
            )
            if part
        )
        return await self._session.insert_breakpoint(line, self.set)

    async def watch(self, expression: str) -> Answer:
        """Stop when the value of *expression* changes."""
        return await self._session.insert_breakpoint(f"watch {expression}", self.set)

    async def change_breakpoints(
        self, command: str, numbers: Sequence[str] = (), argument: str = ""
    ) -> Answer:
        """Run ``delete``, ``disable``, ``enable``, ``condition`` or ``ignore`` on breakpoints.

        No *numbers* means all.
        """
        line = " ".join(part for part in (command, *numbers, argument) if part)
        return await self._session.ask(
            line,
            ChangeBreakpoints(command=command, numbers=tuple(numbers), argument=argument),
            self.set,
        )

    async def delete(self, *numbers: int) -> Answer:
        """Delete breakpoints by their job-wide numbers, or all."""
        return await self.change_breakpoints("delete", [str(number) for number in numbers])

    async def breakpoint_commands(self, numbers: Sequence[str], commands: Sequence[str]) -> Answer:
        """Have GDB commands carried out whenever one of the breakpoints is hit."""
        return await self._session.ask(
            f"commands {' '.join(numbers)}",
            BreakpointCommands(numbers=tuple(numbers), commands=tuple(commands)),
            self.set,
        )

    async def breakpoints(self) -> Answer:
        """List the breakpoints."""
        return await self._session.ask("info breakpoints", ListBreakpoints(), self.set)

    # -- running -----------------------------------------------------------------------------

    async def run(
        self,
        word: RunWord,
        argument: str = "",
        *,
        wait: bool = True,
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Answer:
        """Set the ranks running by a GDB command.

        With *wait*, return when all of them have stopped or ended, or after *timeout_s* (None:
        no limit): then ``missing.running`` says who still runs. With *settle_s*, once a rank
        has stopped and no further one has for that long, that is waited for no longer.
        """
        answer = await self._session.start_run(word, argument, self.set)
        if not wait:
            return answer
        return await self._session.finish_run(answer, timeout_s=timeout_s, settle_s=settle_s)

    async def continue_(self, *, wait: bool = True, timeout_s: float | None = None) -> Answer:
        """Continue; see :meth:`run`."""
        return await self.run("continue", wait=wait, timeout_s=timeout_s)

    async def step(self, count: int = 1, *, timeout_s: float | None = None) -> Answer:
        """Step by source lines into functions; see :meth:`run`."""
        return await self.run("step", _count(count), timeout_s=timeout_s)

    async def next(self, count: int = 1, *, timeout_s: float | None = None) -> Answer:
        """Step by source lines over functions; see :meth:`run`."""
        return await self.run("next", _count(count), timeout_s=timeout_s)

    async def finish(self, *, timeout_s: float | None = None) -> Answer:
        """Run until the selected frame returns; see :meth:`run`."""
        return await self.run("finish", timeout_s=timeout_s)

    async def until(self, location: str = "", *, timeout_s: float | None = None) -> Answer:
        """Run until a line behind the current one, or *location*; see :meth:`run`."""
        return await self.run("until", location, timeout_s=timeout_s)

    async def advance(self, location: str, *, timeout_s: float | None = None) -> Answer:
        """Run until *location*; see :meth:`run`."""
        return await self.run("advance", location, timeout_s=timeout_s)

    async def wait(
        self, *, timeout_s: float | None = None, settle_s: float | None = None
    ) -> Answer:
        """Wait until these ranks have stopped or ended; see :meth:`run`."""
        return await self._session.wait_stopped(
            "wait", self.set, timeout_s=timeout_s, settle_s=settle_s
        )

    async def interrupt(self, *, timeout_s: float = INTERRUPT_TIMEOUT_S) -> Answer:
        """Stop the ranks that run, and wait until they have stopped."""
        session = self._session
        running = self.set & session.state.running
        asked = await session.ask("interrupt", Interrupt(), running, timeout_s=timeout_s)
        failed = RankSet.union(each.ranks for each in asked.errors)
        stopped = await session.wait_stopped(
            "interrupt", running - failed - asked.missing.ranks, timeout_s=timeout_s
        )
        return replace(
            stopped,
            ranks=running,
            classes=(*stopped.classes, *asked.errors),
            missing=stopped.missing | asked.missing,
            request_id=asked.request_id,
        )

    # -- leaving -----------------------------------------------------------------------------

    async def detach(self) -> Answer:
        """Let the ranks go: they run on free, with no breakpoint left in them."""
        session = self._session
        ranks = self.set & session.state.live
        answer = await session.ask("detach", Detach(), ranks, timeout_s=DETACH_TIMEOUT_S)
        failed = RankSet.union(each.ranks for each in answer.errors)
        session.note_detached(ranks - failed - answer.missing.ranks)
        return answer

    async def kill(self) -> Answer:
        """End the processes of the ranks."""
        ranks = self.set & self._session.state.live
        return await self._session.ask("kill", Kill(), ranks)


def _count(count: int) -> str:
    return str(count) if count != 1 else ""
