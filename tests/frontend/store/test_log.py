"""The log of a session: kept data, removed data, and independence of the session."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import (
    JobEnded,
    JobOutput,
    RankEvents,
    RanksLost,
    SessionNotice,
)
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.store import log as log_module
from pgdb.frontend.store.log import SessionLog, open_log, read_head
from pgdb.frontend.store.redact import Redactor
from pgdb.frontend.ui.main import main
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay import messages
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import AnyOperation
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointsMade,
    Exit,
    Failure,
    Frame,
    Output,
    Record,
    Stack,
    Stop,
    Text,
    Value,
    Variable,
    Variables,
    Various,
)

ALL = RankSet.range(0, 4)
SECRET = "swordfish"
ENVIRONMENT = {"HOME": "/home/me", "MY_API_TOKEN": "tok-0123456", "LANG": "C.UTF-8", "PASS": "abc"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def failures() -> list[str]:
    return []


Begin = Callable[..., SessionLog]


@pytest.fixture
def begin(tmp_path: Path, failures: list[str]) -> Iterator[Begin]:
    """Begin a log in ``session.log``."""
    begun: list[SessionLog] = []

    def make(*, keeps_values: bool = False, hidden: tuple[str, ...] = (), **how: Any) -> SessionLog:
        redactor = Redactor(ENVIRONMENT, hidden=hidden, keeps_values=keeps_values)
        log = SessionLog(tmp_path / "session.log", redactor, on_failure=failures.append, **how)
        begun.append(log)
        return log

    yield make
    for log in begun:
        log.close()


def said(record: Record, slots: tuple[str, ...] = ()) -> Answer:
    each = EquivalenceClass(ranks=ALL, record=record, slots=slots)
    return Answer("p", ALL, (each,), Missing(late=RankSet([9])), request_id=3, elapsed_s=0.25)


# -- what is in it -----------------------------------------------------------------------------

FRAME = Frame(
    level=0,
    function="solve",
    arguments=(Variable(name="key", value=SECRET, is_argument=True),),
    file="/home/me/src/a.c",
    line=12,
)
RECORDS: list[tuple[Record, str]] = [
    (Value(text=SECRET), "characters"),
    (Text(text=f"x = {SECRET}\n"), "characters"),
    (Variables(items=(Variable(name="door", value=SECRET),)), "door"),
    (Stack(frames=(FRAME,)), "solve ~/src/a.c:12"),
    (Stop(reason="watchpoint-trigger", frame=FRAME, detail=f"Old value = {SECRET}"), "solve"),
    (BreakpointsMade(breakpoints=(Breakpoint(number=2, kind="hw watchpoint", what=SECRET),)), "2 "),
    (Various(template=Value(text=SECRET)), "Value"),
    (Failure(message='No symbol "q" in current context.'), 'No symbol "q" in current context.'),
]


@pytest.mark.parametrize(("record", "stays"), RECORDS)
def test_values_go_and_structure_stays(
    begin: Begin, tmp_path: Path, record: Record, stays: str
) -> None:
    log = begin()
    log.answer(said(record))
    log.close()
    text = (tmp_path / "session.log").read_text("utf-8")
    assert SECRET not in text
    (answer,) = [line for line in lines(tmp_path / "session.log") if line["event"] == "answer"]
    assert stays in json.dumps(answer, ensure_ascii=False).replace('\\"', '"')
    assert (answer["elapsed_s"], answer["request"], answer["missing"]) == (0.25, 3, {"late": "9"})
    assert answer["classes"][0]["ranks"] == "0-3"


@pytest.mark.parametrize(("record", "stays"), RECORDS[:4])
def test_values_stay_where_they_are_wanted(
    begin: Begin, tmp_path: Path, record: Record, stays: str
) -> None:
    del stays
    log = begin(keeps_values=True)
    log.answer(said(record))
    log.close()
    assert SECRET in (tmp_path / "session.log").read_text("utf-8")
    assert read_head(tmp_path / "session.log")["keeps_values"] is True  # type: ignore[index]


OPERATIONS: list[tuple[AnyOperation, dict[str, Any]]] = [
    (messages.Evaluate(expression="a[3].x == 'q'"), {"expression": 'a[3].x == "…"'}),
    (messages.Evaluate(expression=f'strcmp(s, "{SECRET}")'), {"expression": 'strcmp(s, "…")'}),
    (messages.Evaluate(expression=f"x = {SECRET}"), {"expression": "x = …"}),
    (messages.Evaluate(expression=f"x <= y && z != {3}"), {"expression": "x <= y && z != 3"}),
    (messages.Console(command="info threads"), {"command": "info threads"}),
    (messages.Console(command=f"set var x={SECRET}"), {"command": "set …"}),
    (messages.Console(command=f"echo {SECRET}"), {"command": "echo …"}),
    (messages.Console(command=f"set environment A={SECRET}"), {"command": "set …"}),
    (messages.Script(lines=("python", f"print('{SECRET}')", "end")), {"lines": 3}),
    (
        messages.InsertBreakpoint(command=f'b a.c:3 if !strcmp(s, "{SECRET}")', first_number=1),
        {"command": 'b a.c:3 if !strcmp(s, "…")'},
    ),
    (
        messages.BreakpointCommands(numbers=("1",), commands=(f"echo {SECRET}",)),
        {"numbers": ["1"], "lines": 1},
    ),
    (messages.Resume(command="until", argument="a.c:7"), {"argument": "a.c:7"}),
    (messages.Backtrace(threads=True), {"threads": True}),
]


@pytest.mark.parametrize(("operation", "described"), OPERATIONS)
def test_requests_are_logged_without_literals(
    begin: Begin, tmp_path: Path, operation: AnyOperation, described: dict[str, Any]
) -> None:
    log = begin()
    log.request(5, operation, ALL)
    log.close()
    (request,) = [each for each in lines(tmp_path / "session.log") if each["event"] == "request"]
    assert {name: request[name] for name in described} == described
    assert request["what"] == type(operation).__name__ and request["ranks"] == "0-3"
    assert SECRET not in json.dumps(request)


def test_secrets_and_arguments_go_wherever_they_stand(begin: Begin, tmp_path: Path) -> None:
    log = begin(hidden=(f"--door={SECRET}", "input.dat", "-n", "12"))
    credentials = make_credentials().decode("ascii")
    log.step(f"note: '{SECRET}' in 12 ./app --door={SECRET} input.dat, tok-0123456, /home/me/x")
    log.step(credentials)
    log.notify(JobOutput(text=f"{SECRET}\n", data=f"{SECRET}\n".encode()))
    log.notify(SessionNotice(text=f"launcher said {SECRET}"))
    log.notify(RankEvents(classes=(EquivalenceClass(ALL, Output(text=SECRET)),)))
    log.failed(OSError(f"/home/me/{SECRET}: no such file"))
    log.close()
    text = (tmp_path / "session.log").read_text("utf-8")
    for secret in (SECRET, "tok-0123456", "/home/me", "input.dat", credentials[40:90]):
        assert secret not in text, secret
    assert "note: '…' in 12 ./app … …, …, ~/x" in text
    assert '"bytes": 10' in text and "BEGIN" not in text


def test_what_our_own_code_logs_is_in_it_with_the_traceback_of_a_bug(tmp_path: Path) -> None:
    path = tmp_path / "session.log"
    options = SessionOptions(log=str(path))
    log = open_log(options, ENVIRONMENT, on_failure=lambda text: None)
    assert log is not None
    try:
        raise ValueError("in here")
    except ValueError:
        logging.getLogger("pgdb.frontend.api.session").exception("it failed")
    log.close()
    logging.getLogger("pgdb.frontend.api.session").error("later")
    (logged,) = [line for line in lines(path) if line["event"] == "log"]
    assert logged["level"] == "ERROR" and "ValueError: in here" in logged["text"]
    assert [line["event"] for line in lines(path)] == ["begin", "log", "end"]


def test_nothing_in_it_drives_the_terminal_that_shows_it(begin: Begin, tmp_path: Path) -> None:
    hostile = "\x1b]0;title\x07 \x9b2J \x7f \u202egnp.c \u2028"
    log = begin(keeps_values=True)
    log.step(hostile)
    log.answer(said(Value(text=hostile)))
    text = (tmp_path / "session.log").read_text("utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text)
    # A JSON reader restores the whole text.
    assert lines(tmp_path / "session.log")[1]["text"] == hostile


def test_bug_that_ends_the_session_is_in_it(begin: Begin, tmp_path: Path) -> None:
    log = begin()
    try:
        raise ZeroDivisionError("x")
    except ZeroDivisionError as error:
        log.failed(error)
    log.failed(UsageError("no such option"))
    log.close()
    bug, mistake = [each for each in lines(tmp_path / "session.log") if each["event"] == "failed"]
    assert "test_log.py" in bug["text"] and bug["error"] == "ZeroDivisionError"
    assert (mistake["error"], mistake["text"]) == ("UsageError", "no such option")


def test_options_of_the_user_are_logged(begin: Begin, tmp_path: Path) -> None:
    log = begin()
    log.options(
        "attach",
        SessionOptions(
            host="node1",
            ssh=("/usr/bin/ssh", "-i", f"/home/me/.ssh/{SECRET}"),
            gdb_commands=(f"set environment A={SECRET}",),
            timeout_s=9.0,
            ranks=RankSet([1]),
            log="/home/me/a.log",
        ),
    )
    log.close()
    (line,) = [line for line in lines(tmp_path / "session.log") if line["event"] == "options"]
    assert line["options"] == {
        "host": "node1",
        "ssh": "/usr/bin/ssh … (2 words)",
        "gdb_commands": ["set …"],
        "timeout_s": 9.0,
        "ranks": "1",
        "log": "given",
    }


def test_events_are_logged(begin: Begin, tmp_path: Path) -> None:
    log = begin()
    crash = Stop(reason="signal-received", signal="SIGSEGV", frame=FRAME)
    log.notify(RankEvents(classes=(EquivalenceClass(RankSet([2]), crash),)))
    log.notify(RankEvents(classes=(EquivalenceClass(RankSet([3]), Exit(code=3)),)))
    log.notify(RanksLost(ranks=RankSet([0]), text="its host is gone"))
    log.notify(JobEnded(code=1))
    log.close()
    stop, ended, lost, end = [
        line for line in lines(tmp_path / "session.log") if line["event"] == "notification"
    ]
    assert stop["classes"][0]["signal"] == "SIGSEGV" and stop["classes"][0]["ranks"] == "2"
    assert ended["classes"][0]["code"] == 3
    assert (lost["ranks"], lost["text"], end["code"]) == ("0", "its host is gone", 1)


# -- the file ------------------------------------------------------------------------------------


def test_file_is_the_users_alone_and_the_one_before_is_kept(begin: Begin, tmp_path: Path) -> None:
    path = tmp_path / "session.log"
    begin().close()
    first = path.read_bytes()
    begin().close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (tmp_path / "session.log.1").read_bytes() == first
    begin().close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["session.log", "session.log.1"]


def test_other_files_are_never_written_to(begin: Begin, tmp_path: Path) -> None:
    path = tmp_path / "session.log"
    path.write_text("int main;\n")
    with pytest.raises(UsageError, match="the file exists and is no log"):
        begin()
    path.unlink()
    begin().close()
    (tmp_path / "session.log.1").write_text("mine\n")
    with pytest.raises(UsageError, match=r"session\.log\.1 would be overwritten"):
        begin()
    assert (tmp_path / "session.log.1").read_text() == "mine\n"
    path.unlink()
    os.mkfifo(path)
    (tmp_path / "session.log.1").unlink()
    with pytest.raises(UsageError, match="is no log"):
        begin()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is no log"):
        begin()
    with pytest.raises(UsageError, match="No such file or directory"):
        SessionLog(tmp_path / "no" / "x.log", Redactor({}, keeps_values=False), on_failure=print)


def test_two_sessions_do_not_share_a_log(begin: Begin) -> None:
    log = begin()
    with pytest.raises(UsageError, match="another session writes it"):
        begin()
    log.close()
    begin().close()


def test_it_never_grows_beyond_its_bound(begin: Begin, tmp_path: Path, failures: list[str]) -> None:
    path, before = tmp_path / "session.log", tmp_path / "session.log.1"
    log = begin(max_bytes=5000)
    for number in range(300):
        log.step(f"step {number}")
        assert path.stat().st_size <= 5000
        assert not before.exists() or before.stat().st_size <= 5000
    log.close()
    assert not failures
    steps = [each["text"] for each in (*lines(before), *lines(path)) if each["event"] == "step"]
    assert steps == [f"step {number}" for number in range(300 - len(steps), 300)]
    assert [lines(each)[0]["event"] for each in (before, path)] == ["begin", "begin"]
    assert lines(path)[0]["part"] == 1 and lines(path)[-1]["event"] == "end"


def test_full_disk_ends_the_log_and_nothing_else(
    begin: Begin, tmp_path: Path, failures: list[str]
) -> None:
    log = begin()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The kernel refuses writes beyond the limit (Python ignores the signal).
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        for number in range(200):
            log.step(f"step {number}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.step("nothing of this")
    log.close()
    (reported,) = failures
    assert "session.log: File too large; the log ends here, the session goes on" in reported
    assert (tmp_path / "session.log").stat().st_size == 2000
    assert "step 199" not in (tmp_path / "session.log").read_text("utf-8")


def test_fault_of_the_log_ends_it_alone(begin: Begin, failures: list[str]) -> None:
    log = begin()
    log.request(1, None, ALL)  # type: ignore[arg-type]
    log.request(2, messages.Backtrace(), ALL)
    (reported,) = failures
    assert "request: " in reported and reported.endswith("the log ends here, the session goes on")


def test_turning_over_into_a_file_of_the_users_ends_the_log(
    begin: Begin, tmp_path: Path, failures: list[str]
) -> None:
    log = begin(max_bytes=3000)
    (tmp_path / "session.log.1").write_text("mine\n")
    for number in range(100):
        log.step(f"step {number}")
    assert len(failures) == 1 and "would be overwritten" in failures[0]
    assert (tmp_path / "session.log.1").read_text() == "mine\n"
    assert lines(tmp_path / "session.log")


def test_no_log_without_the_option_and_no_values_without_a_log() -> None:
    assert open_log(SessionOptions(), ENVIRONMENT, on_failure=print) is None
    with pytest.raises(UsageError, match="--log-values needs --log"):
        SessionOptions(log_values=True)


def test_start_that_fails_is_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = tmp_path / "session.log"
    before = logging.getLogger("pgdb").level
    try:
        status = main(["attach", "--batch", "--log", str(path), "4194305"])
    finally:
        logging.getLogger("pgdb").setLevel(before)
    assert status == 3 and capsys.readouterr().err
    begun, options, *_, failed, end = lines(path)
    assert (begun["format"], options["mode"], end["event"]) == (log_module.FORMAT, "attach", "end")
    assert failed["event"] == "failed" and failed["error"] == "DiscoveryError"


def test_log_that_cannot_be_begun_ends_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    before = logging.getLogger("pgdb").level
    try:
        assert main(["attach", "--batch", "--log", str(tmp_path / "no/x"), "4194305"]) == 2
    finally:
        logging.getLogger("pgdb").setLevel(before)
    assert "--log" in capsys.readouterr().err
