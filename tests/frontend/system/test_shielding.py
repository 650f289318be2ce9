"""Work that finishes despite cancellation."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.frontend.system.shielding import to_its_end


def test_what_it_returns_is_returned() -> None:
    async def seven() -> int:
        return 7

    assert asyncio.run(to_its_end(seven())) == 7


def test_what_it_raises_is_raised() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(to_its_end(fail()))


@pytest.mark.parametrize("fails", [False, True])
def test_it_goes_on_however_often_it_is_cancelled_and_raises_that_at_the_end(fails: bool) -> None:
    async def run() -> bool:
        go, is_done = asyncio.Event(), False

        async def work() -> None:
            nonlocal is_done
            await go.wait()
            is_done = True
            if fails:
                raise ZeroDivisionError

        task = asyncio.create_task(to_its_end(work()))
        await asyncio.sleep(0)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return is_done

    assert asyncio.run(run())
