"""Recordings and logs of real sessions: what is left when the job and the session are gone."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from pgdb.errors import CommandError
from pgdb.frontend.store import recording_file
from tests.conftest import Build, StartJob
from tests.support.processes import wait_until
from tests.support.programs import Mpi
from tests.support.terminal import (
    DEADLINE_S,
    PGDB,
    FrontEnd,
    Terminal,
    assert_nothing_left,
    assert_untouched,
    ex,
    run_pgdb,
)

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]
ASKED = ("bt", "tree", "p local", "p &local", "info locals", "p nosuch", "stat rank", "expand 6 1")


def shown(out: str) -> dict[str, str]:
    """Return what each command has shown, by the line that was typed."""
    parts = out.split("\n(pgdb 0-2) ")[1:]
    return {line: text for line, _, text in (part.partition("\n") for part in parts)}


def without_number(text: str) -> str:
    """Return a text without the number of its answer: those of the recording are counted first."""
    return re.sub(r"; expand \d+ shows", "; expand N shows", text)


def test_colleague_sees_what_was_seen_and_the_log_has_no_values(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("ring.c")
    recording, log = tmp_path / "job.pgdb", tmp_path / "session.log"
    finished = run_pgdb(
        "launch", "--batch", "--log", log, *ex(f"tbreak {program.at('send')}", "c", *ASKED),
        *ex("defset odd 1", f"session save {recording}"),
        *mpi.line(3, program, "1000000"),
    )  # fmt: skip
    assert (
        "1 command" not in finished.out and f"to open it: pgdb replay {recording}\n" in finished.out
    )
    # The job, its program and its sources are gone.
    again = run_pgdb(
        "replay", recording, "--batch", *ex(*ASKED, "proc @odd p local", "c", "p size"),
        changes={"PATH": str(tmp_path)},
    )  # fmt: skip
    before, after = shown(finished.out), shown(again.out)
    for line in ASKED:
        # Source lines are where the sources are, and here they are.
        assert without_number(after[line]) == without_number(before[line]), line
    assert "expand 6 shows" in before["p &local"]
    assert "[1] local = 1.5" in after["proc @odd p local"] and "0x" in after["expand 6 1"]
    assert "needs the job" in after["c"] and "is not in the recording" in after["p size"]
    assert again.status == 1
    text = log.read_text("utf-8")
    reported = [json.loads(line) for line in text.splitlines()]
    assert [reported[0]["event"], reported[-1]["event"]] == ["begin", "end"]
    (started,) = [each for each in reported if each["event"] == "started"]
    assert started["aggregators"] and started["gdb"] and "1000000" not in text
    asked = {each["request"] for each in reported if each["event"] == "request"}
    assert asked <= {each["request"] for each in reported if each["event"] == "answer"}
    assert "1.5" not in [each.get("text") for each in reported] and '"text": "1.5' not in text
    report = tmp_path / "report.tar.gz"
    packed = run_pgdb("report-bug", log, "-o", report)
    assert packed.status == 0, packed.err
    with tarfile.open(report) as archive:
        assert {Path(name).name for name in archive.getnames()} == {
            "README.txt", "versions.txt", "doctor.txt", "session.log",
        }  # fmt: skip


def test_recording_is_written_when_the_terminal_is_lost(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    recording, log = tmp_path / "job.pgdb", tmp_path / "session.log"
    changes = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    (tmp_path / "pgdb").mkdir()
    (tmp_path / "pgdb" / "settings.json").write_text("{")
    options = ("--record", str(recording), "--log", str(log))
    with start_job(2, build("storm.c")) as job:
        with Terminal(*PGDB, "attach", *options, str(job.pid), changes=changes) as terminal:
            # The kept answers are lost; the session goes on.
            terminal.expect(r"note: \S*settings\.json cannot be read")
            terminal.expect(r"\(pgdb 0-1\)")
            terminal.line("p 40 + 2")
            terminal.expect(r"\[0-1\] 40 \+ 2 = 42")
            terminal.expect(r"\(pgdb 0-1\)")
            terminal.hang_up()
            wait_until(recording.exists, "the recording is written")
            assert_nothing_left(terminal.mark)
        assert_untouched(job.ranks)
    assert json.loads(log.read_text("utf-8").splitlines()[-1])["event"] == "end"
    with Terminal(*PGDB, "replay", str(recording), changes=changes) as terminal:
        terminal.expect(r"recording job\.pgdb of ")
        terminal.expect(r"\(pgdb 0-1 recorded\)")
        # Lines typed before the terminal was lost are in the history.
        terminal.send("\x1b[A\r")
        terminal.expect(r"\[0-1\] 40 \+ 2 = 42")
        terminal.line("quit")
        assert terminal.wait() == 0
        assert "leaving" not in terminal.text


def is_asked_for(path: Path, command: str) -> bool:
    """Return whether a recording has the answer to a command by now."""
    try:
        exchanges = recording_file.read(path).exchanges
    except CommandError:
        return False
    return command in [each.answer.command for each in exchanges]


def test_a_front_end_that_is_killed_leaves_its_recording(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    recording = tmp_path / "job.pgdb"
    with start_job(2, build("storm.c")) as job:
        with FrontEnd(
            "attach", "--batch", "--grace", "2", "--record", recording,
            *ex("bt", "p 40 + 2", "c"), job.pid,
        ) as front_end:  # fmt: skip
            wait_until(
                lambda: is_asked_for(recording, "print 40 + 2"), "it is recorded", DEADLINE_S
            )
            front_end.kill()
            front_end.wait(DEADLINE_S)
            assert_nothing_left(front_end.mark)
        assert_untouched(job.ranks)
    again = run_pgdb("replay", recording, "--batch", *ex("p 40 + 2", "bt", "ranks"))
    assert again.status == 0, again.out + again.err
    assert "its session has ended suddenly, or still goes on" in again.out
    assert "[0-1] 40 + 2 = 42" in again.out and "main" in again.out
