"""Output beside a prompt: above it while it reads, else where it belongs."""

from __future__ import annotations

import asyncio
import io
import sys
import threading

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from pgdb.frontend.ui.pager import PROMPT, Pager, read_key
from pgdb.frontend.ui.screen import Screen, screen

DEADLINE_S = 60.0


class Terminal(io.StringIO):
    """A terminal that can be held, as Ctrl-S does."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.takes_text = threading.Event()
        self.takes_text.set()

    def write(self, text: str) -> int:
        self.takes_text.wait()
        return super().write(text)


async def typed(text: str, terminal: Terminal) -> None:
    """Read two lines that are typed at once; answer each before the next prompt."""
    with (
        create_pipe_input() as source,
        create_app_session(source, Vt100_Output(terminal, lambda: Size(24, 80), term="xterm")),
        screen(asyncio.get_running_loop()) as own,
    ):
        prompt: PromptSession[str] = PromptSession()
        source.send_text(text)
        async with asyncio.timeout(DEADLINE_S):
            for _ in range(text.count("\r")):
                await own.shown()
                line = await prompt.prompt_async(handle_sigint=False)
                print(f"answer to {line}")


def test_the_answer_to_a_line_that_was_typed_ahead_stands_above_the_next_line() -> None:
    terminal = Terminal()
    asyncio.run(typed("one\rtwo\rthree\r", terminal))
    shown = terminal.getvalue()
    places = [shown.index(f"answer to {each}\n") for each in ("one", "two", "three")]
    assert places == sorted(places)
    # The prompt that has the second line is drawn below the answer to the first one.
    assert places[0] < shown.index("two") and places[1] < shown.index("three")


def test_text_that_comes_while_a_prompt_reads_appears() -> None:
    terminal = Terminal()

    async def work(source: PipeInput, own: Screen) -> None:
        prompt: PromptSession[str] = PromptSession()
        reading = asyncio.create_task(prompt.prompt_async(handle_sigint=False))
        while not prompt.app.is_running:
            await asyncio.sleep(0)
        print("a notification", file=sys.stderr)
        print("another one")
        # Other threads may write, too.
        thread = threading.Thread(target=print, args=("of a thread",))
        thread.start()
        while "of a thread\n" not in terminal.getvalue():
            await asyncio.sleep(0.01)
        source.send_text("line\r")
        assert await reading == "line"
        await own.shown()

    async def run() -> None:
        with (
            create_pipe_input() as source,
            create_app_session(source, Vt100_Output(terminal, lambda: Size(24, 80), term="xterm")),
            screen(asyncio.get_running_loop()) as own,
        ):
            async with asyncio.timeout(DEADLINE_S):
                await work(source, own)

    asyncio.run(run())
    shown = terminal.getvalue()
    assert shown.index("a notification\n") < shown.index("another one\n") < shown.index("of a thr")


def test_the_begin_of_a_line_waits_for_its_end() -> None:
    terminal = Terminal()

    async def run() -> None:
        with (
            create_pipe_input() as source,
            create_app_session(source, Vt100_Output(terminal, lambda: Size(24, 80), term="xterm")),
            screen(asyncio.get_running_loop()) as own,
        ):
            prompt: PromptSession[str] = PromptSession()
            reading = asyncio.create_task(prompt.prompt_async(handle_sigint=False))
            while not prompt.app.is_running:
                await asyncio.sleep(0)
            print("whole")
            sys.stdout.write("begin")
            async with asyncio.timeout(DEADLINE_S):
                while "whole\n" not in terminal.getvalue():
                    await asyncio.sleep(0)
                assert "begin" not in terminal.getvalue()
                print(" and end")
                while "begin and end\n" not in terminal.getvalue():
                    await asyncio.sleep(0.01)
                print("flushed", end="", flush=True)
                while "flushed" not in terminal.getvalue():
                    await asyncio.sleep(0.01)
                sys.stdout.write("rest")
                source.send_text("line\r")
                assert await reading == "line"
                await own.shown()
                assert terminal.getvalue().endswith("rest")

    asyncio.run(run())


def test_a_terminal_that_takes_no_text_does_not_hold_the_loop() -> None:
    terminal = Terminal()

    async def run() -> None:
        with create_app_session(output=Vt100_Output(terminal, lambda: Size(24, 80), term="xterm")):
            with screen(asyncio.get_running_loop()) as own:
                terminal.takes_text.clear()
                print("held")
                waiting = asyncio.create_task(own.shown())
                for _ in range(100):
                    await asyncio.sleep(0)
                assert not waiting.done() and "held" not in terminal.getvalue()
                terminal.takes_text.set()
                async with asyncio.timeout(DEADLINE_S):
                    await waiting
                assert "held\n" in terminal.getvalue()

    asyncio.run(run())


def test_the_streams_are_given_back_with_all_text_shown() -> None:
    terminal, before = Terminal(), (sys.stdout, sys.stderr)

    async def run() -> None:
        with create_app_session(output=Vt100_Output(terminal, lambda: Size(24, 80), term="xterm")):
            with screen(asyncio.get_running_loop()):
                sys.stdout.write("no line feed")
                assert sys.stdout is sys.stderr is not before[0]

    asyncio.run(run())
    assert (sys.stdout, sys.stderr) == before and terminal.getvalue().endswith("no line feed")


class BusyTerminal(Terminal):
    """A terminal that takes what a thread writes late, and what is drawn at once."""

    def write(self, text: str) -> int:
        if threading.current_thread() is threading.main_thread():
            return io.StringIO.write(self, text)
        return super().write(text)


async def paged(terminal: Terminal) -> None:
    """Show two pages, the first one late."""
    loop = asyncio.get_running_loop()
    with (
        create_pipe_input() as source,
        create_app_session(source, Vt100_Output(terminal, lambda: Size(24, 80), term="xterm")),
        screen(loop) as own,
    ):
        pager = Pager(own.write, read_key, lambda: (4, 80), own.shown)
        terminal.takes_text.clear()
        loop.call_later(0.1, terminal.takes_text.set)
        source.send_text("c")
        async with asyncio.timeout(DEADLINE_S):
            pager.begin()
            pager.put("one\ntwo\nthree\nfour\n", is_answer=True)
            await pager.end()


def test_the_question_about_the_next_page_stands_below_the_page() -> None:
    terminal = BusyTerminal()
    asyncio.run(paged(terminal))
    shown = terminal.getvalue()
    assert shown.index("three\n") < shown.index(PROMPT) < shown.index("four\n")
