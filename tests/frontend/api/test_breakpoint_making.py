"""Lines that make breakpoints: words that GDB would take for a part of the place."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.errors import UsageError
from pgdb.overlay.messages import InsertBreakpoint
from tests.fakes.recorded import Job, User, begin


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("break f if", "break"),
        ("break f if --stop all", "break"),
        ("b if ", "break"),
        ("tbreak a.c:3 if", "tbreak"),
        ("watch n if", "watch"),
        ("catch throw if", "catch"),
    ],
)
def test_a_condition_is_needed_behind_if(line: str, word: str) -> None:
    async def test() -> None:
        session = begin(job := Job())
        user = User(session)
        assert f"{word}: 'if' needs a condition" in await user.type(line)
        with pytest.raises(UsageError, match=f"^{word}: 'if' needs a condition$"):
            await session.execute(line.removesuffix(" --stop all"))
        assert not [each for each in job.asked if isinstance(each, InsertBreakpoint)]
        await session.close()

    asyncio.run(test())


@pytest.mark.parametrize("line", ["break f if x", "break elif", "rbreak if", "break -function if_"])
def test_other_lines_are_gdbs(line: str) -> None:
    async def test() -> None:
        session = begin(job := Job())
        await session.execute(line)
        assert [each.command for each in job.asked if isinstance(each, InsertBreakpoint)] == [line]
        await session.close()

    asyncio.run(test())


def test_a_catch_without_an_event_names_those_of_pgdb() -> None:
    async def test() -> None:
        session = begin(Job())
        user = User(session)
        assert "'catch death' and 'catch py-exception' are of PGDB's own" in await user.type(
            "catch"
        )
        assert "py-exception" not in await user.type("catch throw")
        await session.close()

    asyncio.run(test())
