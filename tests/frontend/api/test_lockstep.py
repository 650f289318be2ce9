"""Ranks that step together: where their ways part, and what else ends a lockstep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.ways import Way
from pgdb.frontend.api.lockstep import Lockstep
from pgdb.frontend.api.notifications import LateAnswer, RankEvents
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.text import meeting_text
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import AnyOperation, Backtrace, Console, Resume, SelectFrame
from pgdb.overlay.router import Gathered
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Exit, Failure, Frame, Record, Stack, Stop, Text
from tests.fakes.moving import LIMIT_S, MovingJob, Step, at, frame, run, until_over


def paths(common: list[Step], **others: list[Step]) -> dict[int, list[Step]]:
    """Return the paths of eight ranks; ``r7`` has that of rank 7."""
    return {rank: others.get(f"r{rank}", common) for rank in range(8)}


def stepped(job: MovingJob, *arguments: Any, **options: Any) -> tuple[Lockstep, list[Stop]]:
    """Step all ranks together; return what came of it, and the stops that were reported."""
    found: list[Lockstep] = []
    stops: list[Stop] = []

    async def test(session: Session) -> None:
        def note(notification: object) -> None:
            if isinstance(notification, RankEvents):
                stops.extend(e.record for e in notification.classes if isinstance(e.record, Stop))

        session.subscribe(note)
        found.append(await session.lockstep(*arguments, **options))

    run(job, test)
    return found[0], stops


def test_ranks_that_take_another_line_are_named_with_it() -> None:
    job = MovingJob(paths([at(2), at(3), at(57)], r7=[at(2), at(3), at(61)]))
    found, stops = stepped(job, "next", 5)
    assert (found.end, found.steps) == ("parted", 2)
    assert found.start == Way(job.ranks, "f", "a.c", 3)
    assert [(str(way.ranks), way.line) for way in found.ways] == [("0-6", 57), ("7", 61)]
    assert meeting_text.reason_of(found) == (
        "the ranks part after 2 steps, at f at a.c:3: [0-6] took line 57, [7] line 61"
    )
    assert job.resumed == [("next", "0-7")] * 3
    assert stops == []  # they are in the answer


def test_an_interrupted_rank_is_where_its_stop_says() -> None:
    """Inside a library, the innermost frame is none of the program's."""

    class InLibrary(MovingJob):
        def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
            if isinstance(operation, Backtrace) and self.resumed and rank > 1:
                inner = Frame(level=0, function=f"poll{rank}", file="poll.c", line=29)
                return Stack(frames=(inner, self.frames[rank]))
            return super().answer(operation, rank, request_id)

    waits = Stop(reason="interrupted", frame=frame(61, "work"), inside="PMPI_Recv")
    job = InLibrary({rank: [waits] if rank > 1 else [at(2)] for rank in range(8)})
    found, _ = stepped(job, "next")
    assert found.end == "interrupted"
    assert meeting_text.reason_of(found) == (
        "the lockstep was interrupted after 0 steps; [2-7] work at a.c:61, [0-1] f at a.c:2"
    )


def test_ranks_that_enter_another_function_are_named_with_it() -> None:
    job = MovingJob(paths([at(2)], r0=[at(9, "g")], r1=[at(9, "g")], r2=[at(0, "memcpy")]))
    found, _ = stepped(job)
    assert meeting_text.reason_of(found) == (
        "the ranks part after 0 steps, at f at a.c:1: [3-7] took line 2, [0-1] g at a.c:9, "
        "[2] memcpy+3"
    )


def test_steps_that_all_complete_are_counted() -> None:
    found, _ = stepped(MovingJob(paths([at(2), at(3), at(4)])), "step", 3)
    assert (found.end, found.steps, found.are_together) == ("complete", 3, True)
    assert meeting_text.lockstep(found).splitlines()[-1] == "3 steps, all together"


def test_instructions_of_one_line_are_places_of_their_own() -> None:
    def instruction(offset: str) -> Stop:
        place = Frame(level=0, function="f", file="a.c", line=1, offset=offset)
        return Stop(reason="end-stepping-range", frame=place)

    both = paths([instruction("+4")], r7=[instruction("+9")])
    found, _ = stepped(MovingJob(both), "stepi")
    assert "[0-6] took line 1 at +4, [7] line 1 at +9" in meeting_text.reason_of(found)
    assert stepped(MovingJob(both), "step")[0].end == "complete"


