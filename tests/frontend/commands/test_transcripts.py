"""The transcript of ``set logging``, in the spellings of all GDBs; the history."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pgdb.frontend.show.display import TextDisplay
from tests.fakes.typed import Typed


class Screen(Typed):
    """Lines typed one after the other, and what the screen shows of them."""

    def __init__(self) -> None:
        super().__init__(display=TextDisplay)
        self.session.text = "answered"

    def end(self) -> None:
        """End the session."""
        asyncio.run(self.dispatcher.close())


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("on", "off"),
    [
        ("set logging on", "set logging off"),
        ("set logging enabled on", "set logging enabled off"),
        ("set logging enabled", "set logging enabled 0"),
        ("set logging en", "set log e no"),
    ],
)
def test_the_transcript_has_what_is_shown(on: str, off: str, tmp_path: Path) -> None:
    typed = Screen()
    assert "Copying output to gdb.txt." in typed(on)
    shown = typed("echo one", "print @")
    assert "answered" in shown and "Done logging to gdb.txt." in typed(off)
    typed("echo later")
    kept = (tmp_path / "gdb.txt").read_text()
    assert shown in kept and kept.endswith("Done logging to gdb.txt.\n")


def test_it_appends_unless_it_is_to_overwrite(tmp_path: Path) -> None:
    (tmp_path / "my log").write_text("before\n")
    typed = Screen()
    typed("set logging file 'my log'", "set logging on", "echo x", "set logging off")
    assert (tmp_path / "my log").read_text().startswith("before\nCopying output")
    typed("set logging overwrite", "set logging on", "echo x", "set logging off")
    assert "before" not in (tmp_path / "my log").read_text()


def test_redirected_output_is_not_shown(tmp_path: Path) -> None:
    typed = Screen()
    assert typed("set logging redirect on", "set logging on") == "Redirecting output to gdb.txt.\n"
    assert typed("echo one") == ""
    assert typed("set logging off") == "Done logging to gdb.txt.\n"
    assert "answered" in typed("echo one")
    assert "answered" in (tmp_path / "gdb.txt").read_text()


def test_the_end_of_the_session_ends_it(tmp_path: Path) -> None:
    typed = Screen()
    typed("set logging on", "echo one")
    typed.end()
    assert "answered" in (tmp_path / "gdb.txt").read_text()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("set logging", "one of enabled, file"),
        ("set logging foo", "one of enabled, file"),
        ("set logging file", "needs the name of a file"),
        ("set logging enabled maybe", "neither on nor off"),
        ("set logging file /nosuch/x\nset logging on", "No such file or directory"),
        ("set logging file .\nset logging on", "Is a directory"),
        ("set logging on\nset logging on", "already logging to gdb.txt"),
        ("show logging foo", "one of enabled, file"),
        ("set -keep logging on", "is no setting of PGDB"),
    ],
)
def test_what_cannot_be_logged_is_refused(line: str, why: str) -> None:
    typed = Screen()
    assert why in typed(*line.split("\n"))
    assert typed.session.lines == []
    typed.end()


def test_its_settings_are_shown() -> None:
    typed = Screen()
    assert typed("show logging").splitlines() == [
        "logging enabled: off",
        "logging file: gdb.txt",
        "logging overwrite: off",
        "logging redirect: off",
        "logging debugredirect: off",
    ]
    typed("set logging file x", "set logging on", "set logging redirect on")
    assert typed("show logging file", "show logging enabled").splitlines() == [
        "logging file: x",
        "logging enabled: on",
    ]
    typed.end()


def test_a_full_disk_ends_the_transcript_and_not_the_session() -> None:
    typed, said = Screen(), list[str]()
    typed.dispatcher.transcript.on_failure = said.append
    typed("set logging file /dev/full", "set logging on")
    assert "answered" in typed("echo one")
    typed.end()
    assert len(said) == 1 and "No space left on device" in said[0]


def test_the_history_has_numbers() -> None:
    typed = Screen()
    typed(*(f"echo {number}" for number in range(1, 31)))
    lines = typed("history 3").splitlines()
    assert lines == ["   29  echo 29", "   30  echo 30", "   31  history 3"]
    assert len(typed("history").splitlines()) == 32


def test_show_commands_is_gdbs() -> None:
    typed = Screen()
    typed.dispatcher.history = lambda: [f"line {number}" for number in range(1, 31)]

    def numbers(line: str) -> list[int]:
        return [int(each.split()[0]) for each in typed(line).splitlines()]

    assert numbers("show commands") == [*range(21, 31)]
    assert numbers("show commands 10") == [*range(5, 15)]
    assert numbers("show commands +") == [*range(15, 25)]
    assert numbers("show commands 1") == [*range(1, 11)]
    assert numbers("show commands 99") == [*range(21, 31)]
    assert numbers("show commands +") == []
    assert "'x' is no number of a line" in typed("show commands x")
    assert "'0' is no number of lines" in typed("history 0")
