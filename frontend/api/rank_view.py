"""A view on some ranks of a session, with the calls on them.

Every method returns an :class:`~pgdb.frontend.analysis.answers.Answer`. A command that fails on
some ranks returns an answer with errors in it and raises no exception (see :meth:`Answer.check`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.asked_conditions import where
from pgdb.frontend.analysis.comparing import By
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.analysis.unknown_breakpoints import known_as_put_off, known_to_some
from pgdb.frontend.api import gdb_commands, verdicts
from pgdb.frontend.api.argument_types import checks_arguments
from pgdb.frontend.api.lockstep import MOST_STEPS
from pgdb.frontend.api.options import StopMode
from pgdb.frontend.api.rank_groups import RankGroups
from pgdb.frontend.api.watch_times import PROGRESS_EVERY_S, PROGRESS_SAMPLES, WHY_S
from pgdb.frontend.system import deadline
from pgdb.overlay.messages import (
    Backtrace,
    BreakpointCommands,
    BreakpointKind,
    ChangeBreakpoints,
    Console,
    Detach,
    Interrupt,
    Kill,
    ListBreakpoints,
    RunWord,
    Script,
    SelectFrame,
)
from pgdb.ranks import RankSet
from pgdb.written_files import for_ranks

if TYPE_CHECKING:
    from pgdb.frontend.analysis.assertions import Check
    from pgdb.frontend.analysis.comparing import Comparison
    from pgdb.frontend.analysis.progress import Progress
    from pgdb.frontend.analysis.still_running import StillRunning
    from pgdb.frontend.analysis.why.explain import Explanation
    from pgdb.frontend.api.host_files import GatheredFile

DETACH_TIMEOUT_S = 30.0
INTERRUPT_TIMEOUT_S = 10.0


@runtime_checkable
class HasValues(Protocol):
    """Ranks whose values can be compared, of any session."""

    async def evaluate_in_full(
        self, expression: str, *, format: str = "", timeout_s: float | None = None
    ) -> Answer:
        """Print the value of *expression*, one by one."""
        ...


@checks_arguments
class RankView(RankGroups):
    """A view on some ranks of a session."""

    async def backtrace(
        self,
        limit: int = 0,
        *,
        fold: bool = True,
        split: bool = False,
        threads: bool = False,
        offsets: bool = False,
        only_python: bool = False,
        tasks: bool = False,
        glue: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Answer:
        """List the *limit* innermost frames (outermost if negative, all for 0).

        With *fold*, frames inside an MPI call are left out. Ranks at the same place are one class,
        whose arguments show as ``…`` where they differ; with *split*, ranks with other arguments
        are another class. With *threads*, the answer has the stacks of all threads, without those
        of the MPI library itself if *fold* is set;
        :func:`~pgdb.frontend.show.text.thread_stacks.stacks_of` groups them by stack. With
        *offsets*, frames have their offset in their function.

        Python frames stand in the place of the interpreter's own C frames. C functions that match
        a regular expression of *glue* are left out between them. With *only_python*, the answer
        has the Python frames alone; with *tasks*, the stacks of asyncio's tasks, as for threads.
        """
        word = "py-tasks" if tasks else "py-bt" if only_python else "backtrace"
        words = ["thread apply all"] * threads + [word] + [str(limit)] * bool(limit)
        return await self._session.ask(
            " ".join(words),
            Backtrace(
                limit=limit,
                fold=fold,
                split=split,
                threads=threads,
                offsets=offsets,
                only_python=only_python,
                tasks=tasks,
                glue=(*self._session.options.python_glue, *glue),
            ),
            self.set,
            timeout_s=timeout_s,
            of_ended=True,
        )

    async def why(self, *, look_only: bool = False, watch_s: float = WHY_S) -> Explanation:
        """Explain why ranks wait: for whom, for what, and the reason, for all ranks of the session.

        Ranks that were stopped from outside, and wait, run for *watch_s* seconds: only that shows
        whether their calls return. With *look_only* they stay stopped. Ranks that run are stopped
        for a moment.

        :raises UsageError: if *watch_s* is no time.
        """
        # A method that few sessions call brings its modules: every start would pay for them.
        from pgdb.frontend.api.explaining import explain_waits

        found = await explain_waits(self._session, look_only=look_only, watch_s=watch_s)
        return found.explanation

    async def progress(
        self, *, samples: int = PROGRESS_SAMPLES, every_s: float = PROGRESS_EVERY_S
    ) -> Progress:
        """Look several times at the MPI calls of ranks that run, and list who falls behind.

        A look stops a rank for a moment; between two looks the ranks run for *every_s* seconds.

        :raises UsageError: if a number is out of range, or no rank runs.
        """
        from pgdb.frontend.api.progressing import observe

        found = await observe(self._session, self.set, samples=samples, every_s=every_s)
        return found.progress

    async def select_frame(self, line: str, *, timeout_s: float | None = None) -> Answer:
        """Run ``frame …``, ``up …`` or ``down …``; the answer is the frame selected then."""
        return await self._session.ask(
            line, SelectFrame(command=line), self.set, timeout_s=timeout_s, of_ended=True
        )

    async def execute(
        self,
        line: str,
        *,
        stop: StopMode | None = None,
        members: str = "",
        timeout_s: float | None = None,
    ) -> Answer:
        """Run one GDB command as it is; a run command waits as :meth:`continue_` does.

        *stop* and *members* are for commands that make breakpoints; see :meth:`break_at`.

        :raises UsageError: for a command that has a call of its own or is refused.
        """
        word = gdb_commands.resolve(line)
        kind = gdb_commands.kind_of(word, line)
        if word in ("detach", "kill", "quit", "interrupt"):
            raise UsageError(f"'{word}' is a call of its own")
        if kind is gdb_commands.Kind.REFUSED:
            raise UsageError(gdb_commands.why_refused(word, line))
        if kind is gdb_commands.Kind.MULTI_LINE:
            raise UsageError(f"'{word}' takes several lines; use script()")
        if kind is gdb_commands.Kind.BREAKPOINT:
            insert = self._session.insert_breakpoint
            return await insert(line, self.set, stop=stop, members=members, timeout_s=timeout_s)
        if stop is not None or members:
            raise UsageError(
                f"'{word}' makes no breakpoint; 'stop' and 'members' are for breakpoints"
            )
        if kind is gdb_commands.Kind.RUN:
            answer = await self._session.runs.start_console(line, self.set, timeout_s=timeout_s)
            return await self._session.runs.finish(answer, timeout_s=timeout_s)
        return await self.execute_plain(line, timeout_s=timeout_s)

    async def execute_plain(self, line: str, *, timeout_s: float | None = None) -> Answer:
        """Run a GDB command that does not change the session's state."""
        line = for_ranks(line, len(self.set))
        operation = Console(command=line, display=self._session.settings.display_number(line))
        settings = self._session.settings
        put_off = settings.put_off_in(line)
        ranks = self.set & settings.ranks_with_displays(line) or self.set
        answer = await self._session.ask(line, operation, ranks, timeout_s=timeout_s, of_ended=True)
        return known_as_put_off(answer, put_off)

    async def gather(self, said: Answer, directory: Path | str) -> list[GatheredFile]:
        """Copy the files that a command has written on the hosts to a directory of this host.

        *said* is the answer to that command, such as ``execute("gcore")``.

        :raises CommandError: if the directory cannot be made.
        """
        from pgdb.frontend.api import host_files

        return await host_files.gather(self._session, said, self.set, Path(directory))

    async def list_source(self, line: str = "list", *, timeout_s: float | None = None) -> Answer:
        """Run a ``list``; the answer's ``listing`` has the lines where ranks stand and breakpoints
        are."""
        from pgdb.frontend.api import listings

        return await listings.list_source(self, self._session, line, timeout_s=timeout_s)

    async def python_source(self, lines: str = "", *, timeout_s: float | None = None) -> Answer:
        """List the source around the selected Python frame, or *lines*, such as ``10,20``; the
        answer's ``listing`` has the lines of the selected frames."""
        from pgdb.frontend.api import listings

        return await listings.list_python(self, self._session, lines, timeout_s=timeout_s)

    async def script(self, lines: Sequence[str], *, timeout_s: float | None = None) -> Answer:
        """Run several lines as one GDB script: ``define`` … ``end``, ``python`` … ``end``.

        :raises UsageError: for a line that would take ranks away from PGDB.
        """
        gdb_commands.check_script(lines)
        lines = gdb_commands.with_files_for_ranks(lines, len(self.set))
        return await self._session.ask(
            lines[0] if lines else "",
            Script(lines=tuple(lines)),
            self.set,
            timeout_s=timeout_s,
            of_ended=True,
        )

    # -- checking ----------------------------------------------------------------------------

    async def where(self, condition: str, *, timeout_s: float | None = None) -> RankSet:
        """Return the ranks on which *condition* holds now, see :meth:`evaluate_condition`.

        :raises CommandError: if it could be evaluated on no rank.
        """
        return where(await self.evaluate_condition(condition, timeout_s=timeout_s))

    async def evaluate_condition(self, condition: str, *, timeout_s: float | None = None) -> Answer:
        """Evaluate a condition: 1 or 0 on each rank.

        It has the forms of :meth:`check_that`. The comparison of an array is true if all of its
        elements meet it; an array anywhere else is an error on its ranks.
        """
        with deadline.within(timeout_s):
            return await verdicts.evaluate_condition(self._session, condition, self.set)

    async def check_that(
        self, condition: str, *, running_ok: bool = False, timeout_s: float | None = None
    ) -> Check:
        """Check a condition: ``x > 0``, ``x same``, ``x increasing``, ``x in 0..1``.

        See :func:`~pgdb.frontend.analysis.conditions.parse` for all forms. Ranks that run or have
        ended fail the check, unless *running_ok* is set. Ranks that cannot evaluate it fail too.
        """

        with deadline.within(timeout_s):
            return await verdicts.check_condition(
                self._session, parse(condition), self.set, running_ok=running_ok
            )

    async def compare(
        self,
        expression: str,
        other: HasValues | Answer,
        *,
        by: By | None = None,
        tolerance: float = 0.0,
        absolute_tolerance: float = 0.0,
        timeout_s: float | None = None,
    ) -> Comparison:
        """Compare the values of *expression* with an earlier answer or with those of *other* ranks.

        An earlier answer is the first side, other ranks are the second. Ranks of this session
        are compared by value, all else by rank, unless *by* says otherwise; see
        :func:`pgdb.frontend.analysis.comparing.compare`. *timeout_s* is for both sides together.

        :raises UsageError: if a tolerance is negative, ranks cannot be paired, or *other* is text.
        """
        if not isinstance(other, Answer) and not hasattr(other, "evaluate_in_full"):
            raise UsageError(f"{other!r} is neither an answer nor a view on ranks")
        with deadline.within(timeout_s):
            session = self._session
            is_own = isinstance(other, RankView) and other._session is session
            if by is None:
                by = "value" if is_own else "rank"
            if isinstance(other, Answer):
                sides = await verdicts.sides(session, expression, self.set, other, by)
            elif is_own and isinstance(other, RankView):
                sides = await verdicts.sides(session, expression, self.set, other.set, by)
            else:
                mine = await self.evaluate_in_full(expression)
                # Another session may have a loop of its own, and a deadline stays in its loop.
                left_s = deadline.left_s() if deadline.is_given() else None
                sides = (mine, await other.evaluate_in_full(expression, timeout_s=left_s))
        return await verdicts.compared(sides, by, tolerance, absolute_tolerance)

    # -- breakpoints -------------------------------------------------------------------------

    async def break_at(
        self,
        location: str = "",
        *,
        condition: str = "",
        temporary: bool = False,
        stop: StopMode | None = None,
        members: str = "",
    ) -> Answer:
        """Set a breakpoint; all ranks get the same job-wide number for it.

        *stop* names the ranks that stop with one that hits it, None for the mode of the session.
        *members* is a rank set such as ``@running`` that is read at each hit: other ranks run on.

        :raises UsageError: if *stop* is no mode.
        :raises RankSetError: if *members* is malformed.
        """
        word = "tbreak" if temporary else "break"
        line = " ".join(filter(None, (word, location, condition and f"if {condition}")))
        return await self._session.insert_breakpoint(line, self.set, stop=stop, members=members)

    async def watch(
        self, expression: str, *, stop: StopMode | None = None, members: str = ""
    ) -> Answer:
        """Stop when the value of *expression* changes; see :meth:`break_at`."""
        line = f"watch {expression}"
        return await self._session.insert_breakpoint(line, self.set, stop=stop, members=members)

    async def change_breakpoints(
        self, command: str, numbers: Sequence[str] = (), argument: str = ""
    ) -> Answer:
        """Run ``delete``, ``disable``, ``enable``, ``condition`` or ``ignore`` on breakpoints.

        Without *numbers*, on all breakpoints.
        """
        self._session.all_barriers.check_change(command, numbers)
        line = " ".join(part for part in (command, *numbers, argument) if part)
        operation = ChangeBreakpoints(command=command, numbers=tuple(numbers), argument=argument)
        return known_to_some(await self._session.ask(line, operation, self.set, of_ended=True))

    async def delete(self, *numbers: int) -> Answer:
        """Delete breakpoints by their job-wide numbers, or all."""
        return await self.change_breakpoints("delete", [str(number) for number in numbers])

    async def breakpoint_commands(self, numbers: Sequence[str], commands: Sequence[str]) -> Answer:
        """Attach GDB commands to breakpoints, which run at each hit.

        GDB carries them out. Where a breakpoint has a set of ranks that is read at each hit, PGDB
        gives the commands to the GDBs of the ranks that stop there.
        """
        commands = gdb_commands.with_files_for_ranks(commands, len(self.set))
        modes = self._session.stop_modes
        operation = BreakpointCommands(
            numbers=tuple(numbers),
            commands=tuple(commands),
            judged=tuple(
                each for each in numbers if each.isdecimal() and modes.reads_set(int(each))
            ),
        )
        line = f"commands {' '.join(numbers)}"
        return known_to_some(await self._session.ask(line, operation, self.set, of_ended=True))

    async def breakpoints(self, *numbers: str, kind: BreakpointKind = "") -> Answer:
        """List the breakpoints: all, or some numbers and ranges (``"3"``, ``"5-7"``), or one
        kind."""
        line = " ".join((f"info {kind or 'breakpoint'}s", *numbers))
        answer = await self._session.ask(
            line, ListBreakpoints(numbers=tuple(numbers), kind=kind), self.set, of_ended=True
        )
        return self._session.stop_modes.with_options(answer)

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

        With *wait*, return when all of them have stopped or ended, or after *timeout_s* (None: no
        limit); ``missing.running`` names the ranks that still run. With *settle_s*, the wait also
        ends when a rank has stopped and no other has for that long. A notice names ranks that ran
        already, which the command does not reach.
        """
        runs = self._session.runs
        started = answer = await runs.start(word, argument, self.set)
        if wait:
            answer = await runs.finish(started, timeout_s=timeout_s, settle_s=settle_s)
        runs.note_unmoved(started)
        return answer

    async def continue_(self, *, wait: bool = True, timeout_s: float | None = None) -> Answer:
        """Continue; see :meth:`run`."""
        return await self.run("continue", wait=wait, timeout_s=timeout_s)

    async def step(self, count: int = 1, *, timeout_s: float | None = None) -> Answer:
        """Step *count* source lines, into functions; see :meth:`run`.

        :raises UsageError: if *count* is below 1.
        """
        return await self.run("step", _count("step", count), timeout_s=timeout_s)

    async def next(self, count: int = 1, *, timeout_s: float | None = None) -> Answer:
        """Step *count* source lines, over functions; see :meth:`run`.

        :raises UsageError: if *count* is below 1.
        """
        return await self.run("next", _count("next", count), timeout_s=timeout_s)

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
        return await self._session.runs.wait_stopped(
            "wait", self.set, timeout_s=timeout_s, settle_s=settle_s
        )

    async def still_running(self) -> tuple[StillRunning, ...]:
        """Return where those of the ranks are that run.

        For that, up to 64 ranks that ``continue`` has set running are interrupted for a moment, and
        run on. The place of a rank in a step is that from which the step began.
        """
        from pgdb.frontend.api import whereabouts

        return await whereabouts.still_running(self._session, self.set)

    async def interrupt(self, *, timeout_s: float | None = None) -> Answer:
        """Stop running ranks, and wait until they have stopped (10 s by default).

        A function that GDB has called in a rank (``print f()``) is cancelled.
        """
        session, begun_s = self._session, time.monotonic()
        running = (self.set & session.state.running) | session.passing.take_and_report(self.set)
        session.runs.interrupted |= running
        with deadline.within(deadline.answers_s(INTERRUPT_TIMEOUT_S, timeout_s)):
            # Stopped ranks may be in a function that GDB has called; GDBs of ended ranks compute.
            busy = session.state.live | session.state.exited & session.asked
            asked = await session.ask("interrupt", Interrupt(), self.set & busy, of_ended=True)
            failed = RankSet.union(each.ranks for each in asked.errors)
            stopped = await session.runs.wait_stopped(
                "interrupt", running - failed - asked.missing.ranks, counts_passing=False
            )
        return replace(
            stopped,
            ranks=running,
            classes=(*stopped.classes, *asked.errors),
            missing=stopped.missing | asked.missing,
            request_id=asked.request_id,
            elapsed_s=time.monotonic() - begun_s,
        )

    async def reattach(self, *, timeout_s: float | None = None) -> Answer:
        """Reattach to ranks whose debugger is gone or hangs, or that were detached.

        They are stopped then, under a GDB of their own, with the session's breakpoints. Ranks whose
        debugger answers are left as they are. *timeout_s* is that of a start by default; work that
        is not complete by then goes on, and a notification reports its end.
        """
        return await self._session.recovery.reattach(self.set, timeout_s=timeout_s)

    # -- leaving -----------------------------------------------------------------------------

    async def detach(self, *, timeout_s: float | None = None) -> Answer:
        """Detach from the ranks: they run on, without any breakpoint in them.

        If ranks cannot be detached within *timeout_s* (30 s by default), they are detached later,
        and a notification reports it.
        """
        session = self._session
        ranks = self.set & session.state.live
        limit_s = deadline.answers_s(DETACH_TIMEOUT_S, timeout_s)
        return await session.ask("detach", Detach(), ranks, timeout_s=limit_s)

    async def kill(self, *, timeout_s: float | None = None) -> Answer:
        """End the processes of the ranks.

        Their GDBs answer from the file of the program then.
        """
        ranks = self.set & self._session.state.live
        operation = Kill(keeps_debugger=True)
        return await self._session.ask("kill", operation, ranks, timeout_s=timeout_s)


def _count(word: str, count: int) -> str:
    if not 1 <= count <= MOST_STEPS:
        raise UsageError(f"{word}: count is {count}, and not a number from 1 to {MOST_STEPS}")
    return str(count) if count != 1 else ""