@pytest.mark.parametrize(
    ("end", "reason", "text"),
    [
        (Exit(code=3), "ended", "[7] exited with code 3"),
        (Exit(signal="SIGKILL"), "ended", "[7] ended by SIGKILL"),
        (
            Stop(reason="signal-received", signal="SIGFPE", meaning="!", frame=frame(61)),
            "error",
            "[7] SIGFPE, !: f () at a.c:61",
        ),
        (Stop(reason="interrupted", frame=frame(61)), "interrupted", "was interrupted"),
        (at(2, breakpoint=4), "stopped", "[7] Breakpoint 4, f () at a.c:2"),
    ],
)
def test_another_end_of_a_step_ends_the_lockstep(end: Step, reason: str, text: str) -> None:
    job = MovingJob(paths([at(2), at(3)], r7=[end]))
    found, _ = stepped(job, "step", 2)
    assert (found.end, found.steps) == (reason, 0)
    assert text in meeting_text.reason_of(found)
    assert len(job.resumed) == 1


def test_the_end_of_a_lockstep_has_each_place_once() -> None:
    # The others have stepped; the rank at the breakpoint is where they are.
    job = MovingJob(paths([at(2)], r7=[at(2, breakpoint=4)]))
    text = meeting_text.reason_of(stepped(job, "step", 2)[0])
    assert text.startswith("the lockstep ends after 0 steps, at f at a.c:1: [7] Breakpoint 4, f ()")
    assert text.endswith("at a.c:2; [0-6] f at a.c:2")
    everybody = MovingJob(paths([at(2, breakpoint=4)], r7=[at(2, breakpoint=4)]))
    text = meeting_text.reason_of(stepped(everybody, "step", 2)[0])
    assert text.endswith(": [0-7] Breakpoint 4, f () at a.c:2")


def test_a_rank_that_has_stopped_elsewhere_has_not_completed_the_step() -> None:
    job = MovingJob(paths([at(2)], r6=[None], r7=[at(9, "g", breakpoint=4)]))
    found, _ = stepped(job, "next", 2, settle_s=0.0)
    assert (found.end, found.steps) == ("stopped", 0)
    assert meeting_text.lockstep(found).splitlines()[-2:] == [
        "the lockstep ends after 0 steps, at f at a.c:1: [7] Breakpoint 4, g () at a.c:9; "
        "[0-5] f at a.c:2",
        "[6] still runs; 'wait' waits longer, 'interrupt' stops it",
    ]


def test_a_lockstep_names_the_held_ranks() -> None:
    texts = []

    async def test(session: Session) -> None:
        session.ranks("2-3").hold()
        for count in (1, 2):
            texts.append(meeting_text.lockstep(await session.lockstep("next", count)))

    run(MovingJob(paths([at(2), at(3), at(4)])), test)
    assert texts == [
        "[0-1,4-7] stopped in f () at a.c:2\n[2-3] held",
        "[0-1,4-7] stopped in f () at a.c:4\n2 steps, all together\n[2-3] held",
    ]


class Vanishing(MovingJob):
    """Ranks of which some cannot say where they are after a step."""

    def __init__(self, silent: str) -> None:
        super().__init__(paths([at(2), at(3)]))
        self._silent = RankSet.parse(silent)

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if self.resumed and rank in self._silent and isinstance(operation, Backtrace | SelectFrame):
            return Failure(message="it is detached")
        return super().answer(operation, rank, request_id)


@pytest.mark.parametrize("silent", ["3", "0-7"])
def test_ranks_that_are_detached_after_a_step_end_the_lockstep(silent: str) -> None:
    job = Vanishing(silent)
    found, _ = stepped(job, "next", 2)
    assert (found.end, found.steps) == ("lost", 0)
    assert str(found.answer.missing.lost) == silent
    assert f"after 0 steps: [{silent}] lost or silent" in meeting_text.reason_of(found)
    assert len(job.resumed) == 1


def test_a_breakpoint_where_the_others_are_not_is_another_way() -> None:
    found, stops = stepped(MovingJob(paths([at(2)], r7=[at(61, "g", breakpoint=4)])))
    assert found.end == "parted"
    assert [stop.breakpoint for stop in stops] == [4]  # reported at once, unlike a step


