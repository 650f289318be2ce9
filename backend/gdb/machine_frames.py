"""Frames of a thread with the registers that arguments of MPI calls are followed through."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.mpi_frames import Place
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.mpi_calls.describe import CAN_FOLLOW
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.backend.mpi_calls.instructions import SAVED
from pgdb.patterns import pattern

_NUMBER = pattern(r"0x[0-9a-f]+\Z|\d+\Z")
_INNER = 8
"""Frames inside MPI whose registers are read, from its outermost one inwards."""
_OUTER = 5
"""Frames outside MPI whose registers are read."""
# GDB's numbers of the registers of x86-64.
_NAMES = (
    *("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp"),
    *(f"r{n}" for n in range(8, 16)),
    *("rip", "eflags"),
)
_ALL = " ".join(map(str, range(len(_NAMES))))
_PRESERVED = " ".join(str(_NAMES.index(name)) for name in ("rsp", *SAVED))


async def machine_frames(
    gdb: GdbSession, thread: str, places: Sequence[Place], at: int
) -> tuple[tuple[MachineFrame, ...], int]:
    """Return the frames of a thread without inlined ones, with the registers around the call
    at *at*, and the index of the first frame outside MPI."""
    if not CAN_FOLLOW:
        return (), 0
    levels = [
        level
        for level, place in enumerate(places)
        if level + 1 == len(places) or places[level + 1].address != place.address
    ]
    caller = sum(level <= at for level in levels)
    begin, end = max(0, caller - _INNER), min(len(levels), caller + _OUTER)
    asked = gdb.send_together(
        *(
            f"-data-list-register-values --thread {thread} --frame {levels[index]}"
            f" --skip-unavailable x {_ALL if index == 0 else _PRESERVED}"
            for index in range(begin, end)
        )
    )
    answers = dict(zip(range(begin, end), await asyncio.gather(*asked), strict=True))
    registers = {index: _registers(answer) for index, answer in answers.items()}
    frames = tuple(
        MachineFrame(
            pc=places[level].address,
            registers=registers.get(index, {}),
            cfa=registers.get(index + 1, {}).get("rsp"),
            function=places[level].frame.function,
        )
        for index, level in enumerate(levels)
    )
    return frames, caller


async def thread_pointer(gdb: GdbSession, thread: str) -> int | None:
    """Return the address of a thread's own memory, None on other machines than x86-64."""
    if not CAN_FOLLOW:
        return None
    (asked,) = gdb.send_together(f"-data-evaluate-expression --thread {thread} --frame 0 $fs_base")
    text = str((await asked).payload.get("value", ""))
    return int(text, 0) if _NUMBER.match(text) else None


def _registers(result: Result) -> dict[str, int]:
    """Return the registers of a result of -data-list-register-values."""
    found = {}
    for each in decode.mappings(result.payload.get("register-values")):
        number, value = decode.whole_number(each.get("number")), str(each.get("value"))
        if number < len(_NAMES) and _NUMBER.match(value):
            found[_NAMES[number]] = int(value, 16)
    return found
