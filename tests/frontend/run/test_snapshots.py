"""Reports every so often do not outrun the looks at the ranks."""

from __future__ import annotations

import asyncio

from pgdb.frontend.run.snapshots import Snapshots


def test_no_report_is_asked_for_before_the_last_one_is_written() -> None:
    async def run() -> None:
        asked: list[str] = []
        snapshots = Snapshots(0.0, asked.append)
        task = asyncio.create_task(snapshots.run())
        for count in (1, 2, 3):
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(asked) == count
            snapshots.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
