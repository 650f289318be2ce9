"""The incremental search of the history, as readline has it."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from pgdb.frontend.commands.completion import Candidates
from pgdb.frontend.ui.prompt_keys import prompt_keys


async def nothing(text: str) -> Candidates:
    """Return no candidate."""
    return Candidates(())


async def nothing_late(text: str) -> bool:
    """Return that no GDB is late with an answer."""
    return False


HISTORY = ("break main", "print counter", "bt full")


def typed(keys: str, actions: list[str] | None = None) -> str:
    """Return the line that keys give at a prompt with a history; *actions* gets the pane's."""
    return lines_of(keys, 1, actions)[0]


def lines_of(keys: str, count: int, actions: list[str] | None = None) -> list[str]:
    """Return the lines that keys give at some prompts, all keys typed at once."""
    noted: list[str] = [] if actions is None else actions

    async def work() -> list[str]:
        with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
            prompt: PromptSession[str] = PromptSession(
                history=InMemoryHistory(HISTORY),
                key_bindings=prompt_keys(nothing, nothing_late, lambda words: None, noted.append),
            )
            pipe.send_text(keys)
            return [await prompt.prompt_async("") for _ in range(count)]

    return asyncio.run(work())


def test_a_tab_that_was_typed_before_the_prompt_leaves_no_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lines = lines_of("print 1\rbre\tak main\r", 2)
        gc.collect()
    assert lines == ["print 1", "break main"]
    assert not [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        # Enter carries the line out that was found; it needs no second one.
        ("\x12count\r", "print counter"),
        ("\x12b\x12\r", "break main"),
        # These keys end the search and work on the line.
        ("\x12count\x01x\r", "xprint counter"),
        ("\x12count\x05s\r", "print counters"),
        ("\x12counter\x1b[Hx\r", "xprint counter"),
        # Ctrl-G brings the line back that was typed.
        ("half\x12count\x07 done\r", "half done"),
    ],
)
def test_search_in_the_history(keys: str, line: str) -> None:
    assert typed(keys) == line


def test_keys_of_gdbs_screen_are_for_the_pane() -> None:
    actions: list[str] = []
    assert typed("a\x18ab\x18\x01\x181c\x182\x1b[5~\x1b[6~d\r", actions) == "abcd"
    assert actions == ["toggle", "toggle", "src", "split", "up", "down"]


def completed(keys: str, *lines: str, typed_meanwhile: str = "") -> tuple[str, list[list[str]]]:
    """Return the line that keys give with TAB, and the lists that are shown."""
    shown: list[list[str]] = []

    async def work() -> str:
        with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):

            async def complete(text: str) -> Candidates:
                if typed_meanwhile:
                    pipe.send_text(typed_meanwhile)
                    while typed_meanwhile not in prompt.default_buffer.text:
                        await asyncio.sleep(0)
                else:
                    # TAB is the last key before <RET>, which must come behind the candidates.
                    asyncio.get_running_loop().call_soon(pipe.send_text, "\r")
                answered.set()
                return Candidates(tuple(each for each in lines if each.startswith(text)))

            answered = asyncio.Event()
            prompt: PromptSession[str] = PromptSession(
                history=InMemoryHistory(),
                key_bindings=prompt_keys(complete, nothing_late, shown.append, print),
            )
            pipe.send_text(keys)
            line = asyncio.create_task(prompt.prompt_async(""))
            await answered.wait()
            if typed_meanwhile:
                await asyncio.sleep(0)
                pipe.send_text("\r")
            return await line

    return asyncio.run(work()), shown


def test_tab_completes_and_lists() -> None:
    assert completed("b mai\t", "b main", "b mark") == ("b main ", [])
    assert completed("b m\t", "b main", "b mark") == ("b ma", [])
    assert completed("b ma\t", "b main", "b mark") == ("b ma", [["main", "mark"]])
    assert completed("b x\t", "b main") == ("b x", [])


def test_candidates_of_a_line_that_has_changed_are_dropped() -> None:
    assert completed("b mai\t", "b main", typed_meanwhile="nly") == ("b mainly", [])


@pytest.mark.parametrize(
    ("typed_meanwhile", "lines", "line", "listed"),
    [
        ("", ("b main",), "b main ", []),
        ("", ("b main", "b mark"), "b ma", []),
        ("x", ("b main",), "b mx", []),
        # The line is the same again, and the answer is still right.
        ("x\x7f", ("b main",), "b main ", []),
    ],
)
def test_an_answer_that_comes_late_completes_the_line_that_has_not_changed(
    typed_meanwhile: str, lines: tuple[str, ...], line: str, listed: list[list[str]]
) -> None:
    shown: list[list[str]] = []

    async def work() -> str:
        with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
            is_late = asyncio.Event()
            has_answered = False

            async def complete(text: str) -> Candidates:
                return Candidates(lines if has_answered else ())

            async def wait_for_late(text: str) -> bool:
                nonlocal has_answered
                if has_answered:
                    return False
                is_late.set()
                pipe.send_text(typed_meanwhile)
                for _ in range(100):  # the keys are read in turns of the event loop
                    await asyncio.sleep(0)
                has_answered = True
                asyncio.get_running_loop().call_later(0, pipe.send_text, "\r")
                return True

            prompt: PromptSession[str] = PromptSession(
                history=InMemoryHistory(),
                key_bindings=prompt_keys(complete, wait_for_late, shown.append, print),
            )
            pipe.send_text("b m\t")
            typed = asyncio.create_task(prompt.prompt_async(""))
            await is_late.wait()
            return await typed

    assert asyncio.run(work()) == line
    assert shown == listed
