"""The numbers of one rank: a single one, or an array."""

from __future__ import annotations

from pgdb.backend.gdb import queries
from pgdb.backend.gdb.blocks import read_block
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.messages import ReadBlock
from pgdb.records import Failure, Record, Value, parse_number

# Enough to distinguish a number from an array.
_FEW_ELEMENTS = 4


async def read_numbers(gdb: GdbSession, expression: str, limit_bytes: int, pid: int) -> Record:
    """Return the value of *expression* if it is one number, else its array.

    :raises NeedsStopError: if the rank runs.
    """
    record = await queries.evaluate(gdb, f"-elements {_FEW_ELEMENTS} -- {expression}", "")
    if isinstance(record, Failure) and "max-value-size" not in record.message:
        return record
    if isinstance(record, Value) and parse_number(record.text) is not None:
        return record
    operation = ReadBlock(expression=expression, limit_bytes=limit_bytes)
    return await read_block(gdb, operation, pid)
