"""``pgdb jobs`` and ``pgdb doctor``: what is shown, and which job is taken when none is named."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path

import pytest

from pgdb.errors import DiscoveryError, StartError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.discovery.listing import RunningJob
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.ui import cli_jobs
from pgdb.frontend.ui.cli_jobs import age, choose_job, look, table

OPTIONS = SessionOptions()


def job(target: str = "4711", **changes: object) -> RunningJob:
    reported = {
        "target": target,
        "launcher": "mpirun",
        "command": f"mpirun -n 4 ./app {target}",
        "ranks": 4,
        "hosts": 1,
        "age_s": 90.0,
        "user": "me",
        "is_ours": True,
    }
    return RunningJob(**(reported | changes))  # type: ignore[arg-type]


class FakeSite:
    """A site with the jobs and the doctor that a test gives it."""

    def __init__(self) -> None:
        self.listed: tuple[RunningJob, ...] = ()
        self.failure: Exception | None = None
        self.examined: list[tuple[bool, str]] = []
        self.directories: list[Path] = []
        self.is_open = False

    async def open(self, options: SessionOptions, directory: SessionDirectory) -> FakeSite:
        assert directory.path.is_dir()
        self.directories.append(directory.path)
        self.is_open = True
        return self

    async def jobs(self) -> tuple[RunningJob, ...]:
        if self.failure is not None:
            raise self.failure
        return self.listed

    async def examine(self, *, as_json: bool, gdb: str) -> tuple[str, int]:
        self.examined.append((as_json, gdb))
        return "GDB: none\n", 1

    async def close(self) -> None:
        self.is_open = False


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> FakeSite:
    made = FakeSite()
    monkeypatch.setattr(cli_jobs, "open_site", made.open)
    return made


def is_left(site: FakeSite) -> bool:
    """Return whether the site and what was made for it are gone."""
    return not site.is_open and not any(each.exists() for each in site.directories)


# -- the table ---------------------------------------------------------------------------------


def test_each_job_has_a_line_under_the_heads_of_its_columns() -> None:
    jobs = (
        job("4711"),
        job("17.0", launcher="srun", ranks=None, hosts=None, age_s=3.4, command="a b"),
        job("9", launcher="mpiexec.hydra", ranks=1024, user="you", is_ours=False),
    )
    assert table(jobs) == (
        "JOB   LAUNCHER       RANKS  HOSTS  AGE   USER             COMMAND\n"
        "4711  mpirun         4      1      90 s  me               mpirun -n 4 ./app 4711\n"
        "17.0  srun           ?      ?      3 s   me               a b\n"
        "9     mpiexec.hydra  1024   1      90 s  you (not yours)  mpirun -n 4 ./app 9\n"
    )


def test_a_job_without_a_command_leaves_no_blanks() -> None:
    assert not [line for line in table((job(command=""),)).splitlines() if line.endswith(" ")]


@pytest.mark.parametrize("command", ["sh -c 'a\nb'", "app \r\n x\x0b", "gr\udcfc\udce9"])
def test_a_command_takes_one_line_that_can_be_printed(command: str) -> None:
    text = table((job(command=command), job("2")))
    assert len(text.splitlines()) == 3
    assert text.encode("utf-8")


def test_lines_are_cut_to_the_width_of_the_terminal() -> None:
    lines = table((job(command="x" * 200), job(command="short")), 80).splitlines()
    assert len(lines[1]) == 80 and lines[1].endswith("x…")
    assert lines[0].endswith("  COMMAND") and lines[2].endswith("  short")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (59.6, "60 s"),
        (119.4, "119 s"),
        (120.0, "2 min"),
        (7199.0, "120 min"),
        (7200.0, "2.0 h"),
        (12600.0, "3.5 h"),
        (172799.0, "48.0 h"),
        (172800.0, "2.0 d"),
        (8640000.0, "100.0 d"),
    ],
)
def test_an_age_is_reported_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert age(seconds) == text


# -- pgdb jobs, pgdb doctor --------------------------------------------------------------------


def seen(mode: str, options: SessionOptions = OPTIONS, *, as_json: bool = False) -> tuple[int, str]:
    out = io.StringIO()
    return asyncio.run(look(mode, options, as_json=as_json, out=out)), out.getvalue()


def test_jobs_are_listed_those_of_others_too(site: FakeSite) -> None:
    site.listed = (job("1"), job("2", user="you", is_ours=False))
    assert seen("jobs") == (0, table(site.listed))
    assert is_left(site)


def test_jobs_are_listed_as_one_object_a_line(site: FakeSite) -> None:
    site.listed = (job("1", command="a\nb é \udcfc"), job("2", ranks=None))
    status, text = seen("jobs", as_json=True)
    first, second = (json.loads(line) for line in text.splitlines())
    assert status == 0
    assert first == {
        "target": "1",
        "launcher": "mpirun",
        "command": "a\nb é \udcfc",
        "ranks": 4,
        "hosts": 1,
        "age_s": 90.0,
        "user": "me",
        "is_ours": True,
    }
    assert second["ranks"] is None
    assert text.encode("utf-8")


def test_no_job_is_no_error_and_reported_with_where_it_was_looked(site: FakeSite) -> None:
    assert seen("jobs") == (0, "no running job on this host or in its Slurm\n")
    assert seen("jobs", SessionOptions(host="far")) == (0, "no running job on far\n")
    assert seen("jobs", as_json=True) == (0, "")


def test_the_doctor_is_asked_about_the_gdb_and_has_the_status(site: FakeSite) -> None:
    assert seen("doctor", SessionOptions(gdb="my-gdb"), as_json=True) == (1, "GDB: none\n")
    assert site.examined == [(True, "my-gdb")]
    assert is_left(site)


def test_a_failure_leaves_nothing_behind(site: FakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site.failure = DiscoveryError("squeue is broken")
    with pytest.raises(DiscoveryError, match="squeue"):
        seen("jobs")
    with pytest.raises(DiscoveryError, match="squeue"):
        asyncio.run(choose_job(OPTIONS, asks=False))
    assert is_left(site)

    async def refuse(options: SessionOptions, directory: SessionDirectory) -> FakeSite:
        site.directories.append(directory.path)
        raise StartError("no way there")

    monkeypatch.setattr(cli_jobs, "open_site", refuse)
    with pytest.raises(StartError):
        seen("jobs")
    assert is_left(site)


# -- the choice --------------------------------------------------------------------------------


def test_the_only_job_of_ours_is_taken(site: FakeSite) -> None:
    site.listed = (job("1", is_ours=False), job("17.0"), job("3", is_ours=False))
    for asks in (True, False):
        assert asyncio.run(choose_job(OPTIONS, asks=asks)) == "17.0"
    assert is_left(site)


@pytest.mark.parametrize(
    ("listed", "whose"),
    [
        ((), ""),
        (
            (job("1", user="eve", is_ours=False), job("2", user="ada\x1b[7m", is_ours=False)),
            r" of yours, only of ada[^\x1b]*, eve",
        ),
    ],
)
def test_without_a_job_the_ways_to_name_one_are_reported(
    site: FakeSite, listed: tuple[RunningJob, ...], whose: str
) -> None:
    site.listed = listed
    with pytest.raises(DiscoveryError, match=rf"^no running job{whose} on this host .*--host"):
        asyncio.run(choose_job(OPTIONS, asks=True))
    with pytest.raises(DiscoveryError, match=rf"^no running job{whose} on far; give the pid"):
        asyncio.run(choose_job(SessionOptions(host="far"), asks=True))


@pytest.mark.parametrize(("asks", "is_terminal"), [(False, True), (True, False)])
def test_where_nobody_can_be_asked_several_jobs_are_named(
    site: FakeSite, asks: bool, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: is_terminal, raising=False)
    site.listed = (job("4711"), job("17.0"))
    reported = r"name one: 4711: mpirun -n 4 \./app 4711; 17\.0: mpirun -n 4 \./app 17\.0$"
    with pytest.raises(DiscoveryError, match=reported):
        asyncio.run(choose_job(OPTIONS, asks=asks))


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [("17.0\r", "17.0"), (" 4711 \r", "4711"), ("9\r\r17\r17.0\r", "17.0")],
)
def test_the_user_is_asked_until_one_is_named(
    site: FakeSite,
    typed: str,
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    site.listed = (job("4711"), job("17.0"))
    assert at_prompt(typed) == chosen
    reported = capsys.readouterr().out
    assert reported.startswith("JOB ") and "./app 4711" in reported
    assert reported.count("is none of 17.0, 4711; 'quit' leaves\n") == typed.count("\r") - 1


@pytest.mark.parametrize("typed", ["\x04", "\x03", "quit\r"])
def test_a_user_who_leaves_chooses_none(
    site: FakeSite, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    site.listed = (job("4711"), job("17.0"))
    with pytest.raises(DiscoveryError, match="no job was chosen"):
        at_prompt(typed)


def at_prompt(typed: str) -> str:
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text(typed)
        return asyncio.run(choose_job(OPTIONS, asks=True))
