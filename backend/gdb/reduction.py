"""The numbers of one rank: a single one, or an array."""

from __future__ import annotations

import re

from msgspec.structs import replace

from pgdb.backend.gdb import queries
from pgdb.backend.gdb.blocks import read_block
from pgdb.backend.gdb.fortran_elements import closes_at_end
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.messages import ReadBlock
from pgdb.patterns import pattern
from pgdb.records import Block, Failure, Record, Value, parse_number

# Enough to distinguish a number from an array.
_FEW_ELEMENTS = 4
_PART = pattern(r"\s*(?:std::)?(?P<part>[cf]?abs|c?real|c?imag)\s*\((?P<of>.*)\)\s*\Z", re.S)


async def read_numbers(gdb: GdbSession, expression: str, limit_bytes: int, pid: int) -> Record:
    """Return the value of *expression* if it is one number, else its array.

    ``abs(z)``, ``real(z)`` and ``imag(z)`` are those of complex numbers, an array of them included;
    ``abs(a)`` is that of an array of other numbers, too, of which C would pass the address.

    :raises NeedsStopError: if the rank runs.
    """
    part = _PART.match(expression)
    if part is not None and closes_at_end(part["of"]):
        inner = ReadBlock(expression=part["of"].strip(), limit_bytes=limit_bytes)
        block = await read_block(gdb, inner, pid, is_summed_up=True)
        name = part["part"].removeprefix("f").removeprefix("c")
        if isinstance(block, Block):
            is_real_array = name == "abs" and block.shape and block.dtype[1] in "iuf"
            if block.dtype[1] == "c" or is_real_array:
                return _part_of(block, name)
    few = f"print elements {_FEW_ELEMENTS}"
    record = await queries.evaluate_quietly(gdb, expression, settings=(few,))
    if isinstance(record, Failure) and "max-value-size" not in record.message:
        return record
    operation = ReadBlock(expression=expression, limit_bytes=limit_bytes)
    if isinstance(record, Value) and parse_number(record.text) is not None:
        if record.text.startswith("0x"):
            # GDB shows an array without elements as its address.
            block = await read_block(gdb, operation, pid, is_summed_up=True)
            if isinstance(block, Block) and 0 in block.shape:
                return block
        return record
    return await read_block(gdb, operation, pid, is_summed_up=True)


def _part_of(block: Block, part: str) -> Block:
    import numpy  # complex numbers are rare

    values = numpy.frombuffer(block.data, block.dtype)
    found = numpy.abs(values) if part == "abs" else values.real if part == "real" else values.imag
    found = numpy.ascontiguousarray(found)
    return replace(block, dtype=found.dtype.str, data=found.tobytes())
