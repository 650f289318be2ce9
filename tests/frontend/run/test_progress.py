"""Progress of ranks between samples."""

from __future__ import annotations

from pgdb.frontend.run.progress import Sample, computing, may_compute, moving
from pgdb.rank_sample import RankSample, SampledThread
from pgdb.ranks import RankSet


def sample(*ranks: RankSample | None) -> Sample:
    found = {rank: each for rank, each in enumerate(ranks) if each is not None}
    return Sample(found, RankSet(range(len(ranks))))


def one(
    stacks: str = "main:a.c:3:00",
    own: str = "",
    cpu: str = "",
    *,
    children_s: float = 0.0,
    time_s: float = 100.0,
) -> RankSample:
    """Return the sample of a rank; *own* and *cpu* have a value for each thread: ``1:0a 2:0b``."""
    words = dict(each.split(":") for each in own.split())
    used = dict(each.split(":") for each in cpu.split())
    threads = tuple(
        SampledThread(each, words.get(each, ""), float(used.get(each, 0)))
        for each in sorted({*words, *used})
    )
    return RankSample(stacks, threads, children_s, time_s)


def test_a_rank_that_has_another_place_or_no_sample_moves() -> None:
    before = sample(one(), one("main:a.c:4:00"), None, one())
    after = sample(one(), one("main:a.c:5:00"), one(), None)
    assert moving(before, after) == RankSet([1, 2, 3])


def test_a_process_that_a_rank_has_started_moves_it() -> None:
    before = sample(one(children_s=2.99), one(children_s=2.99))
    after = sample(one(children_s=3.0, time_s=102.0), one(children_s=3.5, time_s=102.0))
    assert moving(before, after) == RankSet([1])


def test_a_thread_computes_if_it_waits_in_no_sample_and_changes() -> None:
    samples = [
        sample(one(own="1:a"), one(own="1:a"), one(own="1:a"), one(own="2:a")),
        sample(one(own="1:b"), one(own="1:a"), one(own=""), one(own="1:b 2:a")),
        sample(one(own="1:b"), one(own="1:a"), one(own="1:c"), one(own="2:c")),
    ]
    # Rank 0 changes, rank 1 spins, rank 2 waits at times, and rank 3 computes in another thread.
    assert may_compute(samples)
    assert computing(samples) == {0: {"1"}, 3: {"2"}}
    assert not moving(samples[0], samples[2])


def test_threads_that_compute_in_turn_make_progress() -> None:
    turns = [
        sample(one(own="1:a")),
        sample(one(own="2:a")),
        sample(one(own="1:b")),
        sample(one(own="2:b")),
        sample(one(own="3:a")),
    ]
    assert computing(turns) == {0: {"1", "2"}}
    assert computing([*turns, sample(one(own=""))]) == {}
    # A thread that changes nothing is no work while another one waits.
    assert computing([*turns[:1], sample(one(own="4:a")), turns[2], sample(one(own="4:a"))]) == {}


def at(time_s: float, own: str, cpu: str) -> Sample:
    return sample(one(own=own, cpu=cpu, time_s=time_s))


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
