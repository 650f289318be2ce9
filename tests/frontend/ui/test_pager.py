"""The pager: pages, replies, and text that comes while the user decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from pgdb.frontend.ui.pager import LINE, PAGE, QUIT, REST, Pager, read_key, rows

LINES = [f"line {number}\n" for number in range(10)]


class Screen:
    """A screen with a mark for each question; replies are given in order."""

    def __init__(self, *replies: str, lines: int = 4, columns: int = 20) -> None:
        self.shown: list[str] = []
        self.lines = lines
        self._replies = iter(replies)
        self.on_ask: Callable[[], Awaitable[None] | None] = lambda: None
        self.pager = Pager(
            self.shown.append, self._ask, lambda: (self.lines, columns), self._until_shown
        )

    async def _ask(self) -> str:
        self.shown.append("?")
        if (waited := self.on_ask()) is not None:
            await waited
        return next(self._replies)

    async def _until_shown(self) -> None:
        """Return at once: all that was written stands in the list."""

    @property
    def text(self) -> str:
        return "".join(self.shown).replace("line ", "").replace("\n", " ")


def shown_of(text: str, *replies: str, **how: int) -> str:
    """Return the screen after an answer; the pager is at its end."""

    async def work() -> str:
        screen = Screen(*replies, **how)
        screen.pager.begin()
        screen.pager.put(text, is_answer=True)
        await screen.pager.end()
        return screen.text

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        ((PAGE, PAGE, PAGE), "0 1 2 ?3 4 5 ?6 7 8 ?9 "),
        ((QUIT,), "0 1 2 ?"),
        ((PAGE, QUIT), "0 1 2 ?3 4 5 ?"),
        ((REST,), "0 1 2 ?3 4 5 6 7 8 9 "),
        ((LINE, LINE, PAGE, REST), "0 1 2 ?3 ?4 ?5 6 7 ?8 9 "),
    ],
)
def test_a_long_answer_has_pages(replies: tuple[str, ...], text: str) -> None:
    assert shown_of("".join(LINES), *replies) == text


def test_a_page_that_fits_is_shown_at_once() -> None:
    assert shown_of("".join(LINES[:3])) == "0 1 2 "
    assert shown_of("".join(LINES), lines=0) == "0 1 2 3 4 5 6 7 8 9 "


def test_the_texts_of_one_command_share_a_page() -> None:
    async def work() -> str:
        screen = Screen(PAGE, REST)
        for _ in range(2):
            screen.pager.begin()
            for line in LINES[:4]:
                screen.pager.put(line, is_answer=True)
            await screen.pager.end()
        return screen.text

    assert asyncio.run(work()) == "0 1 2 ?3 0 1 2 ?3 "


def test_lines_that_are_wrapped_count_by_their_rows() -> None:
    assert shown_of("x" * 45 + "\n" + "y\n", PAGE) == "x" * 45 + " ?y "
    # A line longer than the page is shown all the same.
    assert shown_of("x" * 200 + "\n" + "y\n", PAGE) == "x" * 200 + " ?y "


def test_notifications_are_kept_in_order_and_never_lost() -> None:
    async def work(reply: str) -> str:
        screen = Screen(reply)

        def while_asked() -> None:
            screen.pager.put("stopped\n", is_answer=False)
            screen.pager.put("more\n", is_answer=True)

        screen.on_ask = while_asked
        screen.pager.begin()
        screen.pager.put("".join(LINES[:4]), is_answer=True)
        assert screen.pager.is_asking
        is_quit = await screen.pager.end()
        screen.pager.put("late\n", is_answer=True)
        screen.pager.put("noted\n", is_answer=False)
        assert is_quit is (reply == QUIT)
        return screen.text

    assert asyncio.run(work(REST)) == "0 1 2 ?3 stopped more late noted "
    # After 'q' the rest of the answer is dropped, whenever it comes.
    assert asyncio.run(work(QUIT)) == "0 1 2 ?stopped noted "


def test_a_session_that_ends_does_not_wait_for_the_user() -> None:
    async def work() -> str:
        screen = Screen()
        forever = asyncio.Event()
        screen.on_ask = forever.wait
        screen.pager.begin()
        screen.pager.put("".join(LINES), is_answer=True)
        screen.pager.put("stopped\n", is_answer=False)
        ending = asyncio.create_task(screen.pager.end())
        while "?" not in screen.shown:
            await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert not screen.pager.is_asking
        return screen.text

    assert asyncio.run(work()) == "0 1 2 ?stopped "


@pytest.mark.parametrize(
    ("line", "columns", "count"),
    [
        ("\n", 80, 1),
        ("x" * 80, 80, 1),
        ("x" * 81, 80, 2),
        ("\x1b[1;36m" + "x" * 80 + "\x1b[0m\n", 80, 1),
        ("a\tb", 8, 2),
        ("\u4e2d" * 5, 8, 2),
        ("x" * 500, 0, 1),
    ],
)
def test_rows_of_a_line(line: str, columns: int, count: int) -> None:
    assert rows(line, columns) == count


@pytest.mark.parametrize(
    ("keys", "reply"),
    [
        ("\r", PAGE),
        (" ", PAGE),
        ("\x1b[6~", PAGE),
        ("j", LINE),
        ("\x1b[B", LINE),
        ("q", QUIT),
        ("\x03", QUIT),
        ("c", REST),
        ("xyz\r", PAGE),
    ],
)
def test_keys_of_the_pager(keys: str, reply: str) -> None:
    async def work() -> str:
        with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
            typed.send_text(keys)
            return await read_key()

    assert asyncio.run(work()) == reply
