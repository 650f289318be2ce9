"""Progress of ranks between samples."""

from __future__ import annotations

from pgdb.frontend.run.progress import (
    RankSample,
    Sample,
    computing,
    may_compute,
    moving,
    sample_of,
)
from pgdb.ranks import RankSet


def sample(*texts: str) -> Sample:
    """Return the sample of ranks, by what GDB prints."""
    return sample_of(dict(enumerate(texts)), RankSet(range(len(texts))))


def text(
    word: str = "main:a.c:3:00", own: str = "", children: str = "0.00 100.00", cpu: str = ""
) -> str:
    return f"progress {word}\nown {own}\ncpu {cpu}\nchildren {children}\n"


def test_a_sample_is_read_from_the_words_of_gdb() -> None:
    read = sample("[New LWP 7]\n" + text("main:a.c:3:1f", "1:0a 3:0b", "1.50 20.25", "1:2.5")).of[0]
    assert read == RankSample("main:a.c:3:1f", {"1": "0a", "3": "0b"}, {"1": 2.5}, 1.5, 20.25)


def test_a_rank_that_has_another_place_or_no_sample_moves() -> None:
    before = sample(text(), text("main:a.c:4:00"), "", text())
    after = sample(text(), text("main:a.c:5:00"), text(), "no such process\n")
    assert moving(before, after) == RankSet([1, 2, 3])


def test_a_process_that_a_rank_has_started_moves_it() -> None:
    idle, busy = "3.00 102.00", "3.50 102.00"
    before = sample(text(children="2.99 100.00"), text(children="2.99 100.00"))
    assert moving(before, sample(text(children=idle), text(children=busy))) == RankSet([1])


def test_a_thread_computes_if_it_waits_in_no_sample_and_changes() -> None:
    samples = [
        sample(text(own="1:a"), text(own="1:a"), text(own="1:a"), text(own="2:a")),
        sample(text(own="1:b"), text(own="1:a"), text(own=""), text(own="1:b 2:a")),
        sample(text(own="1:b"), text(own="1:a"), text(own="1:c"), text(own="2:c")),
    ]
    # Rank 0 changes, rank 1 spins, rank 2 waits at times, and rank 3 computes in another thread.
    assert may_compute(samples)
    assert computing(samples) == {0: {"1"}, 3: {"2"}}
    assert not moving(samples[0], samples[2])


def test_threads_that_compute_in_turn_make_progress() -> None:
    turns = [
        sample(text(own="1:a")),
        sample(text(own="2:a")),
        sample(text(own="1:b")),
        sample(text(own="2:b")),
        sample(text(own="3:a")),
    ]
    assert computing(turns) == {0: {"1", "2"}}
    assert computing([*turns, sample(text(own=""))]) == {}
    # A thread that changes nothing is no work while another one waits.
    assert computing([*turns[:1], sample(text(own="4:a")), turns[2], sample(text(own="4:a"))]) == {}


def at(time_s: float, own: str, cpu: str) -> Sample:
    return sample(text(own=own, cpu=cpu, children=f"0.00 {time_s}"))


def test_threads_that_hand_over_a_lock_have_used_cpu_time() -> None:
    before = [at(1, "1:a", "1:1.0 2:1.0"), at(2, "2:a", "1:1.5 2:1.4"), at(3, "1:b", "1:2.0 2:1.9")]
    assert may_compute([*before, at(4, "", "1:2.5 2:2.4")])
    assert computing([*before, at(4, "", "1:2.5 2:2.4")]) == {0: {"1"}}
    # Neither has: both wait for something else.
    assert not may_compute([*before, at(4, "", "1:2.001 2:1.901")])
    assert computing([*before, at(4, "", "1:2.001 2:1.901")]) == {}
    # They are inside MPI.
    assert not may_compute([*before, at(4, "", "")])
    # A loop that sleeps is seen at work now and then.
    sleeping = [at(each, "", f"1:{each / 20}") for each in range(4, 10)]
    assert not may_compute([*before, *sleeping]) and computing([*before, *sleeping]) == {}
