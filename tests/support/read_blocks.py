"""Blocks that a real GDB reads from a program that stands in look."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest

from pgdb.backend.gdb import blocks
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.process import start_with
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.messages import ReadBlock
from pgdb.records import Block, Failure
from tests.fakes.gdb_events import GdbEvents

DEADLINE_S = 60.0
LIMIT_BYTES = 1 << 30


def read_all(
    programs: dict[str, Path],
    suffix: str,
    asked: list[ReadBlock | str],
    *,
    is_summed_up: bool = False,
) -> list[Block | Failure]:
    """Stop the program in look() and read; a text is run as a GDB command before the next."""
    if suffix not in programs or shutil.which("gdb") is None:
        pytest.skip(f"this machine has no GDB or no compiler of {suffix} programs")

    async def work() -> list[Block | Failure]:
        events = GdbEvents()
        gdb = GdbSession(events)
        await gdb.start(start_with("gdb", os.environ))
        try:
            for command in ("set breakpoint pending on", "break look", "set width 0"):
                await gdb.send(console(command))
            await gdb.send(f"-file-exec-and-symbols {programs[suffix]}")
            await gdb.send(console("break look"))
            await gdb.send("-exec-run")
            await events.stops.get()
            shown = await gdb.send(console("info inferiors"))
            match = re.search(r"process (\d+)", shown.text)
            assert match is not None, shown.text
            answers = []
            for each in asked:
                if isinstance(each, str):
                    await gdb.send(console(each))
                else:
                    pid = int(match[1])
                    found = await blocks.read_block(gdb, each, pid, is_summed_up=is_summed_up)
                    answers.append(found)
            await gdb.send(console("kill"))
            return answers
        finally:
            await gdb.close(10.0)

    async def bounded() -> list[Block | Failure]:
        async with asyncio.timeout(DEADLINE_S):
            return await work()

    return asyncio.run(bounded())


def ask(expression: str, start: int = 0, count: int = 0, limit: int = LIMIT_BYTES) -> ReadBlock:
    return ReadBlock(expression=expression, start=start, count=count, limit_bytes=limit)


def array(block: Block | Failure) -> numpy.ndarray[Any, Any]:
    assert isinstance(block, Block), block
    return numpy.frombuffer(block.data, block.dtype).reshape(block.shape, order=block.order)


def refusal(block: Block | Failure) -> str:
    assert isinstance(block, Failure), block
    return block.message
