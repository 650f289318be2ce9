"""Answers that nobody waits for any longer are applied all the same."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.notifications import Notifier
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import Interrupt
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointsMade,
    Done,
    Event,
    Exit,
    Failure,
    Gone,
    Output,
    Running,
    Stop,
    Value,
)
from tests.fakes.command_job import ALL, STOP, Job, run

SLOW = RankSet([3])


def test_ranks_that_say_late_that_they_do_not_run_are_stopped() -> None:
    async def test(job: Job) -> None:
        task = await job.begin(job.session.runs.start("until", "nosuch", ALL))
        job.answer(missing=Missing(late=ALL))
        await task
        assert job.session.state.running == ALL
        refused = Failure(message="no such function")
        job.answer((SLOW, refused), (ALL - SLOW, Running(run=1)), is_late=True)
        state = job.session.state
        assert (state.stopped, state.running) == (SLOW, ALL - SLOW)
        # Where they stand from then on is news again.
        job.session.traffic.on_events((EquivalenceClass[Event](SLOW, Stop(reason="interrupted")),))
        assert [str(each.ranks) for news in job.notifications for each in news.classes][-1] == "3"

    run(test)


def test_options_that_are_changed_hold_from_then_on() -> None:
    async def test(job: Job) -> None:
        task = await job.begin(job.session.runs.start("continue", "", ALL))
        job.answer((ALL, Running(run=1)))
        await task
        job.session.options = replace(job.session.options, stop_on_error=True)
        crash = Stop(reason="signal-received", signal="SIGSEGV", run=1)
        job.session.traffic.on_events((EquivalenceClass[Event](SLOW, crash),))
        while not isinstance(job.requests[-1].operation, Interrupt):
            await asyncio.sleep(0)
        assert job.requests[-1].ranks == ALL - SLOW

    run(test)


def test_a_rank_that_ended_during_the_wait_for_others_does_not_run() -> None:
    """The rank ran before the command, which has not resumed it."""

    async def test(job: Job) -> None:
        runs, traffic, others = job.session.runs, job.session.traffic, ALL - SLOW

        def happens(ranks: RankSet, event: Event) -> None:
            traffic.on_events((EquivalenceClass[Event](ranks, event),))

        task = await job.begin(runs.start("continue", "", ALL))
        job.answer((ALL, Running(run=1)))
        await task
        happens(others, Stop(reason="breakpoint-hit", run=1))
        for number in (2, 3):
            task = await job.begin(runs.start("next", "", ALL))
            job.answer((others, Running(run=number)))
            started = await task
            assert started.missing.running == SLOW
            waiting = asyncio.create_task(runs.finish(started))
            await asyncio.sleep(0)
            if number == 3:
                happens(SLOW, Exit(code=0, run=1))
            happens(others, Stop(reason="end-stepping-range", run=number))
            answer = await waiting
            assert answer.missing.running == (SLOW if number == 2 else RankSet())
            there = RankSet.union(each.ranks for each in answer.classes)
            assert there == ALL - answer.missing.running

    run(test)


def test_a_run_that_was_given_up_is_taken_as_it_is_answered() -> None:
    async def test(job: Job) -> None:
        await job.give_up(job.session.runs.start("finish", "", ALL))
        job.answer((ALL - SLOW, Running(run=1)), (SLOW, Failure(message="outermost")))
        state = job.session.state
        assert (state.stopped, state.running) == (SLOW, ALL - SLOW)

    run(test)


def test_a_run_that_cannot_be_asked_for_has_not_begun() -> None:
    async def test(job: Job) -> None:
        with pytest.raises(
            UsageError, match=r"^byte 0xff at character 3 of the text is not UTF-8$"
        ):
            await job.session.runs.start("until", "f:\udcff", ALL)
        assert job.session.state.stopped == ALL and not job.requests

    run(test)


def test_ranks_whose_detach_was_given_up_have_left_as_it_is_answered() -> None:
    async def test(job: Job) -> None:
        await job.give_up(job.session.detach())
        assert job.session.kills_at_close
        job.answer((ALL - SLOW, Done()), missing=Missing(late=SLOW))
        assert job.session.state.detached == ALL - SLOW
        job.answer((SLOW, Done()), is_late=True)
        assert job.session.state.detached == ALL and not job.session.kills_at_close
        notes = [each.text for each in job.notifications if each.kind == "notice"]
        assert notes == ["[0-2] detached; they run on", "[3] detached; they run on"]
        assert await job.late_answers() == []

    run(test)


def test_a_late_answer_to_a_question_of_pgdb_itself_is_not_reported() -> None:
    async def test(job: Job) -> None:
        await job.give_up(job.session.lockstep("finish"))
        job.answer((ALL, Failure(message="no frame")))
        assert await job.late_answers() == []
        (kept,) = job.session.recorder.exchanges
        assert kept.answer.command == "frame"

    run(test)


def test_a_question_that_was_given_up_is_answered_late() -> None:
    async def test(job: Job) -> None:
        await job.give_up(job.session.evaluate("x"))
        job.answer((ALL, Value(text="7")))
        (answer,) = await job.late_answers()
        assert (answer.command, str(answer.ranks)) == ("print x", "0-3")
        # A recording has it, too.
        (kept,) = job.session.recorder.exchanges
        assert kept.answer.classes == answer.classes

    run(test)


def test_an_answer_that_comes_in_the_moment_it_is_given_up_is_taken() -> None:
    async def test(job: Job) -> None:
        task = await job.begin(job.session.detach())
        job.answer((ALL, Done()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert job.session.state.detached == ALL

    run(test)


def made(*numbers: int) -> BreakpointsMade:
    return BreakpointsMade(
        tuple(Breakpoint(number=each, kind="breakpoint", original="f") for each in numbers)
    )


def test_breakpoints_whose_command_was_given_up_have_their_numbers_and_are_set_again() -> None:
    async def test(job: Job) -> None:
        session = job.session
        await job.give_up(session.break_at("f"))
        job.answer((ALL, made(1)))
        await job.give_up(session.insert_breakpoint("rbreak ^g", ALL))
        job.answer((ALL, made(2, 3, 4)))
        task = await job.begin(session.break_at("h"))
        assert job.requests[-1].operation.first_number == 5  # type: ignore[union-attr]
        job.answer((ALL, made(5)))
        await task
        again = session._core.journal.of(ALL)
        assert [each.numbers for each in again] == [(1,), (2,), (3,), (4,), (5,)]

    run(test)


def test_numbers_of_breakpoints_follow_each_other() -> None:
    async def test(job: Job) -> None:
        session = job.session
        for line, said, last in (
            ("rbreak ^g", made(1, 2, 3), 3),
            ("break nosuch", Failure(message="no such function"), 3),
            ("rbreak nosuch", Done(), 3),
            ("break f", made(4), 4),
        ):
            task = await job.begin(session.insert_breakpoint(line, ALL))
            job.answer((ALL, said))
            await task
            assert session.last_breakpoint == last, line

    run(test)


@pytest.mark.parametrize("was_lost", [True, False])
def test_a_new_gdb_that_dies_while_others_are_taken_back_leaves_its_rank_lost(
    was_lost: bool,
) -> None:
    async def test(job: Job) -> None:
        state = job.session.state
        if was_lost:
            state.lose(SLOW)
        task = await job.begin(job.session.reattach())
        # The rank had a GDB: the event may be that one's end, in flight when the request was sent.
        job.session.traffic.on_events((EquivalenceClass[Event](SLOW, Gone(why="it was killed")),))
        job.answer((ALL, STOP))
        await task
        assert state.lost == (SLOW if was_lost else RankSet())
        assert state.stopped == ALL - state.lost

    run(test)


def test_a_reattach_that_was_given_up_ends_what_it_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(job: Job) -> None:
        begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def restore(ranks: RankSet, table: object) -> tuple[()]:
            begun.set()
            await go.wait()
            done.set()
            return ()

        monkeypatch.setattr(job.session.transport, "restore", restore)
        task = asyncio.create_task(job.session.reattach())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await asyncio.wait_for(done.wait(), 5)

    run(test)


def test_an_end_that_a_reattach_finds_late_is_taken() -> None:
    async def test(job: Job) -> None:
        job.session.state.lose(SLOW)
        task = await job.begin(job.session.reattach())
        job.answer((ALL - SLOW, Done()), missing=Missing(late=SLOW))
        await task
        job.answer((SLOW, Exit(code=3)), is_late=True)
        assert job.session.state.exited == RankSet()
        await asyncio.gather(*job.session._core._background)
        assert job.session.state.exited == SLOW

    run(test)


def test_who_is_hushed_twice_is_heard_when_both_are_over() -> None:
    notifier = Notifier()
    one, other = notifier.hush(RankSet([0])), notifier.hush(RankSet([1]))
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert str(notifier.hushed) == "1"
    other.__exit__(None, None, None)
    assert not notifier.hushed


def heard(notifier: Notifier, *news: tuple[str, Event]) -> list[str]:
    """Return the ranks and classes of the events that are reported."""
    classes = tuple(
        EquivalenceClass(ranks=RankSet.parse(ranks), record=record) for ranks, record in news
    )
    found = notifier.audible(classes)
    return [f"{each.ranks} {type(each.record).__name__}" for each in found]


def test_displays_of_an_interrupt_that_is_not_reported_are_not_reported() -> None:
    notifier = Notifier()
    shown = functools.partial(heard, notifier)
    interrupt, displays = Stop(reason="interrupted"), Output(text="1: x = 3", of_stop=True)
    hit, printed = Stop(reason="breakpoint-hit"), Output(text="a line of dprintf")
    with notifier.hush(RankSet.parse("0-1")):
        assert shown(("0-2", interrupt), ("0-2", displays)) == ["2 Stop", "2 Output"]
        assert shown(("0-1", printed)) == ["0-1 Output"]
        assert shown(("0", hit), ("0", displays)) == ["0 Stop", "0 Output"]
    # The displays of rank 1 can come late; those of its next stop are shown again.
    assert shown(("1", displays), ("2", displays)) == ["2 Output"]
    assert shown(("0-1", interrupt), ("0-1", displays)) == ["0-1 Stop", "0-1 Output"]


def test_displays_of_a_stop_that_the_user_wants_after_all_are_reported() -> None:
    notifier = Notifier()
    interrupt, displays = Stop(reason="interrupted"), Output(text="1: x = 3", of_stop=True)
    with notifier.hush(RankSet.parse("0-1")):
        assert heard(notifier, ("0-1", interrupt)) == []
        notifier.end_hush(RankSet([0]))
        assert heard(notifier, ("0-1", displays)) == ["0 Output"]
