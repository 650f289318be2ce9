"""The pager: output longer than the screen is shown page by page, as in GDB.

It holds text back and does not hold the command up that writes it. The user interface reads keys
(:func:`read_key`); the rest is without a terminal.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.utils import get_cwidth

PROMPT = "--Type <RET> for more, q to quit, c to continue without paging--"
PAGE, LINE, QUIT, REST = "page", "line", "quit", "rest"
"""The replies of the user."""
_KEYS = {
    PAGE: ("enter", " ", "f", "c-v", "pagedown"),
    LINE: ("j", "down", "e"),
    QUIT: ("q", "Q", "c-c", "escape", "c-d"),
    REST: ("c", "end"),
}
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TAB = 8


class Pager:
    """Pager that passes text on up to a screen; then the user decides about the rest."""

    def __init__(
        self,
        write: Callable[[str], None],
        ask: Callable[[], Awaitable[str]],
        size: Callable[[], tuple[int, int]],
        shown: Callable[[], Awaitable[None]],
    ) -> None:
        """Create a pager.

        *ask* shows the prompt and returns a reply. *size* returns lines and columns of a page; 0
        lines for no limit. *shown* returns once the terminal has taken all text that was written.
        """
        self._write = write
        self._ask = ask
        self._size = size
        self._until_shown = shown
        self._shown = 0
        self._kept: deque[tuple[str, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False
        self._drops = False

    @property
    def is_asking(self) -> bool:
        """Whether the user is to decide, so that all text is held back."""
        return self._task is not None

    def begin(self) -> None:
        """Begin a command, with an empty page."""
        self._shown = 0
        self._is_over = self._drops = False

    def put(self, text: str, *, is_answer: bool) -> None:
        """Show text now or later; once the user has quit, what *is_answer* is dropped.

        Text that is no answer, such as a notification, is never dropped and never begins a page.
        """
        if self.is_asking:
            self._kept.append((text, is_answer))
            return
        if is_answer and self._drops:
            return
        lines, columns = self._size()
        if self._is_over or not lines or not is_answer:
            self._write(text)
            return
        self._kept.append((text, is_answer))
        self._show(lines - 1 - self._shown, columns)
        if self._kept:
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def end(self) -> bool:
        """Wait until the user has decided about all text; return whether it was quit."""
        while self._task is not None:
            await self._task
        return self._drops

    def _show(self, room: int, columns: int) -> None:
        """Write kept text until *room* rows are full."""
        while self._kept:
            text, is_answer = self._kept.popleft()
            at = 0
            while at < len(text):
                end = text.find("\n", at) + 1 or len(text)
                needed = rows(text[at:end], columns)
                if needed > room and self._shown:
                    self._write_part(text[:at])
                    self._kept.appendleft((text[at:], is_answer))
                    return
                room -= needed
                self._shown += needed
                at = end
            self._write_part(text)

    def _write_part(self, text: str) -> None:
        if text:
            self._write(text)

    async def _go_on(self) -> None:
        try:
            while self._kept:
                # A thread writes the page: the question would stand above it.
                await self._until_shown()
                reply = await self._ask()
                lines, columns = self._size()
                if reply == QUIT:
                    self._drops = True
                    self._kept = deque(each for each in self._kept if not each[1])
                if reply in (QUIT, REST) or not lines:
                    self._is_over = True
                    while self._kept:
                        self._write(self._kept.popleft()[0])
                    return
                if reply == LINE:
                    self._show_line(columns)
                else:
                    self._shown = 0
                    self._show(lines - 1, columns)
        finally:
            self._task = None
            for text, is_answer in self._kept:  # the session ends meanwhile
                if not is_answer:
                    self._write(text)
            self._kept.clear()

    def _show_line(self, columns: int) -> None:
        text, is_answer = self._kept.popleft()
        end = text.find("\n") + 1 or len(text)
        self._write(text[:end])
        if text[end:]:
            self._kept.appendleft((text[end:], is_answer))


def rows(line: str, columns: int) -> int:
    """Return the number of rows of the screen that a line needs.

    >>> rows("four\\n", 3), rows("", 80), rows("\\x1b[31mred\\x1b[0m\\n", 3)
    (2, 1, 1)
    """
    if not columns:
        return 1
    width = 0
    for number, part in enumerate(_ESCAPES.sub("", line.rstrip("\n")).split("\t")):
        if number:
            width += _TAB - width % _TAB
        width += get_cwidth(part)
    return max(1, -(-width // columns))


async def read_key() -> str:
    """Show the pager's prompt, wait for a key, and remove the prompt; return the reply."""
    bindings = KeyBindings()

    def bind(key: str, reply: str) -> None:
        @bindings.add(key, eager=True)
        def _leave(event: KeyPressEvent) -> None:
            if not event.app.is_done:
                event.app.exit(result=reply)

    for reply, keys in _KEYS.items():
        for key in keys:
            bind(key, reply)
    text = FormattedText([("reverse", PROMPT)])
    application: Application[str] = Application(
        layout=Layout(Window(FormattedTextControl(text), height=1, dont_extend_height=True)),
        key_bindings=bindings,
        erase_when_done=True,
    )
    return await application.run_async(handle_sigint=False)
