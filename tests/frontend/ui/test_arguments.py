"""The command line: the effect of each option, and the errors about wrong ones."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.ui.arguments import DEFAULT_SETTLE_S, parse
from pgdb.ranks import RankSet


@pytest.fixture(autouse=True)
def _no_ssh_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGDB_SSH", raising=False)


def test_without_options_all_is_as_declared() -> None:
    for line in (["attach"], ["launch", "mpirun"], ["jobs"], ["doctor"]):
        assert parse(line).options == SessionOptions()


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("--listen 10.0.0.1", "listen", "10.0.0.1"),
        ("--connect", "connect", True),
        ("--host far", "host", "far"),
        ("--remote-python /opt/bin/python3", "remote_python", "/opt/bin/python3"),
        ("--ship", "ship", True),
        ("--wire-up direct", "wire_up", "direct"),
        ("--wire-up=mpi", "wire_up", "mpi"),
        ("--aggregators 3", "aggregators", 3),
        ("--fan-out 2", "fan_out", 2),
        ("--gdb my-gdb", "gdb", "my-gdb"),
        ("--grace 7.5", "grace_s", 7.5),
        ("--timeout 8", "timeout_s", 8.0),
        ("--start-timeout 9", "start_timeout_s", 9.0),
        ("--no-stop-on-error", "stop_on_error", False),
        ("--verbose", "verbose", True),
        ("-v", "verbose", True),
    ],
)
@pytest.mark.parametrize("mode", ["attach", "launch", "jobs", "doctor"])
def test_an_option_changes_what_it_names_and_nothing_else(
    mode: str, text: str, name: str, value: Any
) -> None:
    line = ["mpirun"] if mode == "launch" else []
    options = parse([mode, *text.split(), *line]).options
    assert options == SessionOptions(**{name: value})


@pytest.mark.parametrize(
    ("option", "name"), [("--ssh", "ssh"), ("--overlay-launcher", "overlay_launcher")]
)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rsh", ("rsh",)),
        ("ssh -p 2222 -i 'my key'", ("ssh", "-p", "2222", "-i", "my key")),
        ("mpirun --mca plm_rsh_agent ssh", ("mpirun", "--mca", "plm_rsh_agent", "ssh")),
    ],
)
def test_commands_are_split_as_a_shell_would(
    option: str, name: str, text: str, words: tuple[str, ...]
) -> None:
    assert getattr(parse(["attach", option, text]).options, name) == words


def test_the_ssh_can_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDB_SSH", "ssh -J gate")
    assert parse(["jobs"]).options.ssh == ("ssh", "-J", "gate")
    assert parse(["jobs", "--ssh", "rsh"]).options.ssh == ("rsh",)


@pytest.mark.parametrize("target", ["4711", "17.0", "17.batch", "17_3", "17_3.0", ""])
def test_a_job_is_a_pid_or_one_of_slurms(target: str) -> None:
    arguments = parse(["attach", *([target] if target else [])])
    assert (arguments.mode, arguments.target, arguments.pids) == ("attach", target, ())


@pytest.mark.parametrize("line", [["-p", "4711"], ["--pid", "4711"], ["-pid", "4711"]])
def test_gdbs_own_words_for_a_pid_are_taken(line: list[str]) -> None:
    assert parse([*line, "--batch"]).target == "4711"
    assert parse(["--pid=4711", "--batch"]).target == "4711"


@pytest.mark.parametrize(
    "target", ["mpirun", "0", "-1", "4711x", "17.", "17.0.1", "17_", "node2:812", "1 2", "../1"]
)
def test_what_is_no_job_is_refused_with_what_to_look_at(target: str) -> None:
    with pytest.raises(UsageError, match=r"no process id and no JOB\[\.STEP\].*'pgdb jobs'"):
        parse(["attach", "--", target])


# -- --pids ------------------------------------------------------------------------------------


def test_pids_are_given_in_the_line() -> None:
    assert parse(["attach", "--pids", "12,node2:812"]).pids == ("12", "node2:812")
    assert parse(["attach", "--pids", " 12 13,, 14 "]).pids == ("12", "13", "14")


@pytest.mark.parametrize("text", ["12\nnode2:812\n", "12 node2:812", "\n12,\r\n node2:812,"])
def test_pids_are_given_in_a_file_or_on_our_input(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pids").write_text(text)
    assert parse(["attach", "--pids", str(tmp_path / "pids")]).pids == ("12", "node2:812")
    monkeypatch.chdir(tmp_path)
    assert parse(["attach", "--pids", "pids"]).pids == ("12", "node2:812")
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert parse(["attach", "--pids", "-"]).pids == ("12", "node2:812")


def test_pids_that_cannot_be_read_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"--pids .*/none: .*No such file"):
        parse(["attach", "--pids", str(tmp_path / "none")])
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"--pids .*/binary: "):
        parse(["attach", "--pids", str(tmp_path / "binary")])
    (tmp_path / "empty").write_text(" \n, \n")
    for text in ("", ",", str(tmp_path / "empty")):
        with pytest.raises(UsageError, match="--pids has no process in it; write for example"):
            parse(["attach", "--pids", text])
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(UsageError, match="--pids has no process in it"):
        parse(["attach", "--pids", "-"])


def test_pids_take_the_place_of_the_job() -> None:
    with pytest.raises(UsageError, match="--pids takes the place of the job"):
        parse(["attach", "--pids", "12", "4711"])


# -- lines -------------------------------------------------------------------------------------


def test_all_behind_the_launcher_is_the_launchers() -> None:
    line = ("mpirun", "-n", "4", "--host", "a", "--json", "./app", "--", "-x", "--batch")
    arguments = parse(["launch", "--batch", *line])
    assert arguments.line == line
    assert arguments.batch and not arguments.json and arguments.options.host == ""
    assert parse(["launch", "--batch", "--", *line]).line == line


def test_parts_of_the_script_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "commands").write_text("two\nthree\n")
    line = ["attach", "-ex", "one", "-x", str(tmp_path / "commands"), "-ex", "four"]
    script = parse(line).script

    async def read_all() -> list[str]:
        found = []
        while (each := await script.read("")) is not None:
            found.append(each)
        return found

    assert asyncio.run(read_all()) == ["one", "two", "three", "four"]


def test_json_is_batch_and_batch_waits_for_all() -> None:
    at_prompt = parse(["attach"])
    assert (at_prompt.batch, at_prompt.settle_s) == (False, DEFAULT_SETTLE_S)
    assert at_prompt.run_timeout_s is None
    in_batch = parse(["attach", "--json", "--timeout", "7"])
    assert (in_batch.batch, in_batch.settle_s, in_batch.run_timeout_s) == (True, None, 7.0)
    assert parse(["attach", "--batch", "--settle", "2"]).settle_s == 2.0


def test_ranks_and_programs_are_read() -> None:
    options = parse(["attach", "--ranks", "0-3,8", "--program", "app", "4711"]).options
    assert (options.ranks, options.program) == (RankSet.parse("0-3,8"), "app")
    arguments = parse(["launch", "--stdin", "-", "--exit-code", "job", "mpirun"])
    assert (arguments.stdin, arguments.exit_code) == ("-", "job")


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("", "attach|launch|run|core|jobs|doctor"),
        ("detach 4711", "invalid choice: 'detach'"),
        ("attach --no-such", "unrecognized arguments: --no-such; see 'pgdb attach --help'"),
        ("run --no-such", "unrecognized arguments: --no-such; see 'pgdb run --help'"),
        ("atach 4711", "did you mean 'attach'?; see 'pgdb --help'"),
        ("attach 4711 --rank 0-3", "unrecognized arguments: --rank 0-3; did you mean '--ranks'?"),
        ("attach --rank=0-3 4711", "unrecognized arguments: --rank=0-3; did you mean '--ranks'?"),
        ("attach --list 10", "unrecognized arguments: --list"),
        ("attach 4711 4712", "unrecognized arguments: 4712"),
        ("jobs 4711", "unrecognized arguments: 4711"),
        ("jobs --pids 1", "unrecognized arguments: --pids"),
        ("doctor --ranks 1", "unrecognized arguments: --ranks"),
        ("launch", "give the launcher's line"),
        ("launch --", "give the launcher's line"),
        ("launch --pids 4 mpirun", "--pids"),
        ("attach --host", "--host: expected one argument"),
        ("attach --wire-up pmi 1", "--wire-up: invalid choice: 'pmi'"),
        ("attach --aggregators 0 1", "--aggregators 0: at least 1 is needed"),
        ("attach --aggregators two 1", "--aggregators: invalid int value: 'two'"),
        ("attach --fan-out 0 1", "--fan-out 0"),
        ("attach --grace 0 1", "--grace: '0' is no time; 0.001 s to 1e9 s is one"),
        ("attach --sbd-cache /a 1", "--sbd-cache needs --sbd"),
        ("attach --sbd-wait 1 1", "--sbd-wait (sbd_wait_s) needs --sbd"),
        (
            "attach --sbd-cache-age 0 1",
            "age: '0' is no number of days above 0, up to 11574",
        ),
        ("attach --sbd-cache-size 0 1", "--sbd-cache-size: '0' is no whole number of MiB above 0"),
        ("attach --sbd-cache-size 2G 1", "size: '2G' is no whole number of MiB above 0"),
        ("attach --grace nan 1", "--grace: 'nan' is no time"),
        ("attach --timeout inf 1", "--timeout: 'inf' is no time"),
        (
            "attach --timeout 2e9 1",
            "'2e9' is no time; 0.001 s to 1e9 s is one",
        ),
        ("attach --start-timeout x 1", "--start-timeout: 'x' is no number of seconds"),
        ("attach --aggregators 257 1", "--aggregators 257: at most 256 on each host"),
        ("attach --settle -1 1", "--settle"),
        ("attach --listen a --connect 1", "--listen and --connect exclude each other"),
        ("attach --listen a --host b 1", "--listen and --host exclude each other"),
        ("jobs --listen a --host b", "--listen and --host exclude each other"),
        ("attach --ranks 5-3 1", "--ranks: "),
        ("attach --ranks x 1", "--ranks: "),
        ("attach --exit-code job 1", "--exit-code=job needs 'launch'"),
        ("attach --exit-code gdb 1", "--exit-code: invalid choice: 'gdb'"),
        ("attach -x no/such/file 1", "-x no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_read_names_the_faulty_part(line: str, reported: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line.split())
    assert reported in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("option", ["--ssh", "--overlay-launcher"])
def test_a_command_with_an_open_quote_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"^{option} ssh 'x: No closing quotation"):
        parse(["jobs", option, "ssh 'x"])


@pytest.mark.parametrize("name", ["", "  "])
@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("--log", "FILE"),
        ("--record", "FILE"),
        ("--stdin", "FILE"),
        ("-x", "FILE"),
        ("--gdb", "GDB"),
        ("--host", "HOST"),
        ("--listen", "ADDRESS"),
        ("--program", "NAME"),
        ("--ssh", "COMMAND"),
        ("--overlay-launcher", "COMMAND"),
        ("--remote-python", "PATH"),
        ("--sbd-cache", "DIR"),
    ],
)
def test_an_option_without_its_name_is_refused(option: str, what: str, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(["launch", option, name, "mpirun", "a"])
    assert str(caught.value) == f"{option} '': a {what} is needed, or no {option}"


@pytest.mark.parametrize("option", ["-ex", "--gdb-command"])
def test_a_command_that_is_no_text_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"^{option}: byte 0xff at character 4 of the line"):
        parse(["attach", option, 'p "\udcff"', "1"])
    assert parse(["launch", "mpirun", "./a\udcff"]).line == ("mpirun", "./a\udcff")


def test_no_ranks_are_no_ranks_to_attach_to() -> None:
    with pytest.raises(UsageError, match="--ranks: 0!0 is an empty set"):
        parse(["attach", "--ranks", "0!0", "1"])


def test_an_empty_ssh_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDB_SSH", " ")
    with pytest.raises(UsageError, match=r"^--ssh names no command"):
        parse(["jobs"])


def test_a_recording_or_a_report_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^'' is no FILE"):
        parse(["replay", ""])
    with pytest.raises(UsageError, match=r"^-o '': a FILE is needed"):
        parse(["report-bug", "-o", "", "session.log"])
    with pytest.raises(UsageError, match=r"^'' is no LOG"):
        parse(["report-bug", ""])
    assert parse(["report-bug"]).target == ""
