"""Commands that keep ranks together, as they are typed and as they are shown."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pgdb.frontend.api.exit_status import EXIT_NO_ANSWER, EXIT_OK
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.ui.batch import JsonDisplay
from pgdb.overlay.messages import AnyOperation, InsertBreakpoint
from pgdb.records import Failure, Record
from tests.fakes.moving import MovingJob, Step, at, run
from tests.fakes.recorded import User
from tests.support.why_calls import recv

Type = Callable[[str], Awaitable[str]]


def typed(job: MovingJob, test: Callable[[Type, User], Awaitable[None]]) -> None:
    """Carry out a test with the prompt of a session on a job."""

    async def work(session: Session) -> None:
        user = User(session)
        user.dispatcher.workspace.settle_s = 0.0
        await test(user.type, user)

    run(job, work)


def as_json(job: MovingJob, *lines: str, settle_s: float | None = None) -> list[dict[str, Any]]:
    """Return the JSON lines that typed lines give."""
    out = io.StringIO()

    async def read(prompt: str) -> str | None:
        return None

    async def work(session: Session) -> None:
        display = JsonDisplay(out)
        dispatcher = Dispatcher(Workspace(session, settle_s=settle_s), display, read_line=read)
        session.subscribe(display.notify)
        for line in lines:
            await dispatcher.run_line(line)

    run(job, work)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def four(common: list[Step], last: list[Step]) -> MovingJob:
    return MovingJob({rank: last if rank == 3 else common for rank in range(4)})


def test_a_lockstep_shows_where_the_ranks_are_and_why_it_ends() -> None:
    async def test(type_: Type, user: User) -> None:
        assert await type_("next --lockstep 5") == (
            "[0-2] stopped in f () at a.c:57\n"
            "[3]   stopped in f () at a.c:61\n"
            "the ranks part after 1 step, at f at a.c:2: [0-2] took line 57, [3] line 61\n"
        )
        assert [str(each) for each in user.dispatcher.workspace.numbered_sets] == ["0-2", "3"]
        assert user.dispatcher.status == EXIT_OK

    typed(four([at(2), at(57)], [at(2), at(61)]), test)


def test_abbreviations_and_the_options_of_mi_have_lockstep_too() -> None:
    job = four([at(line) for line in range(2, 9)], [at(line) for line in range(2, 9)])

    async def test(type_: Type, user: User) -> None:
        for line in ("s --lockstep 2", "n 2 --lockstep", "step --all --lockstep", "si --lockstep"):
            await type_(line)
        assert [word for word, _ in job.resumed] == ["step"] * 2 + ["next"] * 2 + ["step", "stepi"]

    typed(job, test)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("step --lockstep 0", "takes 1 to"),
        ("step --lockstep two", "takes 1 to"),
        ("step --lockstep &", "cannot run in the background"),
        ("finish --lockstep 2", "takes no argument"),
        ("until-diverge 0", "until-diverge takes 1 to 1000000000, not '0'"),
        ("until-diverge x", "until-diverge takes 1 to 1000000000, not 'x'"),
        ("until-diverge --by finish", "--by takes step, next, stepi or nexti"),
        ("until-diverge &", "cannot run in the background"),
        ("until-diverge --bogus", "until-diverge: no option '--bogus'; there are --by"),
        ("until-diverge 3 --bogus", "until-diverge: no option '--bogus'; there are --by"),
        ("until --bogus", "until: no option '--bogus'; there are --lockstep"),
        ("break --bogus", "break: no option '--bogus'; there are --ranks, --stop"),
        ("trace --bogus", "trace: no option '--bogus'; there are --every, --first"),
        ("expand --bogus", "expand: no option '--bogus'; there are -l"),
        ("worlds --bogus", "worlds: no option '--bogus'; there are --job"),
        ("barrier", "'barrier' needs a location"),
        ("barrier 0-3", "'0-3' is a set of ranks, and the location is missing"),
        ("barrier @held if x", "the location is missing: 'barrier LOCATION @held'"),
        ("barrier 0,2 --times 3", "the location is missing: 'barrier LOCATION 0,2'"),
        ("barrier f 0-9", "no rank 4-9"),
        ("barrier f @exited", "barrier: @exited is an empty set of ranks"),
        ("barrier f --ranks @running if x", "barrier: @running is an empty set of ranks"),
        ("barrier f 0-3 0-2", "barrier: two sets of ranks are given: 0-3 and 0-2"),
        ("barrier f 0 @held", "barrier: two sets of ranks are given: 0 and @held"),
        ("barrier f @stopped 1 if x", "barrier: two sets of ranks are given: @stopped and 1"),
        ("barrier f nobody", "nobody"),
        ("barrier f 0-1 --ranks 2", "given twice"),
        ("barrier f if", "'if' needs a condition"),
        ("barrier f --then go", "--then takes stop or release"),
        ("barrier f --times 0", "--times takes 1 to"),
        ("info barriers x", "'x' is no number of a barrier"),
        ("info barriers 9", "there is no barrier 9"),
    ],
)
def test_a_wrong_line_names_its_fault(line: str, error: str) -> None:
    job = four([at(2)], [at(2)])

    async def test(type_: Type, user: User) -> None:
        assert error in await type_(line)
        assert job.resumed == []

    typed(job, test)


def test_ctrl_c_ends_the_steps() -> None:
    job = four([at(2), at(3), at(4)], [at(2), at(3), at(4)])

    async def test(type_: Type, user: User) -> None:
        answer = job.answer

        def interrupted(operation: Any, rank: int, request_id: int) -> Any:
            user.dispatcher.was_interrupted = bool(job.resumed)
            return answer(operation, rank, request_id)

        job.answer = interrupted  # type: ignore[method-assign]
        assert "the lockstep was interrupted after 1 step; [0-3] f at a.c:2" in await type_(
            "until-diverge"
        )

    typed(job, test)


@pytest.mark.parametrize(("in_batch", "limit_s"), [(True, 4.0), (False, None)])
def test_set_timeout_is_for_stops_in_a_batch_run_only(
    in_batch: bool, limit_s: float | None
) -> None:
    async def test(type_: Type, user: User) -> None:
        workspace = user.dispatcher.workspace
        workspace.run_timeout_s = 60.0 if in_batch else None
        await type_("set timeout 4")
        assert (workspace.run_timeout_s, workspace.limit_s) == (limit_s, 4.0)

    typed(four([at(2)], [at(2)]), test)


@pytest.mark.parametrize("line", ["until-diverge", "until-differ x --at f", "next --lockstep 3"])
def test_a_command_whose_time_is_over_between_two_runs_says_so(line: str) -> None:
    async def test(type_: Type, user: User) -> None:
        user.dispatcher.workspace.run_timeout_s = 0.0
        assert "the time of the command is over" in await type_(line)
        assert user.dispatcher.status == EXIT_NO_ANSWER

    typed(four([at(2)], [at(2)]), test)


def test_a_barrier_reads_ranks_and_condition() -> None:
    job = four([at(2)], [at(2)])

    async def test(type_: Type, user: User) -> None:
        assert "barrier 1: [0-1] are held there until all have come, and then run on" in (
            await type_("barrier a.c:48 0-1 --then release if rank > 3")
        )
        await type_("barrier -function f -line 3 --ranks 2,3 --times 5")
        await type_("proc 0 barrier f")
        assert await type_("info barriers") == (
            "1  a.c:48 if rank > 3, for [0-1], then they run on; met 0 times\n"
            "2  -function f -line 3, for [2-3], then they stay stopped, deleted after 5 times; "
            "met 0 times\n"
            "3  f, for [0], then they stay stopped; met 0 times\n"
        )
        lines = [each.command for each in job.asked if hasattr(each, "first_number")]
        assert lines == ["break a.c:48 if rank > 3", "break -function f -line 3", "break f"]
        await type_("delete 1-2")
        assert await type_("info barr") == "3  f, for [0], then they stay stopped; met 0 times\n"
        await type_("delete")
        assert "No barriers" in await type_("info barriers")

    typed(job, test)


def test_ranks_that_lack_the_place_of_a_barrier_are_named() -> None:
    job = four([at(2)], [at(2)])
    answer = job.answer

    def lacking(operation: AnyOperation, rank: int, request_id: int) -> Record:
        if isinstance(operation, InsertBreakpoint) and rank > 1:
            return Failure(message='Function "turn" not defined.')
        return answer(operation, rank, request_id)

    job.answer = lacking  # type: ignore[method-assign]

    async def test(type_: Type, user: User) -> None:
        out = await type_("barrier turn 0,2-3")
        assert '[2-3] error: Function "turn" not defined.' in out
        assert (
            "barrier 1: [0] is held there until all have come, without [2-3], and then stay stopped"
        ) in out

    typed(job, test)


def test_the_news_of_a_barrier_come_behind_the_stops() -> None:
    came = at(48, "meet", breakpoint=1)

    async def test(type_: Type, user: User) -> None:
        await type_("barrier meet")
        assert await type_("continue") == (
            "[0-3] Breakpoint 1, meet () at a.c:48\nbarrier 1: [0-3] are there; they stay stopped\n"
        )

    typed(four([came], [came]), test)


def test_barriers_that_block_each_other_say_so_before_the_prompt() -> None:
    f, g = at(48, "f", breakpoint=1), at(61, "g", breakpoint=2)

    async def test(type_: Type, user: User) -> None:
        await type_("barrier f")
        await type_("barrier g")
        assert await type_("continue") == (
            "[0-2] Breakpoint 1, f () at a.c:48\n"
            "[3]   Breakpoint 2, g () at a.c:61\n"
            "barrier 1: [0-2] wait; [3] is held at barrier 2; "
            "'release 0-2' or 'delete 1' ends the wait\n"
            "barrier 2: [3] waits; [0-2] are held at barrier 1; "
            "'release 3' or 'delete 2' ends the wait\n"
        )
        # The same is not said again.
        await user.session.all_barriers.report_now()
        user.display.flush()
        assert user.out.getvalue().count("barrier 1:") == 1

    typed(four([f], [g]), test)


def test_a_barrier_gives_its_reason_before_a_command_settles() -> None:
    """Rank 3 still runs: it waits in MPI for a rank that is held."""
    job = four([at(48, "f", breakpoint=1)], [None] * 5)
    job.calls = {3: recv(0)}
    lines = as_json(job, "barrier f", "continue", "info barriers", settle_s=0.0)
    news, listed = (each for each in lines if each["type"] == "barriers" and each["event"] != "set")
    [absent] = news["barriers"][0]["absent"]
    assert (absent["ranks"], absent["kind"]) == ("3", "in MPI")
    assert absent["why"].endswith("and may wait for [0], which is held")
    assert listed["barriers"][0]["absent"] == [absent]
    is_answer = [each["type"] == "answer" and each["command"] == "continue" for each in lines]
    assert lines.index(news) < is_answer.index(True)


def test_json_has_the_ways() -> None:
    lines = as_json(four([at(2)], [at(61, "g")]), "step --lockstep")
    [line] = [each for each in lines if each["type"] != "running"]
    del line["time"], line["elapsed_s"]
    classes = line.pop("classes")
    assert [each["ranks"] for each in classes] == ["0-2", "3"]
    assert line == {
        "type": "lockstep",
        "command": "step --lockstep",
        "ranks": "0-3",
        "steps": 0,
        "end": "parted",
        "start": {"ranks": "0-3", "function": "f", "file": "a.c", "line": 1},
        "starts": [{"ranks": "0-3", "function": "f", "file": "a.c", "line": 1}],
        "places": [
            {"ranks": "0-2", "function": "f", "file": "a.c", "line": 2},
            {"ranks": "3", "function": "g", "file": "a.c", "line": 61},
        ],
        "missing": {"late": "", "lost": "", "running": ""},
    }


def test_json_has_the_events_of_a_barrier() -> None:
    came = at(48, "meet", breakpoint=1)
    lines = as_json(four([came], [came]), "barrier meet --times 1", "continue", "info barriers")
    states = [(each["event"], each["barriers"]) for each in lines if each["type"] == "barriers"]
    base = {"number": 1, "location": "meet", "ranks": "0-3", "then": "stop", "times": 1}
    assert states == [
        ("set", [base]),
        ("met", [{**base, "met": 1, "arrived": "0-3"}]),
        ("listed", []),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "barrier f 0-2",
        "barrier f --then release --ranks 0 if x",
        "break --stop all f",
        "tbreak f --ranks 1-2",
        "tbreak f --ranks @stopped",
        "set stop-before-death on",
    ],
)
def test_json_has_the_command_as_it_was_typed(line: str) -> None:
    lines = as_json(four([], []), line)
    assert [each["command"] for each in lines if "command" in each] == [line]


def test_ranks_that_still_step_make_the_status() -> None:
    async def test(type_: Type, user: User) -> None:
        user.dispatcher.workspace.settle_s = None
        user.dispatcher.workspace.run_timeout_s = 0.05
        assert "[0-2] still step" in await type_("step --lockstep")
        assert user.dispatcher.status == EXIT_NO_ANSWER

    typed(four([None], [at(2)]), test)


@pytest.mark.parametrize(
    ("line", "kind", "field"),
    [
        ("info barriers", "barriers", "barriers"),
        ("traces", "traces", "traces"),
        ("info traces", "traces", "traces"),
    ],
)
def test_an_empty_list_is_a_line_of_its_type(line: str, kind: str, field: str) -> None:
    (listed,) = as_json(four([], []), line)
    assert (listed["type"], listed["event"], listed[field]) == (kind, "listed", [])
