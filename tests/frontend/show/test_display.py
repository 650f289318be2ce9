"""Output on the user's terminal."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterable

import pytest

from pgdb.errors import CommandError, StartError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import (
    JobOutput,
    LateAnswer,
    Notification,
    RankEvents,
    SessionNotice,
)
from pgdb.frontend.commands.table import Shown
from pgdb.frontend.discovery.listing import RunningJob
from pgdb.frontend.show.display import LONGEST_WINDOW_S, WINDOW_S, StartProgress, TextDisplay
from pgdb.frontend.ui import main as main_module
from pgdb.frontend.ui.batch import BatchText
from pgdb.frontend.ui.cli_jobs import table
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Exit, Text
from tests.fakes.virtual_time import run_at_once

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe"
TAME = r"\033]0;owned\007\033[2J\23331m\u202egnp.exe"


class Screen(io.StringIO):
    """A terminal that keeps its output."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_line_of_the_job_that_never_ends_is_shown(is_terminal: bool) -> None:
    out = Screen(is_terminal=is_terminal)
    display = TextDisplay(out)
    for _ in range(30):
        reported = JobOutput(stream="stdout", text="x" * 10000, data=b"x" * 10000)
        display.output(reported)
    shown = out.getvalue().count("x")
    assert 230_000 < shown < 300_000
    display.close()
    assert out.getvalue().count("x") == 300_000


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("way", ["answer", "source", "shown", "text", "error", "late"])
def test_no_control_characters_of_the_program_get_through(
    way: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Screen(is_terminal=is_terminal)
    display = TextDisplay(out)
    said = EquivalenceClass(RankSet([0]), record=Text(text=EVIL))
    answer = Answer(command="echo", ranks=RankSet([0]), classes=(said,))
    match way:
        case "answer" | "source":
            display.answer(answer, f"1\t{EVIL}", is_source=way == "source")
        case "shown":
            display.shown(Shown(text=EVIL))
        case "text":
            display.text(EVIL)
        case "error":
            display.error(CommandError(EVIL), "")
        case _:
            display.notify(LateAnswer(answer=answer))
    seen = out.getvalue()
    assert "owned" in seen and "\x1b]" not in seen and "\x1b[2J" not in seen
    assert not {"\x07", "\x9b", "\u202e"} & set(seen)
    if not is_terminal:
        assert TAME in seen and "\x1b" not in seen


def printed(text: str, stream: str = "stdout") -> Notification:
    data = text.encode("utf-8")
    return JobOutput(text=text, stream=stream, data=data)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_output_of_the_job_is_made_harmless_at_a_terminal_only(is_terminal: bool) -> None:
    out = Screen(is_terminal=is_terminal)
    display = TextDisplay(out)
    for piece in (f"one {EVIL[:8]}", f"{EVIL[8:]}\n\x1b[31mred", "\x1b[0m\n", "\x1b[3"):
        display.output(printed(piece))
    display.close()
    if is_terminal:
        red = "\x1b[31mred\x1b[0m\x1b[0m"
        assert out.getvalue() == f"one {TAME}\n{red}\x1b[0m\n\\033[3\n"
    else:
        assert out.getvalue() == f"one {EVIL}\n\x1b[31mred\x1b[0m\n\x1b[3\n"


def shown_of(pieces: Iterable[str | Notification], *, at_prompt: bool) -> str:
    """Return the screen after pieces of output, each of which is followed by silence."""
    out = Screen(is_terminal=True)
    display = TextDisplay(out)

    async def show() -> None:
        silence_s = 0.01
        with display.prompting() if at_prompt else contextlib.nullcontext():
            for piece in pieces:
                display.notify(printed(piece) if isinstance(piece, str) else piece)
                while display._quiet is not None:
                    await asyncio.sleep(silence_s)
        display.close()

    asyncio.run(show())
    return out.getvalue()


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdb.frontend.show.display.QUIET_S", 0.02)
    monkeypatch.setattr("pgdb.frontend.show.display.QUIET_AT_PROMPT_S", 0.02)


def test_a_question_without_a_line_end_is_shown_when_nothing_follows(short_silence: None) -> None:
    assert shown_of(["Enter n: ", "it is 5\n", "bye"], at_prompt=False) == (
        "Enter n: it is 5\nbye\n"
    )
    # The prompt is drawn from the first column.
    assert shown_of(["Enter n: ", "it is 5\n"], at_prompt=True) == "Enter n: \nit is 5\n"


def test_other_texts_begin_below_an_unfinished_line(short_silence: None) -> None:
    note = SessionNotice(text="slow")
    shown = shown_of(["Enter n: ", note, printed("oops\n", "stderr"), "5"], at_prompt=False)
    assert shown == "Enter n: \nnote: slow\noops\n5\n"
    shown = shown_of(["Enter n: ", printed("oops\n", "stderr")], at_prompt=False)
    assert shown == "Enter n: \noops\n"


def test_a_typed_line_ends_the_line_of_the_question(short_silence: None) -> None:
    out = Screen(is_terminal=True)
    display = TextDisplay(out)

    async def show() -> None:
        display.notify(printed("Enter n: "))
        while display._quiet is not None:
            await asyncio.sleep(0.01)
        display.line_was_typed()
        display.text("stopped")

    asyncio.run(show())
    assert out.getvalue() == "Enter n: stopped\n"  # with the line that the terminal echoes


class Stream(io.TextIOWrapper):
    """Standard output, as a terminal or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def written(self) -> bytes:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


def test_batch_passes_output_on_unchanged_but_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, file = Stream(is_terminal=True), Stream(is_terminal=False)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr("sys.stderr", file)
    display = BatchText()
    for stream in ("stdout", "stderr"):
        display.output(printed(f"{EVIL}\x1b[", stream))
    display.close()
    assert file.written == f"{EVIL}\x1b[".encode()
    assert terminal.written == f"{TAME}\\033[".encode()


def test_the_start_and_its_errors_show_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = Screen(is_terminal=False)
    progress = StartProgress(out, verbose=True)
    progress.step(f"note: ranks [0] on {EVIL} are lost")
    progress.step(f"found 1 rank on {EVIL}")
    live = Screen(is_terminal=True)
    StartProgress(live).step(f"found 1 rank on {EVIL}")
    main_module._complain(str(StartError(EVIL)))
    said = capsys.readouterr().err
    for text in (out.getvalue(), said):
        assert TAME in text and "\x1b" not in text
    assert TAME in live.getvalue().removeprefix("\r\x1b[K")
    assert "\x1b" not in live.getvalue().removeprefix("\r\x1b[K")


def test_other_users_cannot_reach_the_terminal_by_naming_their_jobs() -> None:
    evil = RunningJob(
        target="12",
        launcher=f"mpirun{EVIL}",
        command=f"mpirun ./{EVIL}\n(pgdb) ",
        ranks=None,
        hosts=None,
        age_s=1.0,
        user="mallory",
        is_ours=False,
    )
    text = table((evil,))
    assert text.count(TAME) == 2 and "\x1b" not in text and text.count("\n") == 2


def test_tabs_and_lines_stay() -> None:
    out = Screen(is_terminal=False)
    TextDisplay(out).text("a\tb\nc")
    assert out.getvalue() == "a\tb\nc\n"


def test_events_are_merged_until_they_are_shown() -> None:
    out = Screen(is_terminal=False)
    display = TextDisplay(out)
    display._events.add(RankSet([0]), Exit(code=3), ())
    display._events.add(RankSet([1]), Exit(code=3), ())
    display.flush()
    assert out.getvalue() == "[0-1] exited with code 3\n"


def ends_shown(count: int, gap_s: float) -> str:
    """Return the screen after the ends of *count* ranks that come *gap_s* seconds apart."""
    out = Screen(is_terminal=False)

    async def scenario() -> None:
        display = TextDisplay(out)
        for rank in range(count):
            ended = EquivalenceClass(RankSet([rank]), record=Exit(code=3))
            display.notify(RankEvents(classes=(ended,)))
            await asyncio.sleep(gap_s)
        await asyncio.sleep(LONGEST_WINDOW_S)

    run_at_once(scenario())
    return out.getvalue()


def test_events_that_follow_each_other_closely_are_one_message() -> None:
    assert ends_shown(3, WINDOW_S * 0.8) == "[0-2] exited with code 3\n"


def test_events_after_a_pause_are_a_message_of_their_own() -> None:
    assert ends_shown(2, WINDOW_S * 1.2) == "[0] exited with code 3\n[1] exited with code 3\n"


def test_a_stream_of_events_is_shown_while_it_lasts() -> None:
    gap_s = WINDOW_S * 0.8
    shown = ends_shown(int(2 * LONGEST_WINDOW_S / gap_s), gap_s).splitlines()
    assert len(shown) > 1
    assert int(shown[0].partition("]")[0].partition("-")[2]) == int(LONGEST_WINDOW_S / gap_s)
