"""Recordings: a file answers the requests that the job answered, and no others."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from pathlib import Path

import pytest

import pgdb
from pgdb.errors import CommandError, PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup.replay import replay
from pgdb.frontend.store.log import open_log
from pgdb.frontend.store.recorder import Recorder, key_of
from pgdb.frontend.transport.recording import recording_of
from pgdb.frontend.ui.main import main
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import (
    Console,
    Evaluate,
)
from pgdb.ranks import RankSet
from pgdb.records import (
    Record,
    Value,
)
from tests.fakes.recorded import ALL, ASKED, Job, User, asked_of, begin, recorded


@pytest.fixture(autouse=True)
def _runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


# -- asking again --------------------------------------------------------------------------------


def without_numbers(shown: list[str]) -> list[str]:
    """Return texts without the numbers of answers, of which a recording begins anew."""
    return [re.sub(r"\bexpand \d+\b", "expand N", each) for each in shown]


def test_what_was_asked_shows_as_it_did(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    shown = recorded(path)
    assert all(shown)
    assert without_numbers(asked_of(path, *ASKED)) == without_numbers(shown)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # A tree makes the request of a backtrace, in every format.
    recorded(path, ["bt"])
    assert "main > f a.c:26  [0-3]" in asked_of(path, "tree --by line")[0]


def test_some_ranks_can_be_asked_and_several_answers_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["proc 0-1 p x", "proc 2 p x"])
    some, both, all_ranks = asked_of(path, "proc 1 p x", "proc 1-2 p x", "p x")
    assert some == "[1] x = 26\n"
    assert "[1] x = 26" in both and "[2] x = 52" in both
    assert "[3] error: not in the recording: it was asked of [0-2] only" in all_ranks
    assert "[0] x = 0" in all_ranks


def test_what_was_not_asked_has_the_name_that_was_typed(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["bt", "p x"])
    for line in ("plot x", "tree --full", "tree --threads", "thread apply all bt", "stat x"):
        for typed in (line, f"proc 0-1 {line}", f"timeout 5 {line}"):
            (shown,) = asked_of(path, typed)
            assert shown == f"'{line}' is not in the recording; it has backtrace, print x\n"


def test_what_was_not_asked_says_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["bt", "proc 0 p x"])
    other, for_others, listed = asked_of(path, "p y", "proc 3 p x", "session")
    assert other == "'print y' is not in the recording; it has backtrace, print x\n"
    assert for_others == (
        "'print x' is in the recording for other ranks only; 'session' lists it\n"
    )
    assert "recording job.pgdb of " in listed
    assert listed.endswith("it has the answers to:\n  backtrace\n  print x  [0]\n")


@pytest.mark.parametrize(
    "line",
    ["c", "next", "finish", "jump 3", "b main", "watch x", "delete 1", "kill", "detach",
     "interrupt", "commands 1", "define foo"],
)  # fmt: skip
def test_what_needs_the_job_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["bt"])

    async def work() -> None:
        session = await replay(path)
        if line == "interrupt":
            session.state.stopped, session.state.running = RankSet(), ALL
        user = User(session)
        lines = iter(["end"])
        user.dispatcher._read_line = lambda prompt: asyncio.sleep(0, next(lines, None))
        before = {name: getattr(session.state, name) for name in ("stopped", "running", "lost")}
        shown = await user.type(line)
        assert "needs the job, and this is a recording of it" in shown, shown
        assert user.dispatcher.status == 1
        assert {name: getattr(session.state, name) for name in before} == before
        await session.close()

    asyncio.run(work())


def test_old_answers_are_reported_to_be_old(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["bt", "p x", "info locals", "next", "p x"])
    bt, x, earlier, variables = asked_of(path, "bt", "p x", "expand 2", "info locals")
    assert bt.startswith("note: 'backtrace': [0-3] were asked before 'next'\n")
    # The last answer is used; the earlier one is still in the file.
    assert "[1] x = 28" in x
    assert "note: 'print x': there was another answer before: 'expand 2'\n" in x
    assert "[1] x = 26" in earlier and "note" not in earlier
    assert "were asked before 'next'" in variables


def test_what_stays_the_same_needs_no_remark(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["p x", "tree", "p x", "up", "bt"])
    assert not [text for text in asked_of(path, "bt", "tree") if "note" in text]
    # Another frame can have another x.
    assert "were asked before 'up'" in asked_of(path, "p x")[0]


def test_what_was_kept_back_is_in_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["p p"])
    folded, unfolded = asked_of(path, "p p", "expand")
    assert folded.startswith("[0-3] p = (int *) …\n(addresses differ between the ranks; expand ")
    assert "[3] p = (int *) 0x7fff0003" in unfolded
    by_number, of_set = asked_of(path, "expand 1", "expand 1 2-3")
    assert "[0] p = (int *) 0x7fff0000" in by_number
    assert "0x7fff0002" in of_set and "0x7fff0001" not in of_set


def test_what_aggregators_have_forgotten_shows_as_it_came(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["p p", "bt"], then=lambda job: job.said.clear())
    assert asked_of(path, "expand 1")[0] == (
        "note: [0-3] what differs here was not recorded; it shows as it came\n"
        "'print p' on [0-3]:\n[0-3] p = (int *) …\n"
    )


def test_what_was_summed_up_is_there_as_far_as_it_was_fetched(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    many = RankSet.range(0, 3000)

    async def work() -> str:
        session = begin(Job(), ranks=many)
        shown = await User(session).type("p x")
        await session.save(path)
        await session.close()
        return shown

    shown = asyncio.run(work())
    assert "3000 different values" in shown
    again, one, other, compared = asked_of(
        path, "p x", "expand 1 5", "expand 1 2000", "compare x 0-1 with 2000-2001"
    )
    assert again.replace("expand 2", "expand 1") == shown
    assert "[5] x = 130" in one
    assert "[2000] no longer kept" in other
    assert "[2000-2001]" in compared, compared


def test_sets_history_names_and_places_are_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    lines = ("p x", "save before", "defset odd 1,3", "focus @odd")
    shown = recorded(path, [*lines, "ranks", "expand -l"])
    places, history, odd, compared, one = asked_of(
        path, "ranks", "expand -l", "p x", "proc all compare x with before", "proc @1 p x"
    )
    assert [places, history] == shown[-2:]
    assert "@odd = [1,3]" in places and "node1" in places and "pid 103" in places
    assert odd == "[1] x = 26  @1\n[3] x = 78  @2\n"
    assert "all 4 ranks are equal" in compared or "equal" in compared
    assert one


def test_ranks_that_ran_cannot_be_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"

    async def work() -> None:
        job = Job()
        session = begin(job)
        await session.ranks(ALL).backtrace()
        await session.runs.start("continue", "", RankSet([2]))
        await session.save(path)
        await session.close()
        again = await replay(path)
        assert again.state.running == RankSet([2])
        with pytest.raises(CommandError, match=r"'wait' needs the job.*\[2\] ran"):
            await again.ranks(ALL).wait()
        # An API's session has no numbered answers; those of a recording are numbered.
        recording = recording_of(again.transport)
        assert recording is not None
        history = recording.stored_workspace.history
        assert [answer.command for _, answer in history] == ["backtrace"]
        await again.close()
        with pytest.raises(PgdbError, match="closed"):
            await again.ranks(ALL).backtrace()

    asyncio.run(work())


def test_late_answers_are_kept() -> None:
    recorder = Recorder()
    late = RankSet([3])
    here = EquivalenceClass[Record](ranks=ALL - late, record=Value(text="1"))
    first = Answer("print x", ALL, (here,), Missing(late=late), request_id=7)
    recorder.take(Evaluate(expression="x"), first)
    came = EquivalenceClass[Record](ranks=late, record=Value(text="2"))
    recorder.take_late(Answer("print x", late, (came,), request_id=7))
    recorder.take_late(Answer("print y", late, (came,), request_id=8))  # nobody knows of that
    (kept,) = recorder.exchanges
    assert kept.answer.classes == (here, came) and not kept.answer.missing


def test_the_same_from_python(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["p x", "p p", "bt", "next"])
    notifications: list[Notification] = []
    with pgdb.replay(path, on_event=notifications.append) as job:
        assert (
            job.is_recorded
            and job.set == ALL
            and job.hosts
            == {
                "node0": RankSet([0, 1]),
                "node1": RankSet([2, 3]),
            }
        )
        answer = job.evaluate("x").check()
        assert answer.values == {0: 0, 1: 26, 2: 52, 3: 78}
        assert job[1:3].evaluate("x").values == {1: 26, 2: 52}
        full = job.recall(job.evaluate("p"), ALL)
        assert full.for_rank(3) == Value(text="(int *) 0x7fff0003")
        assert job.tree().ranks == ALL
        with pytest.raises(CommandError, match="not in the recording"):
            job.evaluate("y")
        with pytest.raises(CommandError, match="needs the job"):
            job.break_at("main")
    assert any("were asked before 'next'" in each.text for each in notifications)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path)
    assert main(["replay", str(path), "--batch", "-ex", "p x", "-ex", "expand 3 1"]) == 0
    out = capsys.readouterr().out
    assert "4 ranks on 2 hosts" in out and "recording job.pgdb of" in out
    assert "(pgdb 0-3) p x\n[0] x = 0" in out and "[1] p = (int *) 0x7fff0001" in out
    assert main(["replay", str(path), "--json", "-ex", "p x", "-ex", "p y"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["type"] == "hello" and lines[0]["recorded"] is True
    (answer,) = [line for line in lines if line["type"] == "answer"]
    assert [each["value"] for each in answer["classes"]] == [0, 26, 52, 78]
    (error,) = [line for line in lines if line["type"] == "error"]
    assert "is not in the recording" in error["message"]


# -- what is kept ------------------------------------------------------------------------------


def answer_of(text: str, request_id: int = 1) -> Answer:
    record: Record = Value(text=text)
    classes = (EquivalenceClass(ranks=ALL, record=record),)
    return Answer(f"print {text[:9]}", ALL, classes, request_id=request_id)


def test_what_is_asked_again_and_again_pushes_out_itself_first() -> None:
    recorder = Recorder(most_exchanges=4)
    for name in ("a", "b"):
        recorder.take(Evaluate(expression=name), answer_of(name))
    for number in range(10):
        recorder.take(Evaluate(expression="loop"), answer_of(f"loop {number}"))
    kept = [each.answer.command for each in recorder.exchanges]
    assert kept == ["print a", "print b", "print loop 8", "print loop 9"]
    assert recorder.forgotten == 8
    for name in "cdef":
        recorder.take(Evaluate(expression=name), answer_of(name))
    assert recorder.commands == ("print c", "print d", "print e", "print f")


def test_memory_is_bounded() -> None:
    recorder = Recorder(most_bytes=10_000)
    recorder.take(Evaluate(expression="huge"), answer_of("x" * 6000))
    assert recorder.exchanges == () and recorder.forgotten == 1
    for number in range(20):
        recorder.take(Evaluate(expression=str(number)), answer_of("y" * 2000))
    assert len(recorder.exchanges) == 4
    assert [each.operation for each in recorder.exchanges][-1] == Evaluate(expression="19")


def test_questions_that_ask_for_the_same() -> None:
    assert key_of(Console(command="info  line")) == key_of(Console(command="info line"))
    assert key_of(Evaluate(expression="x")) != key_of(Evaluate(expression="x", format="x"))


# -- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ring", "link"])
def test_log_of_a_job_that_was_attached_to_has_its_program_but_not_its_arguments(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "session.log"
    (tmp_path / "link").symlink_to("ring")
    word = tmp_path / name

    async def work() -> None:
        session = begin(Job())
        session.description = f"mpirun -n 4 {word} -pw swordfish"
        log = open_log(SessionOptions(log=str(path)), {}, on_failure=print)
        assert log is not None
        log.started(session)
        session.log = log
        await session.ranks(ALL).execute_plain(f"info symbol {name} -pw swordfish")
        log.close()
        await session.close()

    asyncio.run(work())
    text = path.read_text("utf-8")
    assert "swordfish" not in text and f"info symbol {name} … …" in text
    assert "mpirun … (5 words)" in text


def test_settings_are_changed_from_python(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["p x"])
    with pgdb.replay(path) as job:
        job.change_settings(stop_mode="all", varprint_depth=7)
        assert (job.options.stop_mode, job.options.varprint_depth) == ("all", 7)
        for wrong, why in (
            ({"stop_mode": "some"}, "stop-mode 'some' is none of rank, focus, all"),
            ({"varprint_depth": 2, "fan_out": 3}, "'fan_out' is no setting that a session can"),
            ({"varprint_depth": 2, "nosuch": 3}, "there are spawned, timeout_s, "),
            ({"stop_mod": "all"}, "^change_settings: 'stop_mod' is .*; did you mean 'stop_mode'.$"),
        ):
            with pytest.raises(pgdb.UsageError, match=why):
                job.change_settings(**wrong)
        assert (job.options.stop_mode, job.options.varprint_depth) == ("all", 7)
