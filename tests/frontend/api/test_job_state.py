"""The state of every rank, for events in any order."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdb.frontend.api.job_state import JobState, is_bad
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Gone, Output, Progress, Running, Stop, StopReason
from tests.support.answers import ranks

ALL = RankSet.range(0, 4)


def notify(state: JobState, text: str, event: Event, *, are_announced: bool = False) -> str:
    """Apply an event; return the ranks for which it is news."""
    news = state.apply([EquivalenceClass(ranks(text), event)], are_announced=are_announced)
    return str(RankSet.union(each.ranks for each in news))


def stop(run: int = 0, **fields: object) -> Stop:
    return Stop(reason="breakpoint-hit", run=run, **fields)  # type: ignore[arg-type]


def started(state: JobState | None = None) -> JobState:
    """Return a job whose ranks have all stopped at the start."""
    state = state or JobState(ALL)
    assert notify(state, "0-3", stop()) == "0-3"
    return state


def assert_disjoint(state: JobState) -> None:
    sets = [state.stopped, state.running, state.exited, state.lost, state.detached]
    assert sum(len(each) for each in sets) == len(RankSet.union(sets))
    assert RankSet.union(sets) <= state.ranks


def test_nobody_does_anything_at_first() -> None:
    state = JobState(ALL)
    assert not state.live and state.latest(ALL) == ()


def test_a_run_and_its_stop() -> None:
    state = started()
    state.start_run(5, ranks("0-2"))
    assert (str(state.running), str(state.stopped)) == ("0-2", "3")
    assert str(state.runners(5)) == "0-2"
    assert notify(state, "1", stop(5)) == "1"
    assert str(state.runners(5)) == "0,2"
    assert str(state.live) == "0-3"


def test_an_old_stop_of_a_rank_that_was_set_running_again_is_stale() -> None:
    state = started()
    state.start_run(5, ALL)
    notify(state, "0-1", stop(5))
    state.start_run(7, ranks("0-1"))
    assert notify(state, "0-3", stop(5)) == "2-3"
    assert str(state.running) == "0-1"
    assert notify(state, "0-1", stop(7)) == "0-1"


def test_a_stop_that_overtakes_the_acknowledgement_of_its_run_counts() -> None:
    state = started()
    state.start_run(5, ALL)
    assert notify(state, "2", stop(5)) == "2"
    state.cancel_run(5, ranks("3"))  # the acknowledgement: 3 could not be set running
    assert (str(state.running), str(state.stopped)) == ("0-1", "2-3")
    state.cancel_run(5, ranks("2"))
    assert str(state.stopped) == "2-3"


def test_a_run_that_was_cancelled_is_taken_back_for_its_ranks_alone() -> None:
    state = started()
    state.start_run(5, ranks("0-1"))
    state.start_run(6, ranks("2"))
    state.cancel_run(5, ALL)
    assert (str(state.running), str(state.stopped)) == ("2", "0-1,3")


def test_a_rank_that_goes_on_by_itself_runs_and_stops_again() -> None:
    state = started()
    state.start_run(5, ALL)
    notify(state, "0-3", stop(5))
    assert notify(state, "1", Running(run=5)) == "1"
    assert str(state.runners(5)) == "1"
    assert notify(state, "1", stop(5)) == "1"


def test_an_old_running_is_stale_too() -> None:
    state = started()
    state.start_run(5, ALL)
    notify(state, "0-3", stop(5))
    state.start_run(7, ALL)
    notify(state, "0", stop(7))
    assert notify(state, "0", Running(run=5)) == ""
    assert str(state.stopped) == "0"


def test_a_cancelled_run_does_not_make_the_events_of_the_one_before_stale() -> None:
    # Commands of a breakpoint go on (Running is under way) just as the user types 'continue';
    # the leaf says that the rank runs already, and the run is cancelled.
    state = started()
    state.start_run(5, ALL)
    notify(state, "0-3", stop(5))
    state.start_run(6, ranks("1"))
    state.cancel_run(6, ranks("1"))
    assert notify(state, "1", Running(run=5)) == "1"
    assert "1" in str(state.running)
    assert notify(state, "1", stop(5)) == "1"
    assert str(state.stopped) == "0-3"


def test_runs_of_two_commands_at_once_are_cancelled_each_for_itself() -> None:
    state = started()
    state.start_run(4, ALL)
    notify(state, "0-3", stop(run=4))
    state.start_run(5, ranks("0-1"))
    state.start_run(6, ranks("2-3"))
    state.cancel_run(5, ranks("0-1"))
    # A stop of an earlier run is as stale as it was.
    assert notify(state, "0-3", stop(run=1)) == ""
    assert (str(state.stopped), str(state.running)) == ("0-1", "2-3")


def test_exits_are_final() -> None:
    state = started()
    state.start_run(5, ALL)
    assert notify(state, "2", Exit(code=0, run=5)) == "2"
    assert notify(state, "2", Exit(code=0, run=5)) == ""
    assert notify(state, "2", stop(5)) == ""
    assert notify(state, "2", Running(run=5)) == ""
    assert notify(state, "2", Gone(why="GDB ended")) == ""
    assert state.lose(ranks("2")) == RankSet()
    state.detach(ALL)
    assert (str(state.exited), str(state.detached)) == ("2", "0-1,3")


def test_an_exit_counts_even_for_a_rank_that_was_started_again() -> None:
    state = started()
    state.start_run(5, ALL)
    notify(state, "0-3", stop(5))
    state.start_run(6, ALL)
    assert notify(state, "0", Exit(signal="SIGKILL", run=5)) == "0"
    assert str(state.runners(6)) == "1-3"


def test_lost_ranks_are_news_once_and_can_come_back() -> None:
    state = started()
    assert str(state.lose(ranks("0-1"))) == "0-1"
    assert state.lose(ranks("0-1")) == RankSet()
    assert notify(state, "0-2", Gone(why="killed")) == "2"
    assert str(state.live) == "3"
    assert notify(state, "0", stop(0)) == "0"  # an orphan announced it
    assert str(state.live) == "0,3"


def test_ranks_that_a_run_has_not_reached_before_their_loss_come_back_as_they_were() -> None:
    """The aggregator does not know of the run, and announces a state of before it."""
    state = started()
    state.start_run(1, ALL)
    assert notify(state, "1-3", Running(run=1)) == ""
    state.lose(ranks("0-1"))
    assert notify(state, "0", stop()) == "0"
    assert notify(state, "1", Running(run=1)) == "1"
    assert (str(state.stopped), str(state.running), str(state.lost)) == ("0", "1-3", "")
    # Ranks that were not lost have been set running since.
    assert notify(state, "2", stop()) == ""
    # The next events of all count as before.
    assert notify(state, "1-3", stop(run=1)) == "1-3"
    state.start_run(2, ALL)
    assert state.runners(2) == ALL
    assert notify(state, "0", stop()) == ""
    assert notify(state, "0-3", stop(run=2)) == "0-3"


def test_a_run_that_reaches_ranks_after_their_announcement_is_not_missed() -> None:
    state = started()
    state.start_run(1, ALL)
    state.lose(ranks("0-2"))
    notify(state, "0-2", stop())
    assert state.started_late(1, ranks("0-1")) == ranks("0-1")
    # One has stopped again before the late answer came, and one was set running by a later request.
    notify(state, "0", stop(run=1))
    assert state.started_late(1, ranks("0-1")) == ranks("1")
    state.start_run(2, ranks("1"))
    assert state.started_late(1, ranks("0-1")) == RankSet()


def test_why_ranks_cannot_be_asked() -> None:
    state = started()
    assert state.absent(RankSet()) == []
    state.lose(ranks("0-1"))
    state.detach(ranks("2"))
    assert state.absent(ALL) == [
        "[0-1] lost; 'reattach' attaches to them again",
        "[2] detached; 'reattach' attaches to it again",
        "[3] not there when it was asked",
    ]
    notify(state, "3", Exit(code=1))
    assert state.absent(ranks("3")) == ["[3] ended"]


def test_losing_ranks_that_run_free_is_no_loss() -> None:
    state = started()
    state.detach(ranks("0-1"))
    assert str(state.lose(ALL)) == "2-3"
    assert str(state.detached) == "0-1"


@pytest.mark.parametrize("event", [stop(0), Running(run=0)])
def test_a_late_event_of_a_rank_that_runs_free_does_not_catch_it_again(event: Event) -> None:
    # Replies go up at once, events wait for the window at every level.
    state = started()
    state.detach(ranks("1"))
    assert notify(state, "1", event) == ""
    assert str(state.detached) == "1"


def test_ranks_of_other_jobs_are_ignored() -> None:
    state = started()
    assert notify(state, "2-9", stop(0, detail="other")) == "2-3"
    assert_disjoint(state)


def test_where_ranks_stand_is_news_once() -> None:
    state = started()
    state.start_run(5, ranks("0-2"))
    assert notify(state, "0-1", stop(5)) == "0-1"
    assert notify(state, "0-2", stop(5), are_announced=True) == "2"
    assert notify(state, "0-2", stop(5, detail="other")) == "0-2"
    assert state.lose(ranks("0-1")) == ranks("0-1")
    announced = stop(5, detail="other")
    assert notify(state, "0-2", announced, are_announced=True) == "0-1"
    assert str(state.stopped) == "0-3"
    state.start_run(6, ranks("0"))
    assert notify(state, "0", Running(run=6)) == ""


def test_other_events_are_passed_on() -> None:
    state = started()
    assert notify(state, "1", Output(text="hello")) == "1"
    assert notify(state, "1", Progress(stage="gdb")) == "1"
    assert str(state.stopped) == "0-3"


def test_the_latest_are_the_last_stops_and_ends_as_classes() -> None:
    state = started()
    notify(state, "1-2", stop(0, breakpoint=4))
    notify(state, "2", Exit(code=1))
    found = state.latest(ranks("1-3"))
    assert [(str(each.ranks), each.record) for each in found] == [
        ("1", stop(0, breakpoint=4)),
        ("2", Exit(code=1)),
        ("3", stop()),
    ]
    state.start_run(9, ALL)
    assert len(state.latest(ALL)) == 4 - 1


def test_slots_stay_with_their_class() -> None:
    state = JobState(ALL)
    state.apply([EquivalenceClass(ALL, stop(), ("a", ""))])
    notify(state, "0", stop(breakpoint=1))
    assert [each.slots for each in state.latest(ALL)] == [(), ("a", "")]


def test_automatic_sets() -> None:
    state = started()
    notify(state, "0", stop(0, breakpoint=2))
    notify(state, "1", Stop(reason="signal-received", signal="SIGSEGV"))
    notify(state, "2", Exit(code=3))
    assert str(state.named("stopped")) == "0-1,3"
    assert str(state.named("exited")) == "2"
    assert str(state.named("error")) == "1-2"
    assert str(state.named("bp2")) == "0"
    assert state.named("bp9") == RankSet()
    assert state.named("running") == RankSet() == state.named("lost")
    assert state.named("nonsense") is None and state.named("bp") is None
    state.start_run(4, ranks("0"))
    assert state.named("bp2") == RankSet()
    assert str(state.named("running")) == "0"


def test_a_rank_that_went_on_is_no_error_any_longer() -> None:
    state = started()
    notify(state, "1", Stop(reason="signal-received", signal="SIGUSR1"))
    state.start_run(4, ranks("1"))
    assert state.named("error") == RankSet()


@pytest.mark.parametrize(
    ("event", "bad"),
    [
        (Exit(code=0), False),
        (Exit(code=1), True),
        (Exit(signal="SIGKILL"), True),
        (Exit(), False),
        (Stop(reason="signal-received", signal="SIGSEGV"), True),
        (Stop(reason="interrupted"), False),
        (Stop(reason="breakpoint-hit"), False),
    ],
)
def test_what_is_bad(event: Stop | Exit, bad: bool) -> None:
    assert is_bad(event) is bad


any_event = st.one_of(
    st.builds(stop, st.integers(0, 5)),
    st.builds(Running, run=st.integers(0, 5)),
    st.just(Exit(code=0)),
    st.just(Gone(why="x")),
    st.just(Output(text="x")),
)
some_ranks = st.frozensets(st.integers(0, 5), min_size=1).map(RankSet)
steps = st.lists(
    st.tuples(
        st.sampled_from(["event", "start", "cancel", "lose", "detach"]), some_ranks, any_event
    ),
    max_size=15,
)


@given(steps)
def test_every_rank_is_in_at_most_one_set(steps: Iterable[tuple[str, RankSet, Event]]) -> None:
    state = JobState(ALL)
    run = 0
    for what, some, event in steps:
        exited = state.exited
        match what:
            case "start":
                run += 1
                state.start_run(run, some & state.stopped)
            case "cancel":
                state.cancel_run(run, some)
            case "lose":
                state.lose(some)
            case "detach":
                state.detach(some)
            case _:
                news = state.apply([EquivalenceClass(some, event)])
                assert all(each.ranks <= some & ALL for each in news)
        assert_disjoint(state)
        assert exited <= state.exited
        seen = [each.ranks for each in state.latest(ALL)]
        assert sum(len(each) for each in seen) == len(RankSet.union(seen))


def test_ranks_that_die_later_say_who_was_first() -> None:
    state = JobState(RankSet.range(0, 8))
    state.start_run(1, state.ranks)

    def stop(text: str, *, are_announced: bool = False) -> list[str]:
        made = EquivalenceClass[Event](ranks(text), Stop(reason="death", run=1))
        news = state.apply([made], are_announced=are_announced)
        return [each.record.after for each in news if isinstance(each.record, Stop)]

    assert stop("2-3") == [""]
    assert stop("5") == ["2-3"] and stop("6") == ["2-3,5"]
    # Aggregators report stops again after a loss.
    assert stop("5", are_announced=True) == []
    assert state.named("error") == ranks("2-3,5-6")
    state.start_run(2, ranks("2-3"))
    assert stop("7") == ["5-6"]


def test_a_second_stop_at_one_place_in_one_run_is_news_and_an_announced_one_is_not() -> None:
    # A breakpoint inside a function that the user calls again and again.
    state = started()
    state.start_run(5, ALL)
    assert notify(state, "0-3", stop(5)) == "0-3"
    assert notify(state, "1-2", stop(5)) == "1-2"
    assert notify(state, "0-3", stop(5), are_announced=True) == ""


TERMINATED = Stop(reason="signal-received", signal="SIGTERM")
KILLED = Exit(signal="SIGKILL")


def reported(state: JobState, *events: tuple[str, Event]) -> list[str]:
    """Apply events that come together; return the ranks that each one names as the first."""
    news = state.apply([EquivalenceClass(ranks(text), event) for text, event in events])
    return [each.record.after for each in news if isinstance(each.record, Stop | Exit)]


@pytest.mark.parametrize("end", [Exit(code=3), Exit(signal="SIGKILL"), Exit(signal="SIGSEGV")])
def test_the_first_that_has_died_is_named_at_what_the_launcher_does(end: Exit) -> None:
    state = started()
    state.start_run(5, ALL)
    assert reported(state, ("2", replace(end, run=5))) == [""]
    assert reported(state, ("0-1", replace(TERMINATED, run=5))) == ["2"]
    # An end by the same signal comes in any order with the first one.
    first = "" if end.signal == "SIGKILL" else "2"
    assert reported(state, ("3", replace(KILLED, run=5))) == [first]


def test_ends_that_come_together_name_the_one_that_no_launcher_makes() -> None:
    state = started()
    state.start_run(5, ALL)
    kill, end = replace(KILLED, run=5), Exit(code=3, run=5)
    assert reported(state, ("0-1,3", kill), ("2", end)) == ["2", ""]


def test_of_ranks_that_are_killed_together_none_is_the_first() -> None:
    state = started()
    state.start_run(5, ALL)
    assert reported(state, ("0-3", replace(KILLED, run=5))) == [""]


def test_a_rank_that_ran_on_to_its_death_is_named_where_the_launcher_kills_all() -> None:
    state = started()
    state.start_run(5, ALL)
    interrupted = Stop(reason="interrupted", run=5)
    assert reported(state, ("2", Stop(reason="death", run=5)), ("0-1,3", interrupted)) == ["", ""]
    state.start_run(6, ALL)
    # MPICH kills the rank that has called MPI_Abort as it kills the others.
    news = state.apply([EquivalenceClass[Event](ALL, replace(KILLED, run=6))])
    ends = [(str(each.ranks), each.record.after) for each in news if isinstance(each.record, Exit)]
    assert ends == [("2", ""), ("0-1,3", "2")]


@pytest.mark.parametrize("reason", ["interrupted", "breakpoint-hit"])
def test_a_rank_that_has_survived_is_not_named_as_the_first(reason: StopReason) -> None:
    state = started()
    state.start_run(5, ALL)
    reported(state, ("2", Stop(reason="death", run=5)))
    state.start_run(6, ranks("2"))
    reported(state, ("2", Stop(reason=reason, run=6)))
    state.start_run(7, ranks("2"))
    first = "2" if reason == "interrupted" else ""
    assert reported(state, ("0-1,3", replace(KILLED, run=5))) == [first]


def test_a_death_before_is_no_reason_for_the_end_of_a_rank_that_the_user_kills() -> None:
    state = started()
    state.start_run(5, ALL)
    kill = replace(KILLED, run=5)
    assert reported(state, ("2", Exit(code=3, run=5))) == [""]
    state.killed |= ranks("0")
    # The launcher ends rank 1 at the same moment.
    news = state.apply([EquivalenceClass[Event](ranks("0-1"), kill)])
    ends = [(str(each.ranks), each.record.after) for each in news if isinstance(each.record, Exit)]
    assert ends == [("0", ""), ("1", "2")]
    state.killed |= ranks("3")
    state.start_run(6, ranks("3"))
    assert reported(state, ("3", replace(KILLED, run=6))) == ["2"]


def test_a_good_end_is_no_death() -> None:
    state = started()
    state.start_run(5, ALL)
    assert reported(state, ("2", Exit(code=0, run=5))) == [""]
    assert reported(state, ("0", replace(TERMINATED, run=5))) == [""]
