"""Breakpoints with options: which ranks stop at them, and which run on."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from pgdb.errors import RankSetError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.text.breakpoint_text import breakpoint_table
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import AnyOperation, Console, InsertBreakpoint, Resume
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointList, BreakpointsMade, Record, Stop, stopped_at
from tests.fakes.recorded import ALL, User
from tests.fakes.stopping import StoppingJob, run, stops, until
from tests.support.answers import ranks


def test_ranks_outside_a_set_that_changes_run_on_unseen() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        session.sets["mine"] = ranks("1-2")
        await session.break_at("f", members="@mine")
        number = session.last_breakpoint
        waiting = asyncio.create_task(session.wait())
        job.hit("0-1", number)
        await until(session, lambda: job.resumed == ["0"])
        assert job.events == [[("1", "breakpoint-hit", "")]] and not waiting.done()
        session.sets["mine"] = ranks("0")
        job.hit("0", number)
        assert job.events[1:] == [[("0", "breakpoint-hit", "")]]
        job.hit("2-3", number)
        await until(session, lambda: job.resumed == ["0", "2-3"])
        assert session.state.running == ranks("2-3")
        # They are of the same run still: an error of one stops the others.
        job.notify("3", Stop(reason="signal-received", signal="SIGSEGV"))
        await until(session, lambda: session.state.stopped == ALL)
        assert job.interrupted == ["2"]
        await waiting
        with pytest.raises(RankSetError, match="no set named '@nosuch'"):
            await session.break_at("f", members="@nosuch")
        # A set that is none would be read at each stop from then on.
        for none in (3, None, ["0"], b"0"):
            with pytest.raises(UsageError, match=r"members is .*, and not a text"):
                await session.break_at("f", members=cast(str, none))

    run(test)


def test_a_run_that_cannot_go_on_passes_over_it_on_ranks_outside_the_set() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        session.sets |= {"mine": ranks("1"), "none": RankSet(), "every": ALL}
        await session.break_at("f", members="@mine", stop="all")
        first = session.last_breakpoint
        await session.break_at("g", members="@none")
        await session.break_at("h", members="@every")
        await session.break_at("i", stop="all")
        await session.ranks("0-2").run("next", wait=False)
        await session.runs.start_console("reverse-step", ranks("3"))
        asked = [each for each in job.asked if isinstance(each, Resume | Console)]
        passed = [[(one.number, str(one.ranks)) for one in each.passed] for each in asked]
        assert passed == [[(first, "0,2"), (first + 1, "0-2")], [(first, "3"), (first + 1, "3")]]
        # A stop is no news that PGDB drops: the set may have changed since the command.
        job.hit("0", first + 1)
        assert job.events == [[("0", "breakpoint-hit", "")]]

    run(test, runs=False)


def test_a_continue_reads_the_set_at_the_hit() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        session.sets["mine"] = ranks("1")
        await session.break_at("f", members="@mine")
        await session.continue_(wait=False)
        (asked,) = (each for each in job.asked if isinstance(each, Resume))
        assert asked.passed == ()

    run(test, runs=False)


def test_an_interrupted_rank_does_not_run_on() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        await session.break_at("f", members="@lost")
        job.deaf = ALL
        asking = asyncio.create_task(session.interrupt())
        await until(session, lambda: job.interrupted)
        job.hit("0-3", session.last_breakpoint)
        await asking
        assert not job.resumed[1:] and session.state.stopped == ALL
        # The breakpoint is for none of them.
        assert job.events == [[("0-3", "interrupted", "")]]
        assert not session.state.named(f"bp{session.last_breakpoint}")

    run(test)


def test_an_interrupt_that_came_before_a_rank_went_on_is_sent_again() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        session.sets["mine"] = ranks("1")
        await session.break_at("f", members="@mine", stop="all")
        job.deaf, job.is_slow = ranks("2"), True
        job.hit("1-2", session.last_breakpoint)
        await until(session, lambda: job.resumed == ["2"] and job.interrupted)
        job.deaf = RankSet()
        await until(session, lambda: session.state.stopped == ALL)
        assert job.interrupted[-1] == "2"

    run(test)


def test_a_rank_that_cannot_go_on_is_shown() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        await session.break_at("f", members="@lost")
        job.refuses = True
        job.hit("0", session.last_breakpoint)
        await until(session, lambda: session.state.stopped == ranks("0"))
        assert job.events == [[("0", "breakpoint-hit", "")]]

    run(test)


def test_a_set_that_is_forgotten_stops_all() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        session.sets["mine"] = ranks("1")
        await session.break_at("f", members="@mine")
        del session.sets["mine"]
        job.hit("0-1", session.last_breakpoint)
        assert job.events == [[("0-1", "breakpoint-hit", "")]]
        assert "stops all ranks now" in job.notes[0] and "@mine" in job.notes[0]

    run(test)


def test_a_temporary_breakpoint_stays_on_ranks_that_run_on() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        session.sets["mine"] = ranks("1")
        await session.break_at("f", members="@mine", temporary=True)
        number = session.last_breakpoint
        assert "tbreak f" in session.breakpoints_text
        assert "options --ranks @mine" in session.breakpoints_text
        job.hit("0-1", number)
        await until(session, lambda: job.resumed == ["0"])
        assert [each.record.hit for each in stops(job)] == ["Temporary breakpoint"]
        # It is deleted where a rank of the set has stopped, and nowhere else.
        await until(session, lambda: session._core.journal.ranks_of(number) == ALL - ranks("1"))
        session.sets["mine"] = ranks("0")
        job.hit("0", number)
        assert job.events[1:] == [[("0", "breakpoint-hit", "")]]
        del session.sets["mine"]
        job.hit("2", number)
        await until(session, lambda: session._core.journal.ranks_of(number) == ranks("3"))

    run(test)


def test_every_call_that_makes_a_breakpoint_takes_a_set_and_a_mode() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        session.sets["mine"] = ranks("1")
        await session.watch("x", members="@mine")
        await session.execute("catch fork", stop="all", members="@mine")
        job.hit("0", session.last_breakpoint - 1)
        await until(session, lambda: job.resumed == ["0"])
        job.hit("1", session.last_breakpoint)
        await until(session, lambda: session.state.stopped == ALL)
        with pytest.raises(UsageError, match="'print' makes no breakpoint"):
            await session.execute("print 1", stop="all")
        with pytest.raises(RankSetError, match="no set named '@nosuch'"):
            await session.watch("x", members="@nosuch")

    run(test)


def test_all_breakpoints_of_a_command_have_its_options() -> None:
    class ManyJob(StoppingJob):
        def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
            if not isinstance(operation, InsertBreakpoint):
                return super().answer(operation, rank, request_id)
            numbers = range(operation.first_number, operation.first_number + 3)
            return BreakpointsMade(tuple(Breakpoint(each, "breakpoint") for each in numbers))

    async def test(job: StoppingJob, session: Session) -> None:
        session.sets["mine"] = ranks("1")
        await User(session).type("rbreak f --ranks @mine --stop all")
        job.hit("0", 3)
        await until(session, lambda: job.resumed == ["0"])
        job.hit("1", 2)
        await until(session, lambda: session.state.stopped == ALL)

    run(test, job_type=ManyJob)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            'dprintf f,"%d",x --ranks @mine',
            "so @mine is not read at its hits; 'proc @mine dprintf f,\"%d\",x' is for its ranks",
        ),
        (
            'dprintf f,"%d",x --stop all',
            "a dprintf prints and stops no rank, so it takes no --stop",
        ),
        ("ftrace f --ranks @mine", "ftrace: a tracepoint collects and stops no rank"),
    ],
)
def test_what_stops_no_rank_has_no_set_that_is_read_at_a_stop(line: str, error: str) -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        user = User(session)
        await user.type("defset mine 1")
        assert error in await user.type(line)
        assert not session.breakpoints_text
        assert "run on" not in await user.type('dprintf f,"%d",x --ranks 1')
        assert session.breakpoints_text

    run(test)


def test_the_prompt_takes_a_set_and_a_mode() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        user = User(session)
        await user.type("focus 0-1")
        assert "[2]" in await user.type("break f --ranks 2 --stop all")
        assert session.breakpoint_numbers.last == 1
        job.hit("2", 1)
        await until(session, lambda: session.state.stopped == ALL)
        await user.type("defset late 1,3")
        shown = await user.type("tbreak g if x > 1 --ranks @late")
        assert "ranks outside @late run on when they hit it; the set is [1,3] now" in shown
        # GDB would delete it on the ranks that run on.
        assert job.asked[-1].command == "break g if x > 1"  # type: ignore[union-attr]
        await user.type("defset late 0")
        await session.run("continue", wait=False)
        job.hit("0-1", 2)
        await until(session, lambda: job.resumed[1:])
        assert job.resumed[1:] == ["1"] and session.state.stopped == ranks("0")
        for line, error in (
            ("break f --stop some", "--stop takes rank, focus or all, not 'some'"),
            ("break f --ranks", "--ranks needs a value"),
            ("break f --ranks 9", "no rank 9"),
            ("break f --ranks @nosuch", "there is no set named '@nosuch'"),
            ("break f --ranks 1!1", "--ranks 1!1 is an empty set"),
            ("break f --rank 1", "no option '--rank'"),
            ("set stop-mode some", "some"),
        ):
            assert error in await user.type(line), line
        await user.type("set stop-mode all")
        assert session.options.stop_mode == "all"

    run(test)


def test_the_list_of_breakpoints_has_their_options() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        await session.break_at("f", members="@lost", stop="all")
        number = session.last_breakpoint
        listed = BreakpointList((Breakpoint(number, "breakpoint"), Breakpoint(number + 1, "b")))
        answer = Answer("info b", ALL, (EquivalenceClass(ALL, listed),))
        (found,) = session.stop_modes.with_options(answer).classes
        assert isinstance(found.record, BreakpointList)
        options = [each.options for each in found.record.breakpoints]
        assert options == ["--stop all --ranks @lost", ""]
        assert "\t--stop all --ranks @lost" in breakpoint_table(found.record.breakpoints)

    run(test)


def test_a_set_that_a_breakpoint_reads_is_not_forgotten() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        user = User(session)
        for line in ("defset mine 1", "defset minerals 2", "break f --ranks @mine"):
            await user.type(line)
        first = session.last_breakpoint
        shown = await user.type("undefset @mine")
        assert (
            f"undefset: breakpoint {first} reads @mine at each hit, and would stop all ranks "
            f"without it; 'delete {first}' deletes it, and 'defset mine SET' changes the set"
        ) in shown
        await user.type("tbreak g --ranks 3,@mine --stop all")
        assert f"breakpoints {first} {first + 1} read @mine" in await user.type("undefset mine")
        assert "mine" in user.dispatcher.workspace.all_sets
        assert "undefset" not in await user.type("undefset minerals")
        await user.type(f"delete {first} {first + 1}")
        assert "undefset" not in await user.type("undefset mine")
        assert "there is no set @mine" in await user.type("undefset mine")

    run(test, runs=False)


def test_a_rank_stops_at_each_breakpoint_of_a_place_that_is_its_own() -> None:
    """GDB names the one with the least number; a rank goes on if none of them is for it."""

    async def test(job: StoppingJob, session: Session) -> None:
        session.sets |= {"mine": ranks("0"), "theirs": ranks("0-1")}
        await session.break_at("f", members="@mine")
        await session.break_at("f", members="@theirs")
        await session.break_at("f if x", stop="all")
        job.hit("0-2", 1, breakpoints=(1, 2), location=2)
        await until(session, lambda: job.resumed == ["2"])
        found = {str(each.ranks): each.record for each in stops(job)}
        assert {text: stopped_at(stop) for text, stop in found.items()} == {"0": (1, 2), "1": (2,)}
        # The location is one of breakpoint 1.
        assert [found[text].location for text in ("0", "1")] == [2, 0]
        assert session.state.named("bp2") == ranks("0-1") and not job.interrupted
        job.hit("2", 1, breakpoints=(1, 2, 3))
        await until(session, lambda: session.state.stopped == ALL)
        assert job.interrupted == ["3"] and job.resumed == ["2"]
        assert session.state.named("bp3") == ranks("2")

    run(test)


def test_a_temporary_breakpoint_behind_another_one_stops_and_goes() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        session.sets |= {"mine": ranks("0"), "theirs": ranks("1-2")}
        await session.break_at("f", members="@mine")
        await session.ranks("0-1").execute("tbreak f if x")
        await session.break_at("f", members="@theirs", temporary=True)
        job.hit("1", 1, breakpoints=(1, 2))
        job.hit("2", 1, breakpoints=(1, 3))
        job.hit("3", 1, breakpoints=(1, 3))
        await until(session, lambda: job.resumed == ["3"])
        shown = {str(each.ranks): (each.record.hit, stopped_at(each.record)) for each in stops(job)}
        word = "Temporary breakpoint"
        assert shown == {"1": (word, (2,)), "2": (word, (3,))}
        await until(session, lambda: not session.has_breakpoints(ranks("2"), 3))
        left = [(n, r) for n in (2, 3) for r in ALL if session.has_breakpoints(RankSet([r]), n)]
        assert left == [(2, 0), (3, 0), (3, 1), (3, 3)]

    run(test)


def test_a_watchpoint_behind_a_breakpoint_of_other_ranks_is_shown_as_one() -> None:
    made = Breakpoint(number=2, kind="hw watchpoint", what="n")

    class Watching(StoppingJob):
        def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
            if isinstance(operation, InsertBreakpoint) and operation.first_number == 2:
                return BreakpointsMade(breakpoints=(made,))
            return super().answer(operation, rank, request_id)

    async def test(job: StoppingJob, session: Session) -> None:
        session.sets["mine"] = ranks("0")
        await session.break_at("f", members="@mine")
        await session.execute("watch n")
        job.hit("1", 1, breakpoints=(1, 2))
        (found,) = stops(job)
        assert (found.record.reason, found.record.hit) == (
            "watchpoint-trigger",
            "Hardware watchpoint",
        )

    run(test, job_type=Watching)
