"""Ranks that step in kernels of one GPU do so one after the other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable

import pytest

from pgdb.backend.gdb import gpu_turns
from pgdb.backend.gdb.gpu_turns import GpuTurns, Turn, visible_device

PID = os.getpid()


async def is_ready(turn: Awaitable[Turn]) -> tuple[bool, asyncio.Future[Turn]]:
    """Return whether a rank gets its turn before anything else happens, and its turn to come."""
    task = asyncio.ensure_future(turn)
    for _ in range(5):
        await asyncio.sleep(0)
    return task.done(), task


def test_the_next_rank_steps_when_the_one_before_has_stopped() -> None:
    async def run() -> None:
        turns = GpuTurns()
        first = await turns.take("0", PID, "step")
        ready, second = await is_ready(turns.take("0", PID, "next"))
        assert not ready
        other, on_another_device = await is_ready(turns.take("1", PID, "step"))
        on_the_host, none = await is_ready(turns.take("", PID, "step"))
        assert other and on_the_host
        first.end()
        first.end()
        held = await second
        ready, third = await is_ready(turns.take("0", PID, "step"))
        assert not ready, "a turn that ends twice gives one turn away"
        held.end()
        for each in (await third, await on_another_device, await none):
            each.end()

    asyncio.run(run())


def test_a_stop_waits_for_those_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        turns = GpuTurns()
        first = await turns.take("0", PID, "step")
        _, second = await is_ready(turns.take("0", PID, "step"))
        first.end()
        held = await second
        assert first.has_others
        waits = asyncio.ensure_future(first.wait_for_others())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waits.done()
        held.end()
        await waits
        assert not first.has_others and not held.has_others
        nobody = await turns.take("", PID, "step")
        assert not nobody.has_others
        await nobody.wait_for_others()
        # A stop is not held back for long.
        last = await turns.take("0", PID, "step")
        _, waiting = await is_ready(turns.take("0", PID, "step"))
        last.end()
        slow = await waiting
        monkeypatch.setattr(gpu_turns, "MOST_S", 0.0)
        await last.wait_for_others()
        assert last.has_others
        slow.end()

    asyncio.run(run())


def test_a_rank_that_gives_up_waiting_keeps_nobody() -> None:
    async def run() -> None:
        turns = GpuTurns()
        first = await turns.take("0", PID, "step")
        _, second = await is_ready(turns.take("0", PID, "step"))
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        first.end()
        assert not first.has_others
        ready, third = await is_ready(turns.take("0", PID, "step"))
        assert ready
        (await third).end()

    asyncio.run(run())


def test_a_step_that_does_not_end_gives_its_turn_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_turns, "MOST_S", 0.0)
    monkeypatch.setattr(gpu_turns, "CONTINUE_S", 0.0)

    async def run() -> None:
        turns = GpuTurns()
        for word in ("step", "continue"):
            await turns.take("0", PID, word)
            (await turns.take("0", PID, word)).end()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("visible", "device", "found"),
    [
        ("2,3", "1", "3"),
        ("GPU-8932f937,MIG-1", "0", "GPU-8932f937"),
        ("", "1", "1"),
        ("2", "1", "1"),
        ("2, 5", "1", "5"),
        ("2", "no number", "no number"),
    ],
)
def test_devices_are_those_of_the_host(visible: str, device: str, found: str) -> None:
    assert visible_device(device, {"CUDA_VISIBLE_DEVICES": visible}) == found


def test_a_process_that_has_ended_has_its_number() -> None:
    async def run() -> None:
        turns = GpuTurns()
        turn = await turns.take("4", 1 << 30, "step")
        same, second = await is_ready(turns.take("4", 1 << 30, "step"))
        another, third = await is_ready(turns.take("5", 1 << 30, "step"))
        assert another and not same
        turn.end()
        for each in (await second, await third):
            each.end()

    asyncio.run(run())
