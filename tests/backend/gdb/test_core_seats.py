"""The GDBs of core files take turns where there are more cores than room."""

from __future__ import annotations

import asyncio
import os
import resource

from pgdb.backend.gdb.core_seats import (
    LEAST_GDBS,
    MOST_GDBS,
    Seats,
    free_memory_bytes,
    most_by_limits,
    own_limits,
    private_bytes_of,
    seats_for,
)


class Core:
    """A debugger that only counts its GDBs."""

    def __init__(self) -> None:
        self.ended = 0
        self.ending = asyncio.Event()
        self.ending.set()

    async def give_up(self) -> None:
        """End the GDB."""
        self.ended += 1
        await self.ending.wait()


def test_the_one_that_was_idle_longest_makes_room() -> None:
    async def run() -> list[int]:
        seats, cores = Seats(2), [Core() for _ in range(3)]
        for each in (0, 1, 0, 2):
            await seats.take(cores[each])
            seats.release(cores[each])
        assert seats.count == 2
        return [each.ended for each in cores]

    assert asyncio.run(run()) == [0, 1, 0]


def test_a_busy_one_is_waited_for() -> None:
    async def run() -> None:
        seats, first, second = Seats(1), Core(), Core()
        await seats.take(first)
        waiting = asyncio.create_task(seats.take(second))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert not first.ended
        seats.release(first)
        await waiting
        assert first.ended == 1

    asyncio.run(run())


def test_all_get_their_turn_however_many_there_are() -> None:
    async def run() -> None:
        seats, cores = Seats(3), [Core() for _ in range(50)]
        done: list[int] = []

        async def work(number: int) -> None:
            for _ in range(3):
                await seats.take(cores[number])
                assert seats.count <= 3
                await asyncio.sleep(0)
                seats.release(cores[number])
            done.append(number)

        await asyncio.gather(*(work(number) for number in range(50)))
        assert sorted(done) == list(range(50))

    asyncio.run(run())


def test_the_end_of_one_gives_its_seat_to_the_next() -> None:
    async def run() -> None:
        seats, first, second = Seats(1), Core(), Core()
        await seats.take(first)
        waiting = asyncio.create_task(seats.take(second))
        await asyncio.sleep(0)
        seats.leave(first)
        await waiting
        assert (first.ended, seats.count) == (0, 1)

    asyncio.run(run())


def test_those_with_a_gdb_answer_before_another_gets_their_seat() -> None:
    async def run() -> list[int]:
        seats, cores = Seats(3), [Core() for _ in range(10)]

        async def work(number: int) -> None:
            await seats.take(cores[number])
            await asyncio.sleep(0)
            seats.release(cores[number])

        for _ in range(2):
            await asyncio.gather(*(work(number) for number in range(10)))
        return [each.ended for each in cores]

    # Of ten GDBs seven end in the first round, and seven in the second one: those of the last three
    # have answered again before.
    assert asyncio.run(run()) == [2, 2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_a_cancelled_wait_gives_the_seat_to_the_next() -> None:
    async def run() -> None:
        seats, first, second, third = Seats(1), Core(), Core(), Core()
        await seats.take(first)
        waiting = [asyncio.create_task(seats.take(each)) for each in (second, third)]
        await asyncio.sleep(0)
        seats.release(first)
        waiting[0].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert waiting[0].cancelled()
        assert (seats.count, third.ended) == (1, 0)

    asyncio.run(run())


def test_a_wait_cancelled_while_another_gdb_ends_gives_the_seat_to_the_next() -> None:
    async def run() -> None:
        seats, first, second, third = Seats(1), Core(), Core(), Core()
        await seats.take(first)
        seats.release(first)
        first.ending.clear()
        waiting = asyncio.create_task(seats.take(second))
        while not first.ended:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()
        async with asyncio.timeout(10.0):
            await seats.take(third)
        assert (seats.count, second.ended) == (1, 0)

    asyncio.run(run())


def test_limits_of_the_user_bound_the_number() -> None:
    async def run() -> tuple[int, int]:
        free, given = Seats(limit=9), Seats(1000, limit=9)
        await free.fit(os.getpid())
        return free.most, given.most

    assert asyncio.run(run()) == (9, 9)
    assert most_by_limits(1024, 100_000) == 320
    assert most_by_limits(1 << 20, 100) == 50
    assert most_by_limits(20, 100_000) == LEAST_GDBS
    files, processes = own_limits()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] in (files, resource.RLIM_INFINITY)
    assert processes > 0


def test_memory_decides_where_nobody_has_said_how_many() -> None:
    gib = 1 << 30
    assert seats_for(32 << 20, 8 * gib) == 64
    assert seats_for(gib, gib) == LEAST_GDBS
    assert seats_for(1 << 20, 1 << 50) == MOST_GDBS
    # Several aggregators of a host divide it, and what their user may have.
    for sharers in (2, 4, 16):
        assert sharers * seats_for(32 << 20, 8 * gib, sharers) == 64
        assert sharers * seats_for(1 << 20, 1 << 50, sharers) == MOST_GDBS
        assert most_by_limits(1 << 20, 3200, sharers) == 1600 // sharers
    assert seats_for(gib, gib, 2) == LEAST_GDBS // 2
    assert seats_for(gib, gib, 100) == 1

    async def run() -> tuple[int, int, int]:
        free, given = Seats(), Seats(5)
        before = free.most
        await free.fit(os.getpid())
        await given.fit(os.getpid())
        return before, free.most, given.most

    before, fitted, given = asyncio.run(run())
    assert (before, given) == (LEAST_GDBS, 5)
    assert LEAST_GDBS <= fitted <= MOST_GDBS
    assert private_bytes_of(os.getpid()) > 1 << 20
    assert private_bytes_of(0) == 0
    assert free_memory_bytes() > 0
