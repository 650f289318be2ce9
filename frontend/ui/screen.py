"""Standard output of a session with a prompt.

Text that comes while a prompt reads appears above it. At other times a thread writes it: a terminal
that takes no text (Ctrl-S) must not hold up the session's heartbeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO, cast

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.application.current import get_app_session

BUNDLE_S = 0.2
"""Texts that come within this time appear above the prompt together; it is drawn again once."""

CLOSE_S = 5.0
"""Timeout for the terminal to take the last text, in seconds."""


class Screen:
    """A stream that stands for ``sys.stdout`` and ``sys.stderr`` meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._session = get_app_session()
        # Found now: later it would be looked for behind sys.stdout, which is this object then.
        self._output = self._session.output
        self._texts: list[str] = []
        self._is_flushed = False
        self._timer: asyncio.TimerHandle | None = None
        self._next_s = 0.0  # of the loop's clock
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._carry_out, name="pgdb screen", daemon=True)
        self._thread.start()

    # -- the parts of a stream -------------------------------------------------------------------

    def write(self, text: str) -> int:
        """Take text; it appears with the next line feed or :meth:`flush`."""
        if threading.get_ident() != self._loop_thread:
            with contextlib.suppress(RuntimeError):  # the session has ended
                self._loop.call_soon_threadsafe(self.write, text)
            return len(text)
        self._texts.append(text)
        if "\n" in text:
            self._show_soon()
        return len(text)

    def flush(self) -> None:
        """Show the text that was taken, the beginning of a line too."""
        if threading.get_ident() == self._loop_thread:
            self._is_flushed = True
            self._show_soon()

    def _show_soon(self) -> None:
        if not self._texts:
            return
        application = self._session.app
        if application is None or not application.is_running:
            text = self._taken()
            self._work.put(lambda: self._show(text))
        elif self._timer is None:
            self._timer = self._loop.call_at(self._next_s, self._show_above)

    def isatty(self) -> bool:
        """Return whether the terminal is one."""
        return self._output.stdout is not None and self._output.stdout.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the terminal."""
        return self._output.fileno()

    @property
    def encoding(self) -> str:
        """The encoding of the terminal."""
        return self._output.encoding()

    @property
    def errors(self) -> str:
        """The way of the stream with characters that have no encoding."""
        return "strict"

    # -- for the prompt ----------------------------------------------------------------------

    async def shown(self) -> None:
        """Wait until the terminal has taken all text: the answers to the line before this one."""
        self.flush()
        done: asyncio.Future[None] = self._loop.create_future()

        def settle() -> None:
            if not done.done():
                done.set_result(None)

        def call() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(settle)

        self._work.put(call)
        await done

    def close(self) -> None:
        """Show the rest, and end the thread, unless the terminal takes no text."""
        if self._timer is not None:
            self._timer.cancel()
        text = self._taken()
        self._work.put(lambda: self._show(text))
        self._work.put(None)
        self._thread.join(CLOSE_S)

    # -- showing -----------------------------------------------------------------------------

    def _taken(self) -> str:
        text = "".join(self._texts)
        self._texts.clear()
        self._is_flushed = False
        return text

    def _taken_above(self) -> str:
        """Take whole lines, or all if that was flushed: the prompt stands behind the text."""
        if self._is_flushed:
            return self._taken()
        lines, line_feed, rest = self._taken().rpartition("\n")
        if rest:
            self._texts.append(rest)
        return lines + line_feed

    def _show_above(self) -> None:
        self._timer = None
        self._next_s = self._loop.time() + BUNDLE_S
        run_in_terminal(lambda: self._show(self._taken_above()))

    def _show(self, text: str) -> None:
        if not text:
            return
        with contextlib.suppress(OSError):  # the terminal is gone
            self._output.enable_autowrap()
            self._output.write_raw(text)
            self._output.flush()

    def _carry_out(self) -> None:
        while (work := self._work.get()) is not None:
            work()


@contextlib.contextmanager
def screen(loop: asyncio.AbstractEventLoop) -> Iterator[Screen]:
    """Replace both output streams by a screen."""
    before = sys.stdout, sys.stderr
    own = Screen(loop)
    sys.stdout = sys.stderr = cast(TextIO, own)
    try:
        yield own
    finally:
        sys.stdout, sys.stderr = before
        own.close()