def test_ranks_that_wait_for_those_that_have_stepped_are_named_after_the_settle_time() -> None:
    job = MovingJob(paths([None], r7=[at(2)]))
    found, _ = stepped(job, "next", settle_s=0.0)
    assert (found.end, found.steps) == ("waiting", 0)
    assert str(found.answer.missing.running) == "0-6"
    assert meeting_text.reason_of(found) == (
        "[0-6] still step after 0 steps, from f at a.c:1; [7] has completed the step, and [0-6] "
        "may wait for it in MPI; 'wait' waits longer, 'interrupt' stops them"
    )
    missing = found.answer.missing | Missing(held=RankSet.parse("8"))
    beside_held = replace(found, answer=replace(found.answer, missing=missing))
    assert "; [8] is held, and [0-6] may wait for it; 'wait' waits" in (
        meeting_text.reason_of(beside_held) or ""
    )


def test_no_step_begins_after_the_time_limit() -> None:
    found, _ = stepped(MovingJob(paths([at(2), at(3)])), "step", 2, timeout_s=0.0)
    assert (found.end, found.steps) == ("timeout", 0)
    assert meeting_text.reason_of(found).startswith("the time of the command is over after 0 steps")


class CutJob(MovingJob):
    """Job whose answers to one kind of question come when the time limit is over.

    Only the rank *first* answers in time. The answers of the others are kept in :attr:`late`.
    """

    def __init__(
        self, paths: dict[int, list[Step]], kind: type[AnyOperation], first: int, behind: int
    ) -> None:
        super().__init__(paths)
        self.kind, self.first, self.behind = kind, RankSet([first]), behind
        self.late: Gathered | None = None

    async def on_request(
        self, request_id: int, ranks: RankSet, operation: AnyOperation
    ) -> Gathered | None:
        answer = await super().on_request(request_id, ranks, operation)
        if not isinstance(operation, self.kind) or len(self.resumed) < self.behind:
            return answer
        await until_over()
        classes: list[EquivalenceClass[Record]] = [
            EquivalenceClass(RankSet([rank]), self.answer(operation, rank, request_id))
            for rank in ranks
        ]
        known = tuple(each for each in classes if each.ranks <= self.first)
        others = tuple(each for each in classes if each not in known)
        self.late = Gathered(request_id, others, Missing(), is_late=True)
        return Gathered(request_id, known, Missing(late=ranks - self.first))


def cut(job: CutJob) -> tuple[Lockstep, list[Answer]]:
    """Step to the time limit; return what came of it, and the late answers that were news."""
    found: list[Lockstep] = []
    late: list[Answer] = []

    async def test(session: Session) -> None:
        session.subscribe(
            lambda each: late.append(each.answer) if isinstance(each, LateAnswer) else None
        )
        with deadline.within(LIMIT_S):
            found.append(await session.lockstep("step", 9))
        assert job.late is not None
        session.traffic.on_late(job.late)
        session.traffic.late_answers.flush()

    run(job, test)
    return found[0], late


def test_a_rank_whose_start_the_time_limit_cuts_is_not_lost() -> None:
    common = [at(2), at(3)]
    job = CutJob(paths(common, r5=[at(2), None], r6=[at(2), None]), Resume, 7, 2)
    found, late = cut(job)
    assert (found.end, found.steps, str(found.answer.missing.running)) == ("waiting", 1, "5-6")
    assert not found.answer.missing.late
    assert meeting_text.reason_of(found).startswith(
        "[5-6] still step after 1 step, from f at a.c:2; [0-4,7] have completed the step"
    )
    assert late == []


def test_a_late_refusal_of_a_step_is_news_also_after_the_time_limit() -> None:
    class Refusing(CutJob):
        def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
            if isinstance(operation, Resume) and rank == 5 and len(self.resumed) == 2:
                return Failure(message="Cannot step.")
            return super().answer(operation, rank, request_id)

    common = [at(2), at(3)]
    _, late = cut(Refusing(paths(common, r5=[at(2), None], r6=[at(2), None]), Resume, 7, 2))
    assert [str(each.ranks) for each in late] == ["5"]


