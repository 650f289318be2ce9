#!/usr/bin/env python3
"""A rank whose asyncio tasks wait for each other; its first argument is its rank."""

import asyncio
import os
import sys

RANK = int(sys.argv[1]) if len(sys.argv) > 1 else 0
SILENT, _ = os.pipe()


class Source:
    """Something with asynchronous iteration."""

    async def rows(self, event):
        yield 1
        await event.wait()
        yield 2

    async def take(self, event):
        async for row in self.rows(event):
            if row > 2:
                break


async def fetch(event, depth):
    if depth:
        await fetch(event, depth - 1)
    else:
        await event.wait()


async def gathers(event):
    await asyncio.gather(fetch(event, 2), fetch(event, 1))


async def holds(lock):
    async with lock:
        await asyncio.sleep(3600)


async def joins(task):
    await task


async def reports():
    await asyncio.sleep(0.01)
    # All other tasks wait. One line, in which the thread is from the first word on.
    os.write(1, b"ready\n") and os.read(SILENT, 1)


async def main():
    event, lock = asyncio.Event(), asyncio.Lock()
    source = Source()
    first = asyncio.ensure_future(holds(lock))
    others = [joins(first), source.take(event), gathers(event), holds(lock)]
    if RANK == 2:
        others.append(source.take(event))
    tasks = [asyncio.ensure_future(each) for each in others]
    if hasattr(first, "set_name"):
        first.set_name("holder")
    await asyncio.ensure_future(reports())
    await asyncio.wait(tasks)


asyncio.run(main())
