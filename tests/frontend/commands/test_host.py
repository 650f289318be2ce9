"""Commands of the shell on the front end's host, and questions before commands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.errors import SessionEndedError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import (
    JobOutput,
    RankEvents,
    SessionNotice,
)
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.system.typed_names import change_directory
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Frame, Stop
from tests.fakes.typed import ALL, Typed


@pytest.fixture(autouse=True)
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.setenv("VISUAL", "echo")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("shell echo a; echo b >&2", "a\nb\n"),
        ("! echo here", "here\n"),
        ("!echo near", "near\n"),
        ("!/bin/echo path", "path\n"),
        ("she echo short", "short\n"),
        # The slash and the ampersand are the shell's.
        ("shell /bin/echo a/b", "a/b\n"),
        ("shell (exit 3) & wait $!; echo $?", "3\n"),
        ("shell true", ""),
        ("shell printf 'no newline'", "no newline\n"),
        (r"shell printf '\377'", "\\xff\n"),
        ("make -v >/dev/null; echo made", "made\n"),
    ],
)
def test_a_command_of_the_shell_runs_here(line: str, shown: str) -> None:
    assert Typed()(line) == shown


def test_it_runs_in_the_current_directory(tmp_path: Path) -> None:
    assert Typed()("shell pwd") == f"{tmp_path}\n"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory below that in which the process is; its name is typed as ``elsewhere``."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    yield path
    change_directory(None)


def test_cd_is_for_this_host_and_for_the_gdbs(elsewhere: Path) -> None:
    (elsewhere / "lines").write_text("shell echo from the file\n")
    typed = Typed()
    typed.session.text = f"Working directory {elsewhere}."
    typed("cd elsewhere")
    # The GDBs can be somewhere else, and get the whole name.
    assert typed.session.lines == [f"cd {elsewhere}"]
    assert typed("shell pwd") == f"{elsewhere}\n"
    assert typed("source lines") == "from the file\n"
    assert typed("edit lines").endswith(f"+1 {elsewhere}/lines\n")
    typed("set logging file log", "set logging on", "set logging off")
    assert (elsewhere / "log").exists()
    assert typed("pwd").count("Working directory") == 1
    typed("cd ..")
    assert typed("shell pwd") == f"{elsewhere.parent}\n"
    # The process has not moved: a launcher's line has names that count from its directory.
    assert Path.cwd() == elsewhere.parent


def test_cd_without_a_name_goes_home(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(elsewhere))
    typed = Typed()
    typed.session.text = "Working directory."
    typed("cd")
    assert typed("shell pwd") == f"{elsewhere}\n"


def test_cd_of_some_ranks_is_for_their_gdbs_alone(elsewhere: Path) -> None:
    typed = Typed()
    typed.session.text = "Working directory."
    asyncio.run(typed.dispatcher.run_on("cd elsewhere", RankSet([0])))
    assert typed.session.lines == ["cd elsewhere"]
    assert typed("shell pwd") == f"{elsewhere.parent}\n"


def test_a_directory_that_only_the_hosts_have_is_for_the_gdbs_alone(elsewhere: Path) -> None:
    typed = Typed()
    assert "No symbol" in typed("cd nosuch") and not typed.session.notes
    typed.session.text = "Working directory /hosts/nosuch."
    typed("cd nosuch")
    assert typed.session.lines == ["cd nosuch"] * 2
    assert f"still count from {elsewhere.parent}" in typed.session.notes[0]
    assert typed("shell pwd") == f"{elsewhere.parent}\n"
    assert f"Working directory {elsewhere.parent} on this host." in typed("pwd")


def test_cd_needs_no_gdb(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(line: str, timeout_s: float | None = None) -> Answer:
        raise SessionEndedError("the session has ended")

    typed = Typed()
    monkeypatch.setattr(typed.session, "execute_plain", fail)
    typed.session.has_ended = True
    assert typed("cd elsewhere") == f"Working directory {elsewhere}.\n"
    assert typed("pwd") == f"Working directory {elsewhere}.\n"
    assert "there is no directory" in typed("cd nosuch")


def test_a_directory_that_is_gone_is_named(elsewhere: Path) -> None:
    typed = Typed()
    typed("cd elsewhere")
    elsewhere.rmdir()
    assert f"in {elsewhere}: No such file or directory" in typed("shell pwd")


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("shell exit 3", "set $_shell_exitcode = 3"),
        ("shell true", "set $_shell_exitcode = 0"),
        ("shell kill -9 $$", "set $_shell_exitsignal = 9"),
        ("pipe shell echo x | false", "set $_shell_exitcode = 1"),
    ],
)
def test_the_status_is_kept_in_the_gdbs(line: str, kept: str) -> None:
    typed = Typed()
    typed(line)
    assert typed.session.lines[-1] == kept


def test_one_of_the_two_statuses_is_void() -> None:
    typed = Typed()
    typed("shell kill -9 $$")
    typed("shell true")
    typed("shell true")
    assert typed.session.lines[1:] == [
        "set $_shell_exitcode = 0",
        "set $_shell_exitsignal = (void) 0",
        "set $_shell_exitcode = 0",
    ]


def test_the_status_is_kept_for_ranks_that_have_exited() -> None:
    typed = Typed()
    typed.session.state.exited, typed.session.state.stopped = ALL, RankSet()
    typed("shell exit 3")
    assert typed.session.lines == ["set $_shell_exitcode = 3"]


def test_ranks_that_run_are_not_waited_for_with_the_status() -> None:
    typed = Typed()
    typed.session.asked = ALL
    typed("shell true")
    assert typed.session.lines == []


def test_a_shell_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/nosuch/shell")
    assert "/nosuch/shell cannot be started: No such file" in Typed()("shell true")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("pipe echo text | tr a-z A-Z", "[0-3] ONE\n"),
        ("| echo text | cat | wc -l", "1\n"),
        ("|echo text|tr -d '[]'", "0-3 one\n"),
        ("pipe -d %% echo a | b %% cat", "[0-3] one\n"),
    ],
)
def test_output_goes_through_a_pipe(line: str, shown: str) -> None:
    typed = Typed()
    typed.session.text = "one"
    assert [each.strip() for each in typed(line).splitlines()] == shown.splitlines()


def test_a_pipe_without_a_command_repeats_the_last_one() -> None:
    typed = Typed()
    typed.session.text = "one"
    typed("echo text", "pipe | cat", "| | wc -l")
    assert [each for each in typed.session.lines if each.startswith("echo")] == ["echo text"] * 3


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("pipe", "there is no '|' before a command of the shell"),
        ("pipe echo x", "there is no '|'"),
        ("pipe echo x |", "the command of the shell is missing"),
        ("pipe | cat", "there is no last command"),
        ("pipe -d", "-d needs a delimiter"),
        ("pipe -d X echo x | cat", "there is no 'X'"),
    ],
)
def test_a_pipe_that_is_not_understood(line: str, why: str) -> None:
    assert why in Typed()(line)


def test_an_error_of_the_command_does_not_start_the_shell(tmp_path: Path) -> None:
    assert "is no command" in Typed()("pipe @x | touch made")
    assert not (tmp_path / "made").exists()


def write_source(path: Path) -> str:
    path.write_text("int main(void) { return 0; }\n")
    return str(path)


def test_edit_opens_the_selected_frame(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VISUAL", "echo visual")
    monkeypatch.setenv("EDITOR", "echo editor")
    typed = Typed()
    name = write_source(tmp_path / "a file.c")
    typed.session.frame = Frame(level=0, function="main", file="a file.c", fullname=name, line=7)
    assert typed("edit") == f"visual +7 {name}\n"
    monkeypatch.delenv("VISUAL")
    assert typed("edit") == f"editor +7 {name}\n"


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ('Line 12 of "{}" starts at address 0x1 <main> and ends at 0x2 <main+1>.\n', 12),
        ('Line 3 of "{}" is at address 0x1 <main> but contains no code.\n', 3),
    ],
)
def test_edit_opens_a_location(
    answer: str, line: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VISUAL", "echo")
    typed = Typed()
    name = write_source(tmp_path / "ring.c")
    typed.session.text = answer.format(name)
    assert typed("edit main") == f"+{line} {name}\n"
    assert typed.session.lines[0] == "with filename-display absolute -- info line main"


def test_edit_opens_a_file_that_no_program_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VISUAL", "echo")
    write_source(tmp_path / "notes")
    assert Typed()("edit notes:4") == f"+4 {tmp_path}/notes\n"
    assert Typed()("edit notes") == f"+1 {tmp_path}/notes\n"


def test_edit_starts_no_editor_of_its_own_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A batch run would wait for its user for ever."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").touch()
    for each in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setattr(os, "isatty", lambda _: False)
    assert "edit: vi needs a terminal, and there is none" in Typed()("edit notes")


def test_edit_says_why_there_is_nothing_to_open() -> None:
    typed = Typed()
    assert "edit: No symbol." in typed("edit nosuch")
    assert "has no source; 'up' selects its caller" in typed("edit")
    typed.session.frame = Frame(level=0, function="f", file="f.c", fullname="/nosuch/f.c", line=1)
    assert "there is no file /nosuch/f.c on this host" in typed("edit")


def test_stops_go_to_the_command_of_a_pipe(tmp_path: Path) -> None:
    typed = Typed()
    session, display = typed.session, typed.dispatcher.display
    assert isinstance(display, TextDisplay)
    session.listeners.append(display.notify)
    session.text = "said"
    stop = Stop(reason="breakpoint-hit", breakpoint=1, frame=Frame(level=0, function="work"))

    def happens() -> None:
        if not session.lines[-1].startswith("ptype"):
            return  # the status of the shell is kept
        for each in list(session.listeners):
            each(RankEvents(classes=(EquivalenceClass(ranks=ALL, record=stop),)))
            each(JobOutput(stream="stdout", text="from the job\n"))
            each(SessionNotice(text="a notice"))

    session.on_command = happens
    shown = typed("pipe ptype x | cat > piped; echo shell")
    assert "from the job" in shown and "note: a notice" in shown and "shell" in shown
    assert "Breakpoint 1" not in shown
    piped = (tmp_path / "piped").read_text()
    assert "[0-3] Breakpoint 1, work" in piped and "said" in piped
    assert "from the job" not in piped and "a notice" not in piped
    # Later stops are shown as ever.
    assert "[0-3] Breakpoint 1, work" in typed("ptype y")


@pytest.mark.parametrize(
    ("line", "question", "command"),
    [
        ("delete", "Delete all breakpoints", "delete []"),
        ("d", "Delete all breakpoints", "delete []"),
        ("delete breakpoints", "Delete all breakpoints", "delete []"),
        ("delete display", "Delete all auto-display", "delete display"),
        ("undisplay", "Delete all auto-display", "undisplay"),
        ("return", "ranks [0-3] return now", "return"),
        ("return 3", "ranks [0-3] return now", "return 3"),
        ("directory", "Reinitialize source path", "directory"),
    ],
)
def test_gdbs_questions_are_asked(line: str, question: str, command: str) -> None:
    declined, agreed, silent, off = (
        Typed(reply=False),
        Typed(reply=True),
        Typed(),
        Typed(reply=False),
    )
    assert declined(line) == "not carried out\n"
    assert question in declined.questions[0] and declined.session.lines == []
    agreed(line)
    assert agreed.session.lines == [command]
    # Nobody can be asked in batch runs, and nobody wants to be with 'set confirm off'.
    silent(line)
    off("set confirm off", line)
    assert silent.session.lines == off.session.lines == [command] and off.questions == []


@pytest.mark.parametrize("line", ["delete 1", "disable", "undisplay 1", "directory /tmp"])
def test_nothing_is_asked_about_a_part(line: str) -> None:
    typed = Typed(reply=False)
    typed(line)
    assert typed.questions == [] and len(typed.session.lines) == 1


def test_nothing_is_asked_without_breakpoints_or_in_a_file(tmp_path: Path) -> None:
    typed = Typed(reply=False)
    typed.session.has_some = False
    typed("delete")
    typed.session.has_some = True
    (tmp_path / "commands").write_text("delete\nreturn\n")
    typed(f"source {tmp_path}/commands")
    assert typed.questions == [] and "delete []" in typed.session.lines


def test_source_with_v_shows_each_line(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text("# a comment\nshell true\n")
    outer.write_text(f"source -v {inner}\nshell true\n")
    typed = Typed()
    assert typed(f"source -v {outer}") == f"+source -v {inner}\n++shell true\n+shell true\n"
    assert typed(f"source {outer}") == "++shell true\n"
    # Each line is shown once.
    typed("set trace-commands on")
    assert typed(f"source -v {inner}") == f"+source -v {inner}\n++shell true\n"


@pytest.mark.parametrize("line", ["run 5", "restart 5", "start 5"])
def test_arguments_that_no_launch_can_have_are_refused_before_a_question(line: str) -> None:
    async def read() -> tuple[str, ...]:
        raise UsageError("the line has 2 programs")

    async def relaunch(arguments: tuple[str, ...] | None) -> None:
        raise AssertionError("nothing is to be launched")

    typed = Typed(reply=True)
    typed.session.check_restart = lambda: None  # type: ignore[attr-defined]
    typed.dispatcher.program_arguments = read
    typed.dispatcher.relaunch = relaunch
    assert "the line has 2 programs" in typed(line)
    assert typed.questions == []