def test_ranks_whose_places_the_time_limit_cuts_are_not_lost() -> None:
    found, late = cut(CutJob(paths([at(2), at(3), at(4)]), Backtrace, 7, 2))
    assert (found.end, found.steps, found.answer.missing) == ("timeout", 1, Missing())
    assert meeting_text.reason_of(found) == (
        "the time of the command is over after 1 step; [7] f at a.c:3"
    )
    assert late == []


def test_ranks_at_several_places_are_refused() -> None:
    job = MovingJob(paths([at(2)]))
    job.frames[7] = frame(9, "g")
    with pytest.raises(
        UsageError, match=r"several functions: \[0-6\] f at a.c:1, \[7\] g at a.c:9"
    ):
        stepped(job)
    job.frames[7] = frame(2)
    with pytest.raises(UsageError, match=r"several lines: \[0-6\] f at a.c:1, \[7\] f at a.c:2"):
        stepped(job, "next")
    assert job.resumed == []


def test_finish_and_until_a_location_bring_lines_of_a_function_together() -> None:
    for word, argument in (("finish", ""), ("until", "9")):
        job = MovingJob(paths([at(30, "main", reason="function-finished")]))
        job.frames[7] = frame(2)
        assert stepped(job, word, argument=argument)[0].are_together
    with pytest.raises(UsageError, match="several lines"):
        stepped(moved_apart(), "until")


def test_a_lockstep_from_several_lines_names_each_with_its_ranks() -> None:
    job = MovingJob(paths([at(9, reason="location-reached")], r7=[None]))
    job.frames[7] = frame(2)
    found, _ = stepped(job, "until", argument="9", settle_s=0.0)
    assert [(str(way.ranks), way.line) for way in found.starts] == [("0-6", 1), ("7", 2)]
    assert (str(found.start.ranks), found.start.line) == ("0-6", 1)
    assert meeting_text.reason_of(found).startswith(
        "[7] still steps after 0 steps, from f at a.c:2;"
    )
    job = MovingJob(paths([at(9, reason="location-reached")], r7=[at(30, "main")]))
    job.frames[7] = frame(2)
    found, _ = stepped(job, "until", argument="9")
    assert meeting_text.reason_of(found) == (
        "the ranks part after 0 steps, from [0-6] f at a.c:1, [7] f at a.c:2: "
        "[0-6] took line 9, [7] main at a.c:30"
    )


def test_ranks_at_several_places_learn_how_to_meet() -> None:
    with pytest.raises(
        UsageError,
        match=r"; 'until LINE --lockstep' with a line of f that is ahead of all brings them "
        r"together; ranks of several iterations meet by 'barrier LOCATION if VAR == N' and "
        r"'continue'; 'proc 0-6 next --lockstep' steps \[0-6\] only",
    ):
        stepped(moved_apart(), "next")


def test_ranks_at_places_of_several_programs_learn_to_step_by_program() -> None:
    job = MovingJob(paths([at(2)]))
    for rank in range(4, 8):
        job.frames[rank] = frame(9)

    async def test(session: Session) -> None:
        of_two_programs(job, session)
        with pytest.raises(
            UsageError,
            match=r"; 'proc SET step --lockstep' steps one program by itself: \[0-3\] p0, "
            r"\[4-7\] p1",
        ):
            await session.lockstep()
        assert (await session.ranks("4-7").lockstep()).end == "complete"

    run(job, test)


def moved_apart() -> MovingJob:
    job = MovingJob(paths([at(30)]))
    job.frames[7] = frame(2)
    return job


def test_ranks_that_run_or_are_held_take_no_part() -> None:
    job = MovingJob(paths([at(2), at(3)], r7=[None]))

    async def test(session: Session) -> None:
        await session.ranks("7").continue_(wait=False)
        with pytest.raises(UsageError, match=r"\[7\] runs; 'interrupt' stops it"):
            await session.lockstep()
        rest = session.ranks("0-6")
        session.ranks("3").hold()
        found = await rest.lockstep()
        assert str(found.ranks) == "0-2,4-6"
        assert str(found.answer.missing.held) == "3"
        rest.hold()
        with pytest.raises(CommandError, match="held"):
            await rest.lockstep()

    run(job, test)


@pytest.mark.parametrize(("word", "count"), [("continue", 1), ("jump", 1), ("step", 0)])
def test_a_step_that_is_none_is_refused(word: Any, count: int) -> None:
    with pytest.raises(UsageError):
        stepped(MovingJob(paths([])), word, count)


