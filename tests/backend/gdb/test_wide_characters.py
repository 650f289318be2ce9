"""Arrays of wide characters of C++, under a real GDB, which takes them for strings of Fortran."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import numpy
import pytest

from pgdb.backend.gdb import blocks, full_values
from pgdb.backend.gdb.mi import console
from pgdb.overlay.messages import Evaluate, ReadBlock
from pgdb.records import Block, Value
from tests.support.compiled import compiled
from tests.support.gdb_breakpoints import run_to, started

pytestmark = [pytest.mark.gdb]

SOURCE = """
struct Line { char32_t text[4]; char16_t (*next)[3]; };
char32_t wide[5] = U"abcd";
char16_t narrow[3] = u"xy";
char32_t *start = wide;
Line line = {U"pqr", &narrow};
int look() { return wide[0] + narrow[0] + line.text[0]; }
int main() { return look() > 0 && start ? 0 : 1; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("wide"), "wide.cpp", SOURCE)


def test_the_address_of_wide_characters_is_an_address(program: Path) -> None:
    texts = {
        "&wide": r"\(char32_t \(\*\)\[5\]\) 0x[0-9a-f]+ <wide>",
        "line.next": r"\(char16_t \(\*\)\[3\]\) 0x[0-9a-f]+ <narrow>",
        "wide": r'U"abcd"',
        "*line.next": r'u"xy"',
        "start": r'0x[0-9a-f]+ <wide> U"abcd"',
        "line": r'\{text = U"pqr", next = 0x[0-9a-f]+ <narrow>\}',
    }

    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "look")
            for expression, text in texts.items():
                record = await full_values.evaluate(gdb, Evaluate(expression=expression), 0)
                assert isinstance(record, Value), record
                assert re.fullmatch(text, record.text), (expression, record.text)
            await gdb.send(console("kill"))

    asyncio.run(check())


def test_wide_characters_are_read_as_numbers(program: Path) -> None:
    numbers = {"wide": (5, 97), "narrow": (3, 120), "line.text": (4, 112), "*line.next": (3, 120)}

    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "look")
            listed = await gdb.send(console("info inferiors"))
            process = re.search(r"process (\d+)", listed.text)
            assert process is not None, listed.text
            for expression, (count, first) in numbers.items():
                asked = ReadBlock(expression=expression, limit_bytes=1000)
                block = await blocks.read_block(gdb, asked, int(process[1]))
                assert isinstance(block, Block), (expression, block)
                found = numpy.frombuffer(block.data, block.dtype)
                assert (len(found), found[0]) == (count, first), expression
            await gdb.send(console("kill"))

    asyncio.run(check())
