"""Ctrl-C of a user at a terminal: each one is taken, whatever reads the keys at that moment.

Ctrl-C is a signal while the kernel edits lines, and a key while a prompt reads. Between two prompts
Python's own handler would end the session, and with it a job that PGDB has launched. A key that was
typed behind a line is read with the line, and would wait for the next prompt.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from prompt_toolkit.application.current import get_app_or_none
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys


class Interrupts:
    """Ctrl-C, from the first command to the last.

    Prompts are run with ``handle_sigint=False``: prompt_toolkit gives the signal back to nobody.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        source: Input,
        on_quit: Callable[[], None] = lambda: None,
    ) -> None:
        """Take Ctrl-C, and Ctrl-\\ with *on_quit*: as in GDB it does not end the session."""
        self.on_command: Callable[[], None] | None = None
        """Called for a Ctrl-C while a command is carried out and no prompt reads."""
        self._is_before_line = False
        self._loop = loop
        self._source = source
        loop.add_signal_handler(signal.SIGINT, self._on_signal)
        loop.add_signal_handler(signal.SIGQUIT, on_quit)

    def close(self) -> None:
        """Leave both keys to Python."""
        self._loop.remove_signal_handler(signal.SIGINT)
        self._loop.remove_signal_handler(signal.SIGQUIT)

    def take_before_line(self) -> bool:
        """Return whether Ctrl-C was typed before the line that was read last."""
        was_before, self._is_before_line = self._is_before_line, False
        return was_before

    def take_typed(self) -> bool:
        """Return whether Ctrl-C was typed behind the line that was read last.

        It is dropped with the keys before it, as the kernel does; the keys behind it stay for the
        next prompt.
        """
        keys = get_typeahead(self._source)
        while more := self._source.read_keys():
            keys += more
        at = max((at for at, each in enumerate(keys) if each.key == Keys.ControlC), default=-1)
        store_typeahead(self._source, keys[at + 1 :])
        return at >= 0

    def pass_typed(self) -> None:
        """Pass a Ctrl-C that was typed behind the reply to a question on to the command."""
        was_before = self.take_before_line()
        if self.on_command is not None and (self.take_typed() or was_before):
            self.on_command()

    def _on_signal(self) -> None:
        key = KeyPress(Keys.ControlC)
        application = get_app_or_none()
        if application is not None and application.is_done:
            # The prompt has its line already. The kernel makes signals of keys only while no prompt
            # reads, so this one is older than the line.
            self._is_before_line = True
        elif application is not None and application.is_running:
            application.key_processor.feed(key)
            application.key_processor.process_keys()
        elif self.on_command is not None:
            self.on_command()
        else:
            store_typeahead(self._source, [key])