def of_two_programs(job: MovingJob, session: Session) -> None:
    session.table = ProcTable(
        processes=tuple(RankProcess(rank, "n", rank, f"/p{rank // 4}") for rank in job.ranks),
        source="made up",
    )


@pytest.mark.parametrize(("file", "is_same"), [("../b/a.c", True), ("a2.c", False)])
def test_ranks_of_two_programs_are_compared_by_file_function_and_line(
    file: str, is_same: bool
) -> None:
    job = MovingJob(paths([at(2)]))
    for rank in range(4, 8):
        job.frames[rank] = Frame(level=0, function="f", file=file, line=1)

    async def test(session: Session) -> None:
        of_two_programs(job, session)
        if is_same:
            assert (await session.lockstep()).end == "complete"
            return
        for call in (session.lockstep(), session.until_diverge()):
            with pytest.raises(
                UsageError,
                match=r"in several functions of several programs: \[0-3\] f at a.c:1, "
                r"\[4-7\] f at a2.c:1; .*'proc SET",
            ):
                await call
        assert job.resumed == []

    run(job, test)


def test_ranks_of_two_programs_without_lines_are_refused() -> None:
    job = MovingJob(paths([at(2)]))
    job.frames = dict.fromkeys(job.frames, frame(0, "f"))

    async def test(session: Session) -> None:
        of_two_programs(job, session)
        with pytest.raises(CommandError, match="several programs"):
            await session.lockstep()

    run(job, test)


class Spelled(MovingJob):
    """Ranks whose table has two names, and whose kernel has those of *files*."""

    files = dict.fromkeys(range(8), "/p/spawns")

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if isinstance(operation, Console) and operation.command == "info proc exe":
            return Text(text=f"process {4711 + rank}\nexe = '{self.files[rank]}'\n")
        return super().answer(operation, rank, request_id)


def test_one_program_of_two_names_is_one_program() -> None:
    """A launcher's line has ./spawns, and the scan of a spawned world the whole path."""
    job = Spelled(paths([at(0, "g")]))
    job.frames = dict.fromkeys(job.frames, frame(0, "f"))

    async def test(session: Session) -> None:
        of_two_programs(job, session)
        assert (await session.lockstep()).end == "complete"
        job.files = {**job.files, 7: "/q/spawns"}
        with pytest.raises(
            CommandError, match=r"several programs.*'proc SET step --lock.*\[7\] /q/"
        ):
            await session.lockstep()

    run(job, test)


def test_until_diverge_steps_on_until_the_lines_part() -> None:
    common: list[Step] = [at(line) for line in range(2, 40)]
    job = MovingJob(paths([*common, at(57)], r3=[*common, at(61)]))

    async def test(session: Session) -> None:
        found = await session.until_diverge(by="next")
        assert (found.end, found.steps) == ("parted", 38)
        assert found.start.line == 39

    run(job, test)


def test_a_lockstep_that_is_cancelled_leaves_later_stops_to_be_reported() -> None:
    job = MovingJob(paths([None]))
    reported: list[RankSet] = []

    async def test(session: Session) -> None:
        session.subscribe(
            lambda news: (
                reported.extend(e.ranks for e in news.classes if isinstance(e.record, Stop))
                if isinstance(news, RankEvents)
                else None
            )
        )
        task = asyncio.create_task(session.lockstep())
        while not job.resumed:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        job.happen(dict.fromkeys(job.ranks, at(2)))

    run(job, test)
    assert reported == [job.ranks]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("finish", 2), {}, "lockstep: 'finish' takes no number of steps, not 2"),
        (("step",), {"argument": "3"}, "lockstep: 'step' takes no argument, not '3'"),
        (("next", 0), {}, "0 is no number of steps; 1 to 1000000000 are"),
    ],
)
def test_words_without_a_number_or_an_argument(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    job = MovingJob(paths([at(2)]))
    with pytest.raises(UsageError) as error:
        stepped(job, *arguments, **options)
    assert str(error.value) == message
    assert job.resumed == []


def test_only_steps_can_diverge() -> None:
    async def test(session: Session) -> None:
        with pytest.raises(UsageError, match="by 'finish' is none of step, next, stepi, nexti"):
            await session.until_diverge(by="finish")

    run(MovingJob(paths([at(2)])), test)
