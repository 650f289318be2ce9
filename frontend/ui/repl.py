"""The prompt: read lines, carry them out, show notifications meanwhile.

While a run command is in the foreground the terminal belongs to the job: typed lines are its
input, and Ctrl-C interrupts the ranks. A second Ctrl-C returns to the prompt even if ranks do not
answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import DummyHistory

from pgdb.controls import harmless
from pgdb.errors import CommandError, PgdbError
from pgdb.frontend.analysis.still_running import counted
from pgdb.frontend.api.notifications import (
    Notification,
    RankEvents,
    RanksBack,
    RanksLost,
    SessionNotice,
)
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands import bodies
from pgdb.frontend.commands.completion import Candidates, LineCompleter
from pgdb.frontend.commands.dispatch import Dispatcher, Quit
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.show.text.status_text import status_line
from pgdb.frontend.store.history import CommandHistory
from pgdb.frontend.system import deadline
from pgdb.frontend.system.host_commands import ignoring_interrupts
from pgdb.frontend.system.workers import with_file
from pgdb.frontend.ui import answer_wait
from pgdb.frontend.ui.interrupts import Interrupts
from pgdb.frontend.ui.pager import Pager, read_key
from pgdb.frontend.ui.pane import PANE_STYLE, Pane, fragments
from pgdb.frontend.ui.prompt_keys import in_columns, prompt_keys
from pgdb.frontend.ui.screen import Screen, screen
from pgdb.ranks import RankSet

_REPEATED_WITHOUT_ARGUMENT = ("list", "l", "x")
_TICK_S = 1.0
_ROWS_BESIDE_WORDS = 4
"""Rows for the line of the prompt, before and after the listed words, and the status line."""
_HISTORY_READ_S = 1.0
"""Timeout for reading the history before the first prompt, in seconds."""
HISTORY_S = 10.0
"""Timeout for writing the history after the session, in seconds; the lock can use half of it."""


class Repl:
    """One user at one terminal."""

    def __init__(self, session: Session, *, settle_s: float) -> None:
        self.display = TextDisplay()
        self._loop = asyncio.get_running_loop()
        self.workspace = Workspace(session, settle_s=settle_s)
        self.display.interface = lambda: self.workspace.interface
        self._pager = Pager(self.display.emit, self._ask_pager, self._page_size, self._until_shown)
        self.display.pages = self._pager
        self._history = CommandHistory(_history_path(), self._report_from_thread)
        self._prompt: PromptSession[str] = PromptSession(
            enable_suspend=True,
            history=self._history,
            complete_while_typing=False,
            key_bindings=prompt_keys(
                self._complete, self._wait_for_late, self._show_candidates, self._on_pane_key
            ),
            style=PANE_STYLE,
            # Without colours a suggestion would look as if it were typed.
            auto_suggest=AutoSuggestFromHistory() if self.display.has_colours else None,
        )
        # The reply to a question does not belong to the history.
        self._question: PromptSession[str] = PromptSession(history=DummyHistory())
        self._control_c = Interrupts(self._loop, self._prompt.input, self._on_quit_key)
        self.dispatcher = Dispatcher(
            self.workspace,
            self.display,
            read_line=self._read_more,
            ask=self._confirm,
            lend_terminal=self._lend_terminal,
        )
        self.dispatcher.history = self._history.get_strings
        self.display.transcript.on_failure = self._report_from_thread
        self._last_line = ""
        self._pasted: deque[str] = deque()
        self._interrupts = 0
        self._given_up = ""
        """The ranks that the command waited for when the user gave the wait up."""
        self._is_lent = False
        self.workspace.pane.is_possible = self.display.can_draw
        self._screen: Screen | None = None
        self._pane = Pane(self.workspace, shutil.get_terminal_size)
        self._completer = LineCompleter(self.workspace)
        self._is_busy = False
        self._reads_for_job = False
        self._has_named_given = False
        self._has_reader = False
        self._key_takers = 0
        self._status = ""
        self._is_ticking = False
        self._background: set[asyncio.Task[object]] = set()

    @property
    def _session(self) -> Session:
        return self.workspace.session

    async def run(self) -> bool | None:
        """Read and carry out lines until the user leaves; return whether the job is to be killed.

        None stands for the session's own rule.
        """
        await self._history.read(_HISTORY_READ_S)
        with screen(self._loop) if self.display.can_draw else contextlib.nullcontext() as own:
            self._screen = own
            while True:
                try:
                    line = await self._next_line()
                except KeyboardInterrupt:
                    self._control_c.take_before_line()
                    await self._interrupt_at_prompt()
                    continue
                except EOFError:
                    line = "quit"
                try:
                    await self.carry_out(line)
                except Quit as leaving:
                    return leaving.kill

    async def _next_line(self) -> str:
        """Return the next line; pasted text can have several."""
        if not self._pasted:
            self._prompt.bottom_toolbar = self._toolbar if self._has_status_line() else None
            await self._follow()
            line = await self._typed(self._prompt, self._prompt_text)
            if self._prompt.app.erase_when_done:
                # The pane is gone with the line below it.
                self.display.emit(f"{self._prompt_text()}{line}\n")
            return self._first_of(line)
        line = self._pasted.popleft()
        self.display.text(f"{self._prompt_text()}{line}")
        return line

    async def _typed(self, prompt: PromptSession[str], text: str | Callable[[], str]) -> str:
        def shown() -> str:
            return text if isinstance(text, str) else text()

        self.display.prompt = lambda: shown() + prompt.default_buffer.text

        def drawn() -> FormattedText:
            # prompt_toolkit calls it at each drawing, also below a notification.
            rows = self._pane.rows if prompt is self._prompt else []
            if rows and self._pane.is_outdated:
                self._update_pane()
            prompt.app.erase_when_done = bool(rows)
            return FormattedText([*fragments(rows), ("", shown())])

        # A line that was typed ahead ends the prompt at once.
        await self._until_shown()
        with self.display.prompting(), self._keys_taken():
            line = await prompt.prompt_async(drawn, handle_sigint=False)
        self.display.transcript.write(f"{shown()}{line}\n")
        return line

    async def _until_shown(self) -> None:
        """Wait until the terminal has taken all text, so that what is drawn stands below it."""
        if self._screen is not None:
            await self._screen.shown()

    def _first_of(self, text: str) -> str:
        first, *others = text.split("\n")
        self._pasted.extend(each for each in others if each.strip())
        return first

    async def carry_out(self, line: str) -> None:
        """Carry out one line; Ctrl-C goes to the job meanwhile.

        :raises Quit: if the line ends the session.
        """
        line = line.strip()
        if not line:
            line = self._last_line
            word, _, _ = line.partition(" ")
            if word.partition("/")[0] in _REPEATED_WITHOUT_ARGUMENT:
                line = word.partition("/")[0]
        else:
            self._last_line = line
        self._completer.forget()
        if self._control_c.take_before_line():
            await self._interrupt_at_prompt()
        if self._control_c.take_typed():
            self._pasted.clear()
            self.display.text(f"(Ctrl-C: '{line}' was not begun)")
            return
        task = asyncio.create_task(self.dispatcher.run_line(line))
        self._interrupts, self._given_up = 0, ""
        self._pager.begin()
        self._is_busy = True
        self._control_c.on_command = lambda: self._on_interrupt(task)
        try:
            with (
                self._job_input(),
                answer_wait.reported(self._session.traffic, self.dispatcher, self.display),
            ):
                await task
            if await self._pager.end():
                # The habit of <RET> behind q must not carry the command out again.
                self._last_line = ""
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if own is not None and own.cancelling():
                raise  # not the command alone: the session is to end (SIGTERM, SIGHUP)
            self._pasted.clear()
            self.display.text("(given up waiting; the ranks go on)")
            if self._given_up:
                self.display.text(f"{self._given_up}")
        finally:
            self._is_busy = False
            self._control_c.on_command = None

    def notify(self, notification: Notification) -> None:
        """Show a notification."""
        self.display.notify(notification)
        if self._prompt.app.is_running and self._status_text() != self._status:
            self._prompt.app.invalidate()
        if isinstance(notification, RankEvents | RanksLost | RanksBack):
            self._update_pane()

    def leave(self) -> None:
        """Show the output that is kept back, and leave Ctrl-C to Python."""
        self.display.close()
        self._control_c.close()

    async def close(self) -> None:
        """Write the history; another session or a hanging file system can hold that up."""
        try:
            with deadline.within(HISTORY_S):
                await with_file(_history_path(), self._history.close)
        except CommandError as error:
            self.display.text(f"history: {error}")

    def _report_from_thread(self, text: str) -> None:
        notification = SessionNotice(text=text)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self.display.notify, notification)

    @contextlib.contextmanager
    def _lend_terminal(self) -> Iterator[None]:
        """Leave the terminal to another program: its keys, Ctrl-C among them, and its screen."""
        self._is_lent = True
        try:
            with self._keys_taken(), self.display.held_back(), ignoring_interrupts():
                yield
        finally:
            self._is_lent = False

    @contextlib.contextmanager
    def _keys_taken(self) -> Iterator[None]:
        """Leave the keys inside to a prompt or to another program."""
        self._key_takers += 1
        self._set_reader()
        try:
            yield
        finally:
            self._key_takers -= 1
            self._set_reader()
            self._control_c.pass_typed()

    def _set_reader(self) -> None:
        """Read typed lines for the job, unless somebody else has the keys."""
        is_wanted = self._reads_for_job and not self._key_takers
        if is_wanted != self._has_reader:
            self._has_reader = is_wanted
            if is_wanted:
                self._loop.add_reader(sys.stdin.fileno(), self._on_typed)
            else:
                self._loop.remove_reader(sys.stdin.fileno())

    def _on_quit_key(self) -> None:
        """Say that Ctrl-\\ has no effect: a launched job would be lost with the session."""
        if self._is_busy and not self._is_lent:
            self.display.text("(Ctrl-\\ has no effect; Ctrl-C stops the ranks)")

    def _on_interrupt(self, task: asyncio.Task[None]) -> None:
        if self._is_lent:
            return
        self._interrupts += 1
        self.dispatcher.was_interrupted = True
        self._pasted.clear()
        state = self._session.state
        awaited = self.dispatcher.in_foreground
        running = awaited & (state.running | state.passing)
        # The GDBs of these ranks can be inside a called function (`print f()`), or compute.
        busy = self._session.asked & (state.stopped | state.exited)
        if self._interrupts == 1 and (running or busy):
            self._start(self._interrupt(running or busy))
            if not running:
                self.display.text("(interrupting what is asked; Ctrl-C again gives up waiting)")
        else:
            self._given_up = f"{counted(running, awaited)}: [{running}]" if running else ""
            task.cancel()

    async def _interrupt_at_prompt(self) -> None:
        state = self._session.state
        ranks = self.workspace.focus & (state.running | state.passing)
        if ranks:
            await self._interrupt(ranks)
            self.display.flush()

    async def _interrupt(self, ranks: RankSet) -> None:
        try:
            answer = await self._session.ranks(ranks).interrupt()
        except PgdbError as error:
            self.display.text(str(error))
            return
        for each in answer.errors:
            self.display.text(f"[{each.ranks}] cannot be interrupted: {each.filled.message}")  # type: ignore[union-attr]

    def _start(self, coroutine: object) -> None:
        assert asyncio.iscoroutine(coroutine)
        task: asyncio.Task[object] = asyncio.create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    @contextlib.contextmanager
    def _job_input(self):  # type: ignore[no-untyped-def]
        """Pass typed lines to the job while a command is carried out."""
        job = self._session.job
        stdin = sys.stdin.fileno()
        if job is None or not job.takes_input or not os.isatty(stdin):
            yield
            return
        self._reads_for_job = True
        self._set_reader()
        try:
            yield
        finally:
            self._reads_for_job = False
            self._set_reader()

    def _on_typed(self) -> None:
        if not self.dispatcher.takes_input:
            # The user types ahead: the line stays for the prompt.
            self._reads_for_job = False
            self._set_reader()
            return
        data = os.read(sys.stdin.fileno(), 4096)
        job = self._session.job  # 'run' has replaced the session, and with it the job
        assert job is not None
        if data:
            if data.endswith(b"\n"):
                self.display.line_was_typed()
            job.write(data)
            self._note_command(data)
        else:
            job.close_input()
            self._reads_for_job = False
            self._set_reader()

    def _note_command(self, data: bytes) -> None:
        """Say once to the user that the job has read a line that is a command."""
        line = data.decode("utf-8", "replace").strip()
        if self._has_named_given or not bodies.is_command(line, self.workspace.user.names):
            return
        self._has_named_given = True
        self.display.text(
            f"note: the job reads what is typed while ranks run, and has read '{harmless(line)}'; "
            "Ctrl-C interrupts the ranks"
        )

    # -- completion --------------------------------------------------------------------------

    async def _complete(self, text: str) -> Candidates:
        # A terminal that cannot draw shows of inserted text only the end.
        return await self._completer(text) if self.display.can_draw else Candidates(())

    async def _wait_for_late(self, text: str) -> bool:
        return self.display.can_draw and await self._completer.wait_for_late(text)

    def _show_candidates(self, words: list[str]) -> None:
        columns, lines = shutil.get_terminal_size()
        # All that is listed is on the screen with the line that it is about.
        listed = in_columns(words, columns, max(1, lines - _ROWS_BESIDE_WORDS))
        line = f"{self._prompt_text()}{self._prompt.default_buffer.text}"
        self.display.emit(f"{line}\n{harmless(listed)}\n")

    # -- pages and the status line -----------------------------------------------------------

    async def _ask_pager(self) -> str:
        with self._keys_taken():
            return await read_key()

    def _page_size(self) -> tuple[int, int]:
        """Return lines and columns of a page; no lines where output has no pages."""
        options, terminal = self.workspace.interface, shutil.get_terminal_size()
        is_paged = self._is_busy and options.pagination and self.display.can_draw
        if not is_paged or self.dispatcher.in_foreground:
            return 0, terminal.columns
        return terminal.lines if options.height < 0 else options.height, terminal.columns

    def _has_status_line(self) -> bool:
        return self.workspace.interface.status_line and self.display.can_draw

    def _status_text(self) -> str:
        session = self._session
        note = "recorded" if session.is_recorded else "the job has ended" * session.job_has_ended
        note = note or session.hold_time.text()
        columns = shutil.get_terminal_size().columns
        return status_line(session.state, self.workspace.focus, columns, note=note)

    def _update_pane(self) -> None:
        """Follow the ranks with the pane."""
        if self.workspace.pane.kind:
            self._start(self._follow())

    async def _follow(self) -> None:
        await self._pane.follow(self._prompt.app.invalidate)

    def _on_pane_key(self, action: str) -> None:
        pane = self.workspace.pane
        if action in ("up", "down"):
            pane.scroll(pane.height if action == "down" else -pane.height)
        elif action == "toggle" and pane.kind:
            pane.hide()
            self._prompt.app.invalidate()
        elif pane.is_possible:
            pane.show(pane.last if action == "toggle" else action)
        self._update_pane()

    def _toolbar(self) -> str:
        self._status = self._status_text()
        if self._session.hold_time.text() and not self._is_ticking:
            self._is_ticking = True
            self._loop.call_later(_TICK_S, self._tick)
        return self._status

    def _tick(self) -> None:
        """Draw the status line again: it counts the time for which ranks are held."""
        self._is_ticking = False
        if self._prompt.app.is_running:
            self._prompt.app.invalidate()

    def _prompt_text(self) -> str:
        focus = self.workspace.focus
        if wanted := self.workspace.interface.prompt:
            return f"{wanted.replace('{focus}', str(focus))} "
        running = focus & self._session.state.running
        held = focus & self._session.state.held
        state = " running" if running and running == focus else ""
        if held:
            state += " held" if held == focus else f" {len(held)} held"
        if self._session.is_recorded:
            state = " recorded"
        return f"(pgdb {focus}{state}) "

    async def _read_more(self, prompt: str) -> str | None:
        if self._pasted:
            return self._pasted.popleft()
        try:
            return self._first_of(await self._typed(self._prompt, prompt))
        except (EOFError, KeyboardInterrupt):
            return None

    async def _confirm(self, question: str) -> bool:
        while True:
            try:
                reply = await self._typed(self._question, f"{question} (y or n) ")
            except KeyboardInterrupt:
                return False
            except EOFError:
                return True
            if (answer := reply.strip().lower()[:1]) in ("y", "n"):
                return answer == "y"
            self.display.text("Please answer y or n.")


def _history_path() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "pgdb" / "history"
