"""Arrays of many ranks: requests and assembly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.errors import CommandError, NoAnswerError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays, Form, pieces, read_arrays
from pgdb.frontend.analysis.limits import check_size
from pgdb.merge.classes import Merger, Missing
from pgdb.overlay.messages import AnyOperation, ReadBlock
from pgdb.ranks import RankSet
from pgdb.records import Block, Failure, Record

Array = numpy.ndarray[Any, Any]


class Job:
    """Ranks with an array each, which answer as aggregators do."""

    def __init__(self, by_rank: dict[int, Array | str | None]) -> None:
        self.by_rank = by_rank
        self.asked: list[tuple[RankSet, ReadBlock]] = []
        self.before_answer: Callable[[], None] = lambda: None

    async def ask(self, command: str, operation: AnyOperation, ranks: RankSet) -> Answer:
        assert isinstance(operation, ReadBlock)
        self.asked.append((ranks, operation))
        self.before_answer()
        merger: Merger[Record] = Merger()
        running = []
        for rank in ranks:
            values = self.by_rank[rank]
            if values is None:
                running.append(rank)
            elif isinstance(values, str):
                merger.add(RankSet([rank]), Failure(message=values))
            else:
                order = "F" if values.ndim > 1 and values.flags.f_contiguous else "C"
                flat = values.ravel(order=order)
                start = min(operation.start, flat.size)
                end = start + operation.count if operation.count else flat.size
                block = Block(
                    dtype=values.dtype.str,
                    shape=values.shape,
                    data=flat[start:end].tobytes(),
                    start=start,
                    order="F" if order == "F" else "C",
                )
                merger.add(RankSet([rank]), block)
        return Answer(
            command=command,
            ranks=ranks,
            classes=merger.classes,
            missing=Missing(running=RankSet(running)),
        )

    def read(self, limit_bytes: int = 1 << 30) -> Arrays:
        return asyncio.run(
            read_arrays(self.ask, "u", RankSet(self.by_rank), limit_bytes=limit_bytes)
        )


def test_arrays_come_as_they_are() -> None:
    values: dict[int, Array | str | None] = {
        0: numpy.arange(12.0).reshape(3, 4),
        1: numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)),
        2: numpy.array(3, dtype=numpy.int16),
        3: numpy.zeros((0, 4)),
        4: numpy.array([True, False]),
        5: numpy.array([1.5], dtype=numpy.longdouble),
    }
    job = Job(values)
    found = job.read()
    assert found.ok
    assert len(job.asked) == 2
    for rank, expected in values.items():
        own = found.by_rank[rank]
        assert isinstance(expected, numpy.ndarray)
        assert own.dtype == expected.dtype
        numpy.testing.assert_array_equal(own, expected)
        assert not own.flags.writeable
    assert found.given == RankSet(range(6))
    with pytest.raises(CommandError, match=r"float64\[3\]\[4\] on \[0-1\], int16 on \[2\]"):
        found.stack()


def test_equal_arrays_are_one() -> None:
    found = Job({rank: numpy.zeros(1000) for rank in range(10)}).read()
    assert len({id(each) for each in found.by_rank.values()}) == 1
    assert found.stack().shape == (10, 1000)


def test_ranks_that_fail_spoil_nothing() -> None:
    job = Job({0: numpy.ones(3), 1: 'No symbol "u" in current context.', 2: None})
    found = job.read()
    assert list(found.by_rank) == [0]
    assert not found.ok
    assert found.missing.running == RankSet([2])
    with pytest.raises(CommandError, match=r"'print u' failed on \[1\]: No symbol"):
        found.check()
    job.by_rank[1] = numpy.ones(3)
    with pytest.raises(NoAnswerError):
        job.read().check()


def test_ranks_that_fail_during_the_reading_are_left_out() -> None:
    job = Job({0: numpy.ones(3), 1: numpy.ones(3), 2: numpy.ones(3)})

    def change() -> None:
        if len(job.asked) == 2:
            job.by_rank.update({1: None, 2: numpy.ones(4)})

    job.before_answer = change
    found = job.read()
    assert list(found.by_rank) == [0]
    assert found.missing.running == RankSet([1])
    assert [str(each.ranks) for each in found.errors] == ["2"]
    assert "has changed while it was read" in str(found.errors[0].record)


def test_too_much_is_not_read() -> None:
    job = Job({rank: numpy.zeros(1000) for rank in range(4)})
    with pytest.raises(CommandError) as caught:
        job.read(limit_bytes=31999)
    assert str(caught.value) == (
        "u on 4 ranks is 31.2 KiB, more than array-limit, 31.2 KiB; raise it with "
        "'set array-limit 32000', name fewer ranks, or read a part, ELEMENT@COUNT"
    )
    assert len(job.asked) == 1
    assert job.read(limit_bytes=32000).ok


def test_a_limit_beyond_memory_is_none() -> None:
    count = 1 << 50
    with pytest.raises(CommandError, match=r"is 8192.0 TiB, more than the memory of this host, "):
        check_size("u", 8 * count, 16 * count, less="name fewer ranks")


def test_large_arrays_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdb.frontend.analysis.arrays.PIECE_BYTES", 1000)
    values = {rank: numpy.arange(300.0) + rank for rank in range(3)}
    job = Job({**values, 3: numpy.arange(5.0), 4: numpy.arange(6.0)})
    found = job.read()
    for rank, expected in values.items():
        numpy.testing.assert_array_equal(found.by_rank[rank], expected)
    parts = [(str(ranks), ask.start, ask.count) for ranks, ask in job.asked[1:]]
    assert parts[:4] == [("0", 0, 125), ("0", 125, 125), ("0", 250, 50), ("1", 0, 125)]
    assert parts[-1] == ("3-4", 0, 0)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), max_size=5), st.integers(8, 200))
def test_pieces_cover_all_and_are_small(forms: list[tuple[int, int]], most_bytes: int) -> None:
    made, first = [], 0
    for members, count in forms:
        block = Block(dtype="<f8", shape=(count,), data=b"")
        made.append(Form(ranks=RankSet.range(first, first + members), block=block))
        first += members
    sizes = {rank: form.count for form in made for rank in form.ranks}
    read = dict.fromkeys(sizes, 0)
    for piece in pieces(made, most_bytes):
        of_ranks = [piece.count or sizes[rank] for rank in piece.ranks]
        assert sum(of_ranks) * 8 <= most_bytes
        for rank, count in zip(piece.ranks, of_ranks, strict=True):
            assert read[rank] == piece.start
            read[rank] += count
    assert read == sizes
