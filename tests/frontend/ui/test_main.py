"""The program: its exit status, what it says, and what it opens for the job."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import DiscoveryError, StartError
from pgdb.frontend.api.exit_status import EXIT_START, EXIT_USAGE
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.store.settings import Settings
from pgdb.frontend.system import workers
from pgdb.frontend.ui import job_input
from pgdb.frontend.ui import main as main_module
from pgdb.frontend.ui.arguments import parse
from pgdb.frontend.ui.job_input import JobInput
from pgdb.frontend.ui.main import main


def test_a_bad_line_has_the_status_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attach", "--fan-out", "0"]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.err == "pgdb: --fan-out 0: at least 1 is needed\n" and not captured.out


@pytest.mark.parametrize("mode", ["jobs", "doctor"])
def test_jobs_and_doctor_need_no_session(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def look(mode: str, options: SessionOptions, *, as_json: bool) -> int:
        asked.append((mode, options.host, as_json))
        return 7

    monkeypatch.setattr(main_module, "look", look)
    assert main([mode, "--host", "far", "--json"]) == 7
    assert asked == [(mode, "far", True)]


def test_a_failure_is_one_line_and_the_status_of_no_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def look(mode: str, options: SessionOptions, *, as_json: bool) -> int:
        raise DiscoveryError("no way")

    monkeypatch.setattr(main_module, "look", look)
    assert main(["jobs"]) == EXIT_START
    assert capsys.readouterr().err == "pgdb: no way\n"


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        (["launch", "--host", "far", "mpirun", "./x"], "--host is for attach; to launch there"),
        (["launch", "--connect", "mpirun", "./x"], "--connect is for attach"),
    ],
)
def test_what_only_attach_can_do_is_refused_for_launch(
    line: list[str], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line[:1], "--batch", *line[1:]]) == EXIT_USAGE
    assert reported in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_input_from_a_pipe_without_a_writer_is_waited_for_until_the_start_has_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_module, "launch", None)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = ["launch", "--batch", "--start-timeout", "2", "--stdin", str(pipe), "mpirun", "./x"]
    assert main(line) == EXIT_START
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"pgdb: --stdin {pipe} could not be opened within 2 s: no program has opened the named "
        "pipe for writing; --start-timeout gives it longer"
    )


@pytest.mark.timeout(60)
def test_input_from_a_pipe_is_there_when_its_writer_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writers: list[threading.Thread] = []

    def come(_: object, text: str) -> None:
        assert text.startswith(f"note: --stdin {pipe} is not open yet")
        writers.append(threading.Thread(target=pipe.write_bytes, args=(b"input",)))
        writers[-1].start()

    async def launch(*_: object, stdin: int, **__: object) -> None:
        assert os.get_blocking(stdin)
        raise StartError(f"there was {os.read(stdin, 99)!r}, then {os.read(stdin, 99)!r}")

    monkeypatch.setattr(main_module, "launch", launch)
    monkeypatch.setattr(job_input, "NOTE_S", 0.0)
    monkeypatch.setattr(main_module.StartProgress, "step", come)
    assert main(["launch", "--batch", "--stdin", str(pipe), "mpirun", "./x"]) == EXIT_START
    assert capsys.readouterr().err == "pgdb: there was b'input', then b''\n"
    (writer,) = writers
    writer.join()


def test_a_directory_is_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--batch", "--stdin", str(tmp_path), "mpirun", "x"]) == EXIT_USAGE
    assert capsys.readouterr().err == f"pgdb: --stdin {tmp_path}: it is a directory\n"


def test_a_prompt_comes_though_the_kept_settings_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that hangs behaves so."""
    hangs = threading.Event()
    reported: list[str] = []
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(main_module, "read_settings", lambda _: hangs.wait())
    monkeypatch.setattr(main_module, "SETTINGS_S", 0.1)
    monkeypatch.setattr(workers, "LEAST_S", 0.1)

    class Listens:
        """A session, and a shell that takes what the command line says."""

        def note(self, text: str) -> None:
            reported.append(text)

        def apply(self, settings: Settings) -> None:
            reported.append(f"timeout {settings.values['timeout_s']}")

    program: Any = main_module._Program(JobInput(parse(["attach", "--timeout", "7"])))
    both: Any = Listens()
    try:
        asyncio.run(asyncio.wait_for(program._use_kept_settings(both, both), 60))
    finally:
        hangs.set()
    assert reported[0] == "timeout 7.0"
    assert str(tmp_path) in reported[1] and "does its file system hang?" in reported[1]
    assert len(reported) == 2


def test_ranks_are_detached_before_the_history_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Closes:
        """A session, or its prompt."""

        log = job = leftover_output = None

        def __init__(self, name: str) -> None:
            self.name = name

        async def close(self, **_: object) -> None:
            done.append(self.name)

    async def start(_: object) -> Closes:
        return Closes("session")

    async def serve(program: Any, _: object) -> None:
        program._repl = Closes("history")
        raise asyncio.CancelledError  # as by SIGHUP

    monkeypatch.setattr(main_module._Program, "_start", start)
    monkeypatch.setattr(main_module._Program, "_serve", serve)
    assert main(["attach", "1"]) == EXIT_START
    assert done == ["session", "history"]
