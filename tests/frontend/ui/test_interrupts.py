"""Ctrl-C at a terminal: no one is lost, whatever reads the keys at that moment."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import DummyOutput

from pgdb.frontend.ui.interrupts import Interrupts

CONTROL_C = "\x03"
DEADLINE_S = 60.0
NOT_BEGUN, AT_PROMPT, IN_COMMAND = "not begun", "at the prompt", "in a command"


class Counted(Interrupts):
    """Counter of the signals that it has taken."""

    signals = 0

    def _on_signal(self) -> None:
        super()._on_signal()
        self.signals += 1

    def signal(self, event: KeyPressEvent) -> None:
        """Take a line at the prompt, and then a signal that the loop hands on late."""
        event.current_buffer.validate_and_handle()
        self._on_signal()


class Reader:
    """A reader of lines with a prompt, which takes Ctrl-C as the one of PGDB does."""

    def __init__(self, signals: Sequence[str] = ()) -> None:
        self.signals = signals
        """The moments of signals: ``before`` a prompt, ``behind`` it, ``in`` a command.

        ``late`` is the moment when the prompt has its line, and has not returned it yet.
        """
        self.seen: list[str] = []
        """The lines that were begun, and what has become of each Ctrl-C."""

    async def read(self, typed: str, *, until: str) -> list[str]:
        """Type all at once, and read lines up to *until*."""
        with create_pipe_input() as source, create_app_session(source, DummyOutput()):
            keys = KeyBindings()
            prompt: PromptSession[str] = PromptSession(key_bindings=keys)
            interrupts = Counted(asyncio.get_running_loop(), prompt.input)
            if "late" in self.signals:
                keys.add("enter")(interrupts.signal)
            try:
                source.send_text(typed)
                async with asyncio.timeout(DEADLINE_S):
                    await self._read(prompt, interrupts, until)
            finally:
                interrupts.close()
                clear_typeahead(prompt.input)
        return self.seen

    async def _read(self, prompt: PromptSession[str], interrupts: Counted, until: str) -> None:
        while until not in self.seen:
            await self._signal("before", interrupts)
            try:
                line = await prompt.prompt_async("", handle_sigint=False)
            except KeyboardInterrupt:
                self.seen.append(AT_PROMPT)
                continue
            await self._signal("behind", interrupts)
            if interrupts.take_before_line():
                self.seen.append(AT_PROMPT)
            if interrupts.take_typed():
                self.seen.append(NOT_BEGUN)
                continue
            self.seen.append(line)
            interrupts.on_command = lambda: self.seen.append(IN_COMMAND)
            await self._signal("in", interrupts)
            interrupts.on_command = None

    async def _signal(self, moment: str, interrupts: Counted) -> None:
        if moment in self.signals:
            self.signals = [each for each in self.signals if each != moment]
            before = interrupts.signals
            signal.raise_signal(signal.SIGINT)
            while interrupts.signals == before:
                await asyncio.sleep(0)


def read(typed: str, *, until: str, signals: Sequence[str] = ()) -> list[str]:
    """Type all at once; return what is seen up to *until*."""
    return asyncio.run(Reader(signals).read(typed, until=until))


def test_a_line_is_not_begun_if_ctrl_c_is_typed_behind_it() -> None:
    assert read("one\r\x03two\r", until="two") == [NOT_BEGUN, "two"]
    # Lines between them go, too, as the kernel drops them.
    assert read("one\rtwo\r\x03three\r", until="three") == [NOT_BEGUN, "three"]


def test_ctrl_c_at_the_prompt_is_the_prompts() -> None:
    assert read("on\x03two\r", until="two") == [AT_PROMPT, "two"]


@pytest.mark.parametrize(
    ("moment", "seen"),
    [
        ("before", [AT_PROMPT, "one"]),
        ("late", [AT_PROMPT, "one"]),
        ("behind", [NOT_BEGUN]),
        ("in", ["one", IN_COMMAND]),
    ],
)
def test_a_signal_between_the_readers_is_not_lost(moment: str, seen: list[str]) -> None:
    assert read("one\r", until=seen[-1], signals=[moment]) == seen


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([CONTROL_C, "line"]), min_size=1, max_size=6))
def test_no_line_before_the_last_ctrl_c_is_begun(keys: list[str]) -> None:
    typed = [each if each == CONTROL_C else f"{number}\r" for number, each in enumerate(keys)]
    last = max((at for at, each in enumerate(keys) if each == CONTROL_C), default=-1)
    seen = read("".join((*typed, "end\r")), until="end")
    begun = [each for each in seen if each not in (NOT_BEGUN, AT_PROMPT)]
    assert begun == [*(each.strip() for each in typed[last + 1 :]), "end"]
