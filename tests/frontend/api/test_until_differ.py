"""Runs from hit to hit of a place until values differ."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api.absentees import BarrierThen
from pgdb.frontend.api.notifications import SessionNotice
from pgdb.frontend.api.session import Session
from pgdb.frontend.api.until_differ import Differ
from pgdb.frontend.show.json import json_meeting
from pgdb.frontend.show.text import meeting_text, render
from pgdb.frontend.store.recorder import Recorder
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.breakpoint_operations import CheckExpression
from pgdb.overlay.messages import AnyOperation, ChangeBreakpoints, Evaluate, InsertBreakpoint
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Exit, Failure, Record, Stop, Value
from tests.fakes.moving import LIMIT_S, MovingJob, Step, at, frame, run, until_over

HIT = at(7, breakpoint=1)


def job_of(*values: str, odd: list[str] | None = None, **paths: list[Step]) -> MovingJob:
    """Return a job of four ranks; the last has other values if they are given."""
    job = MovingJob({rank: paths.get(f"r{rank}", [HIT] * 9) for rank in range(4)})
    job.values = {rank: list(values) for rank in range(4)}
    if odd is not None:
        job.values[3] = list(odd)
    return job


def found_by(job: MovingJob, expression: str = "x", **options: Any) -> Differ:
    """Run a job until values differ; return what came of it."""
    found: list[Differ] = []

    async def test(session: Session) -> None:
        found.append(await session.until_differ(expression, **options))
        # No breakpoint is left behind.
        assert not session.has_breakpoints(session.state.live)

    run(job, test)
    made = [each for each in job.asked if isinstance(each, InsertBreakpoint)]
    deleted = [each for each in job.asked if isinstance(each, ChangeBreakpoints)]
    assert len(made) <= 1 and bool(made) == bool(deleted)
    return found[0]


def test_the_hit_is_named_at_which_values_differ() -> None:
    job = job_of("1", "2", "3", "4", odd=["1", "2", "9", "4"])
    found = found_by(job, at="f")
    assert (found.end, found.hit, found.location) == ("differ", 3, "f")
    assert found.check is not None
    assert [(str(each.ranks), each.value) for each in found.check.failing] == [("3", "9")]
    assert job.resumed == [("continue", "0-3")] * 3
    first, *rest = meeting_text.differ(found).splitlines()
    assert first == "hit 3 of f: x differs"
    assert any("[3]" in line and "9" in line for line in rest)


@pytest.mark.parametrize("call", ["until_differ", "barrier"])
def test_ranks_that_are_lost_before_they_answer_get_no_breakpoint_later(call: str) -> None:
    class LosingJob(MovingJob):
        """Job whose ranks are all lost while they are asked for the breakpoint."""

        async def on_request(
            self, request_id: int, ranks: RankSet, operation: AnyOperation
        ) -> Gathered | None:
            if not isinstance(operation, InsertBreakpoint):
                return await super().on_request(request_id, ranks, operation)
            self.session.state.lose(ranks)
            return Gathered(request_id, (), Missing(lost=ranks))

    async def test(session: Session) -> None:
        with pytest.raises(CommandError):
            if call == "barrier":
                await session.barrier("f")
            else:
                await session.until_differ("x", at="f")
        assert not session.has_breakpoints(session.set)
        assert session.breakpoints_text == ""

    run(LosingJob({rank: [HIT] for rank in range(4)}), test)


def test_values_are_compared_at_once_where_the_ranks_are() -> None:
    job = job_of("1", odd=["2"])
    found = found_by(job)
    assert (found.end, found.hit, found.location, job.resumed) == ("differ", 0, "a.c:1", [])
    assert meeting_text.differ(found).startswith("here, at a.c:1: x differs")
    same = found_by(job_of("1", "2", odd=["1", "3"]))
    assert (same.end, same.hit) == ("differ", 1)


def test_an_expression_is_asked_as_it_was_typed() -> None:
    job = job_of("1")
    found_by(job, "x +", at="f", limit=1)
    asked = {each.expression for each in job.asked if isinstance(each, Evaluate)}
    assert asked == {"x +"}


@pytest.mark.parametrize(
    ("why", "more"),
    [
        ("A syntax error in expression, near `'.", ""),
        ('No symbol "x" in current context.', "\nIf a library has it that is loaded later, "),
    ],
)
def test_an_expression_that_no_rank_can_evaluate_is_refused_before_any_runs(
    why: str, more: str
) -> None:
    job = CheckedJob({rank: [HIT] * 9 for rank in range(4)})
    job.values = {rank: ["1"] for rank in range(4)}
    job.checks = dict.fromkeys(range(4), Failure(message=why))

    async def test(session: Session) -> None:
        with pytest.raises(CommandError) as error:
            await session.until_differ("x", at="f")
        assert str(error.value).startswith(f"until-differ x --at f: {why}{more}")
        assert job.resumed == []
        # One of the ranks knows it.
        del job.checks[3]
        assert (await session.until_differ("x", at="f", limit=2)).hit == 2
        # Without a place, the values are compared at once where the ranks are.
        await session.until_differ("x")
        assert [type(each) for each in job.asked].count(CheckExpression) == 2

    run(job, test)


class CheckedJob(MovingJob):
    """Job with answers to the question whether an expression can have a value."""

    checks: dict[int, Failure]

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if isinstance(operation, CheckExpression) and rank in self.checks:
            return self.checks[rank]
        return super().answer(operation, rank, request_id)


def test_an_error_of_every_rank_ends_the_run_at_the_first_hit() -> None:
    job = job_of("1")
    job.values = {}
    found = found_by(job, "no_value", at="f")
    assert (found.end, found.hit) == ("failed", 1)
    lines = meeting_text.differ(found).splitlines()
    assert lines[0] == "hit 1 of f: no_value was not compared"
    assert any("No symbol" in line for line in lines)


def test_equal_values_are_reported_after_the_last_hit() -> None:
    found = found_by(job_of("1"), at="f", limit=4)
    assert (found.end, found.hit) == ("complete", 4)
    assert meeting_text.differ(found) == "x is the same on [0-3] at all 4 hits of f"


def test_another_breakpoint_at_the_place_is_a_hit_too() -> None:
    both = [at(7, breakpoints=(1, 2))] * 9
    job = job_of("1", "2", odd=["1", "9"], r0=both, r1=both, r2=both, r3=both)

    async def test(session: Session) -> None:
        await session.break_at("a.c:7")
        found = await session.until_differ("x", at="f")
        assert (found.end, found.hit) == ("differ", 2)
        assert session.breakpoints_text  # the user's own stays

    run(job, test)


def test_another_breakpoint_does_not_say_that_the_condition_is_true() -> None:
    job = job_of("1")

    async def test(session: Session) -> None:
        await session.break_at("a.c:7")
        found = await session.until_differ("x", at="f if x > 3")
        assert (found.end, found.hit) == ("stopped", 0)

    run(job, test)


def test_ranks_that_are_lost_at_a_hit_leave_the_hits_before_it() -> None:
    class LosingJob(MovingJob):
        """Job whose ranks are lost when they are asked for their third value."""

        asks = 0

        async def on_request(
            self, request_id: int, ranks: RankSet, operation: AnyOperation
        ) -> Gathered | None:
            self.asks += isinstance(operation, Evaluate)
            if self.asks < 3 or not isinstance(operation, Evaluate):
                return await super().on_request(request_id, ranks, operation)
            self.session.state.lose(ranks)
            return Gathered(request_id, (), Missing(lost=ranks))

    job = LosingJob({rank: [HIT] * 9 for rank in range(4)})
    job.values = {rank: ["1"] for rank in range(4)}
    found: list[Differ] = []

    async def test(session: Session) -> None:
        found.append(await session.until_differ("x", at="f"))

    run(job, test)
    assert (found[0].end, found[0].hit, found[0].same_hits) == ("failed", 3, 2)
    first, *_, last = meeting_text.differ(found[0]).splitlines()
    assert first == "hit 3 of f: x was not compared"
    assert last == "x was the same on [0-3] at all 2 hits before"


def test_a_run_to_the_end_of_the_job_says_how_often_the_values_were_the_same() -> None:
    ends = {f"r{rank}": [HIT, HIT, HIT, Exit(code=0)] for rank in range(4)}
    found = found_by(job_of("1", "2", "3", **ends), at="f")
    assert (found.end, found.hit, found.same_hits) == ("ended", 3, 3)
    assert meeting_text.differ(found).splitlines() == [
        "the run ends after 3 hits of f: [0-3] exited normally",
        "x was the same on [0-3] at all 3 hits",
    ]
    assert json_meeting.differ(found, render.record).same_hits == 3


@pytest.mark.parametrize(
    ("at", "end", "text"),
    [
        ("", "before the first hit of a.c:1: ", "x was the same on [0-3] at the start, at a.c:1"),
        ("f", "before the first hit of f: ", "x was not compared"),
    ],
)
def test_a_run_that_ends_before_a_hit_says_what_was_compared(at: str, end: str, text: str) -> None:
    ends = {f"r{rank}": [Exit(code=0)] for rank in range(4)}
    found = found_by(job_of("1", **ends), at=at)
    assert (found.end, found.hit, found.same_hits) == ("ended", 0, 0)
    first, second = meeting_text.differ(found).splitlines()
    assert first == f"the run ends {end}[0-3] exited normally"
    assert second == text


@pytest.mark.parametrize(
    ("end", "reason", "text"),
    [
        (Exit(code=0), "ended", "after 1 hit of f: [3] exited normally"),
        (Stop(reason="signal-received", signal="SIGBUS", frame=frame(9)), "error", "[3] SIGBUS"),
        (at(9, "g", breakpoint=8), "stopped", "Breakpoint 8, g () at a.c:9"),
        (Stop(reason="interrupted", frame=frame(9)), "interrupted", "interrupted after 1 hit"),
    ],
)
def test_a_rank_that_does_not_come_ends_the_run(end: Step, reason: str, text: str) -> None:
    found = found_by(job_of("1", r3=[HIT, end]), at="f")
    assert (found.end, found.hit) == (reason, 1)
    assert text in meeting_text.differ(found)


def test_ranks_that_do_not_come_in_time_are_named() -> None:
    found = found_by(job_of("1", r3=[HIT, None]), at="f", settle_s=0.0)
    assert (found.end, found.hit, str(found.answer.missing.running)) == ("waiting", 1, "3")
    text = meeting_text.differ(found)
    assert text.startswith("[3] still runs after 1 hit of f; [0-2] came")
    way_out = "ranks of several iterations meet in a later one with --at 'f if VAR >= N'"
    assert way_out in text
    path = [HIT, None]
    met = found_by(job_of("1", r3=path), at="f if step >= 9", settle_s=0.0)
    assert met.end == "waiting"
    assert "several iterations" not in meeting_text.differ(met)


def test_a_rank_that_has_stopped_elsewhere_has_not_come() -> None:
    job = job_of("1", r1=[HIT, at(9, "g", breakpoint=8)], r2=[HIT, None])
    found = found_by(job, at="f", settle_s=0.0)
    assert (found.end, found.hit, str(found.came)) == ("stopped", 1, "0,3")
    assert meeting_text.differ(found).splitlines() == [
        "the run ends after 1 hit of f: [1] Breakpoint 8, g () at a.c:9; [0,3] came",
        "x was the same on [0-3] at 1 hit",
        "[2] still runs; 'wait' waits longer, 'interrupt' stops it",
    ]


def test_held_ranks_are_named_at_every_end_of_a_run() -> None:
    texts = []

    async def test(session: Session) -> None:
        session.ranks("2-3").hold()
        found = await session.until_differ("x", at="f", limit=2, settle_s=0.0)
        texts.append(meeting_text.differ(found))

    for path in ([HIT, HIT], [HIT, None], [HIT, Exit(code=0)]):
        run(job_of("1", r0=path), test)
    assert texts == [
        "x is the same on [0-1] at all 2 hits of f\n[2-3] held",
        "[0] still runs after 1 hit of f; [1] came and may be waited for in MPI; "
        "[2-3] are held and may be waited for in MPI; 'wait' waits longer, 'interrupt' stops it; "
        "ranks of several iterations meet in a later one with --at 'f if VAR >= N'\n"
        "x was the same on [0-1] at 1 hit",
        "the run ends after 1 hit of f: [0] exited normally; [1] came\n"
        "x was the same on [0-1] at 1 hit\n[2-3] held",
    ]


@pytest.mark.parametrize("then", ["stop", "release"])
def test_ranks_that_a_barrier_releases_meanwhile_are_no_longer_held(then: BarrierThen) -> None:
    """Rank 2 is held at a barrier, to which rank 3 comes during the run of the others."""
    came, hit = at(20, breakpoint=1), at(7, breakpoint=2)

    class MeetingJob(MovingJob):
        """Job in which rank 3 comes when the others run to their second hit."""

        async def on_request(
            self, request_id: int, ranks: RankSet, operation: AnyOperation
        ) -> Gathered | None:
            gathered = await super().on_request(request_id, ranks, operation)
            if self.resumed[-2:] == [("continue", "0-1")] * 2 and self.session.state.held:
                self.happen({3: came})
            return gathered

    job = MeetingJob({0: [hit] * 9, 1: [hit] * 9, 2: [came, None], 3: [None]})
    job.values = {rank: ["1"] for rank in range(4)}

    async def test(session: Session) -> None:
        two = session.ranks("2-3")
        await two.barrier("b", then=then)
        await two.run("continue", settle_s=0.0)
        assert str(session.state.held) == "2"
        found = await session.ranks("0-2").until_differ("x", at="f", limit=3)
        assert not session.state.held
        assert meeting_text.differ(found) == "x is the same on [0-1] at all 3 hits of f"
        assert (str(found.answer.ranks), bool(found.answer.missing)) == ("0-1", False)

    run(job, test)


def test_no_run_to_a_hit_begins_after_the_time_limit() -> None:
    found = found_by(job_of("1"), at="f", timeout_s=0.0)
    assert (found.end, found.hit) == ("timeout", 0)
    first, *_ = meeting_text.differ(found).splitlines()
    assert first == "the time of the command is over before the first hit of f"


def test_ranks_that_come_do_not_stop_those_that_still_run() -> None:
    job = job_of("1", r3=[None])

    async def test(session: Session) -> None:
        session.options = session.options.changed(stop_mode="all")
        task = asyncio.create_task(session.until_differ("x", at="f", limit=1))
        while 0 not in session.state.stopped or not job.resumed:
            await asyncio.sleep(0)
        await session.ranks("0").evaluate("x")  # an interrupt would be sent before
        assert job.interrupted == []
        job.happen({3: HIT})
        assert (await task).hit == 1

    run(job, test)


def test_no_breakpoint_is_left_when_the_run_is_cancelled() -> None:
    job = job_of("1", r3=[None])

    async def test(session: Session) -> None:
        task = asyncio.create_task(session.until_differ("x", at="f"))
        while not job.resumed:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not session.has_breakpoints(session.set)

    run(job, test)


@pytest.mark.parametrize(
    ("expression", "options"),
    [
        ("", {}),
        ("x", {"limit": 0}),
        ("x = 3", {}),
    ],
)
def test_wrong_arguments_are_refused(expression: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        found_by(job_of("1"), expression, **options)


def test_ranks_at_several_places_need_a_place() -> None:
    job = job_of("1")
    job.frames[3] = frame(9)
    with pytest.raises(UsageError, match=r"not at one line.*'--at LOCATION'"):
        found_by(job)


def recorded(path: Path, *values: str, odd: list[str] | None = None) -> Path:
    """Write a recording of a run in which the values were compared at each hit."""
    job = job_of(*values, odd=odd)

    async def test(session: Session) -> None:
        await session.until_differ("x", at="f", limit=len(values))
        await session.save(path)

    run(job, test)
    return path


def test_values_are_compared_with_a_recording_hit_by_hit(tmp_path: Path) -> None:
    saved = recorded(tmp_path / "before.pgdb", "1", "2", "3")
    found = found_by(job_of("1", "2", "3", odd=["1", "2", "8"]), at="f", recording=saved)
    assert (found.end, found.hit) == ("differ", 3)
    assert found.comparison is not None
    assert [str(each.ranks) for each in found.comparison.differences] == ["3"]
    assert "hit 3 of f: x is not as in the recording" in meeting_text.differ(found)
    same = found_by(job_of("1", "2", "3"), at="f", recording=saved)
    assert (same.end, same.hit) == ("recording", 4)
    assert "values end before hit 4 of f" in meeting_text.differ(same)
    with pytest.raises(CommandError, match="has no value of 'y'"):
        found_by(job_of("1"), "y", recording=saved)
    with pytest.raises(CommandError):
        found_by(job_of("1"), recording=tmp_path / "none.pgdb")


def test_only_the_ranks_that_are_asked_are_compared_with_a_recording(tmp_path: Path) -> None:
    saved = recorded(tmp_path / "before.pgdb", "1", "2", "3")

    async def test(session: Session) -> None:
        found = await session.ranks("0-1").until_differ("x", at="f", recording=saved)
        assert (found.end, found.hit, str(found.ranks)) == ("recording", 4, "0-1")
        assert found.comparison is not None
        assert (str(found.comparison.equal), found.comparison.left_out) == ("0-1", ())

    run(job_of("1", "2", "3"), test)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_values_that_the_time_limit_cuts_are_not_compared(
    tmp_path: Path, is_recorded: bool
) -> None:
    saved = recorded(tmp_path / "before.pgdb", "1", "2") if is_recorded else None

    class LateValues(MovingJob):
        """Job with no value of rank 3 at the second hit before the time is over."""

        async def on_request(
            self, request_id: int, ranks: RankSet, operation: AnyOperation
        ) -> Gathered | None:
            answer = await super().on_request(request_id, ranks, operation)
            if not isinstance(operation, Evaluate) or len(self.resumed) < 2:
                return answer
            await until_over()
            value = EquivalenceClass[Record](RankSet.parse("0-2"), Value(text="2"))
            return Gathered(request_id, (value,), Missing(late=RankSet([3])))

    job = LateValues({rank: [HIT] * 9 for rank in range(4)})
    job.values = {rank: ["1"] for rank in range(4)}
    found: list[Differ] = []

    async def test(session: Session) -> None:
        with deadline.within(LIMIT_S):
            found.append(await session.until_differ("x", at="f", recording=saved))

    run(job, test)
    assert (found[0].end, found[0].hit, found[0].same_hits) == ("timeout", 1, 1)
    first, second, *_ = meeting_text.differ(found[0]).splitlines()
    assert first == "the time of the command is over after 1 hit of f"
    assert second.endswith(" on [0-3] at 1 hit")


def notes_of(job: MovingJob, **options: Any) -> tuple[Differ, list[str]]:
    """Run a job until values differ; return what came of it, and the notes."""
    found: list[Differ] = []
    notes: list[str] = []

    async def test(session: Session) -> None:
        session.subscribe(
            lambda each: notes.append(each.text) if isinstance(each, SessionNotice) else None
        )
        found.append(await session.until_differ("x", **options))

    run(job, test)
    return found[0], notes


def test_a_second_comparison_goes_on_behind_the_first_one(tmp_path: Path) -> None:
    saved = recorded(tmp_path / "before.pgdb", *"123456")
    notes: list[str] = []
    found: list[Differ] = []

    async def test(session: Session) -> None:
        session.subscribe(
            lambda each: notes.append(each.text) if isinstance(each, SessionNotice) else None
        )
        for options in ({"at": "f"}, {"at": "f", "limit": 2}, {"at": "g", "limit": 1}):
            found.append(await session.until_differ("x", recording=saved, **options))

    hits = [at(7, breakpoint=number) for number in (1, 1, 2, 2, 3)]
    run(job_of("1", "9", "3", "4", "1", **{f"r{rank}": hits for rank in range(4)}), test)
    assert [(each.end, each.hit) for each in found] == [
        ("differ", 2),
        ("complete", 2),
        ("complete", 1),
    ]
    (note,) = notes
    assert note.startswith("the next x is compared with value 3 of ")


def test_the_value_of_the_place_where_the_ranks_are_is_compared_again(tmp_path: Path) -> None:
    path = tmp_path / "before.pgdb"

    async def write(session: Session) -> None:
        await session.until_differ("x", limit=2)
        await session.save(path)

    run(job_of("1", "2", "3"), write)
    numbers: list[int] = []

    async def test(session: Session) -> None:
        for _ in range(2):
            await session.until_differ("x", recording=path)
            numbers.extend(each.number for each in session.recorder.compared.values())

    run(job_of("7"), test)
    assert numbers == [1, 1]


def test_values_of_another_line_are_noted(tmp_path: Path) -> None:
    saved = recorded(tmp_path / "before.pgdb", "1", "2", "3")
    elsewhere = {f"r{rank}": [at(9, breakpoint=1)] * 9 for rank in range(4)}
    job = job_of("1", "4", **elsewhere)
    found, notes = notes_of(job, at="g", recording=saved)
    assert (found.end, found.hit) == ("differ", 2)
    (note,) = notes
    assert "before.pgdb has value 1 of x from a.c:7, and the ranks are at a.c:9" in note
    _, notes = notes_of(job_of("1"), at="f", limit=1, recording=saved)
    assert notes == []


def test_values_without_room_in_the_recording_are_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "before.pgdb"

    async def test(session: Session) -> None:
        session._core.recorder = Recorder(most_exchanges=2)
        await session.until_differ("x", at="f", limit=5)
        await session.save(path)

    run(job_of("1", "2", "3", "4", "5"), test)
    # The values of hits 4 and 5 are kept: hit 4 is compared with hit 4.
    found, notes = notes_of(job_of("1", "2", "3", "4", "6"), at="f", recording=path)
    assert (found.end, found.hit, found.unrecorded) == ("differ", 5, 3)
    assert "no values of the first 3 times" in notes[0]
    found, _ = notes_of(job_of("1", "2", "3", "4", "5"), at="f", limit=5, recording=path)
    assert meeting_text.differ(found).endswith("at the last 2 of 5 hits of f")
    assert found.same_hits == 2
    found, _ = notes_of(job_of("1", "2"), at="f", limit=2, recording=path)
    assert meeting_text.differ(found) == "x was not compared at all 2 hits of f"


def test_values_that_were_asked_for_twice_or_in_parts_are_of_one_hit(tmp_path: Path) -> None:
    path = tmp_path / "before.pgdb"

    async def test(session: Session) -> None:
        for _ in range(3):
            await session.continue_()
            await session.ranks("0").evaluate("x")
            await session.ranks("1-3").evaluate("x")
            await session.ranks("2").evaluate("x")
        await session.save(path)

    job = job_of("1", "2", "3")
    # Each rank has a further value for each question.
    job.values[2] = ["1", "1", "2", "2", "3", "3"]
    run(job, test)
    found, notes = notes_of(job_of("1", "2", "3", odd=["1", "2", "8"]), at="f", recording=path)
    assert (found.end, found.hit, notes) == ("differ", 3, [])
    assert found.comparison is not None
    assert [str(each.ranks) for each in found.comparison.differences] == ["3"]


def test_ranks_without_values_in_the_recording_are_named(tmp_path: Path) -> None:
    path = tmp_path / "before.pgdb"

    async def test(session: Session) -> None:
        await session.ranks("0-1").until_differ("x", at="f", limit=2)
        await session.save(path)

    run(job_of("1", "2"), test)
    found, notes = notes_of(job_of("1", "2", odd=["7", "8"]), at="f", limit=2, recording=path)
    assert (found.end, str(found.ranks)) == ("complete", "0-1")
    assert notes == [f"{path} has values of [0-1], and none of [2-3], which are not compared"]

    async def others(session: Session) -> None:
        with pytest.raises(CommandError, match=r"and none of \[3\]"):
            await session.ranks("3").until_differ("x", at="f", recording=path)

    run(job_of("1"), others)
