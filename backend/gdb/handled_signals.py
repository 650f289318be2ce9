"""The signals whose handlers a thread runs: only those of crashes mean that the rank dies.

A handler of any other signal is the user's code, whatever it waits for.
"""

from __future__ import annotations

import platform
import struct
from pathlib import Path

from msgspec.structs import replace

from pgdb.backend.gdb.deaths import fatal_signal, find_deaths
from pgdb.backend.gdb.mpi_frames import Place
from pgdb.backend.gdb.rank_image import RankImage
from pgdb.backend.gdb.registers import address_in, stack_pointer
from pgdb.backend.gdb.session import GdbSession
from pgdb.elf import Read
from pgdb.jobs import procfs

# struct rt_sigframe of x86-64: the stack pointer of the frame points to the ucontext, whose last
# field is the mask of blocked signals before the handler.
_MASK_OFFSET = 296
_HIGHEST_SIGNAL = 64


async def with_deaths(
    gdb: GdbSession, image: RankImage, thread: str, number: int, places: tuple[Place, ...]
) -> tuple[Place, ...]:
    """Return the frames of a thread with the words for a rank that dies in one of them.

    :param number: the kernel's number of the thread.
    """
    deaths = find_deaths(places)
    innermost = min((each.level for each in deaths if each.row.is_signal), default=-1)
    for dying in deaths:
        if dying.row.is_signal:
            # The mask of the thread is that of the innermost handler.
            tid = number if dying.level == innermost else 0
            if not await _is_fatal(gdb, image, thread, tid, dying.level):
                continue
        place = places[dying.level]
        place = place._replace(frame=replace(place.frame, dying=dying.row.bare or dying.row.says))
        return (*places[: dying.level], place, *places[dying.level + 1 :])
    return places


async def _is_fatal(gdb: GdbSession, image: RankImage, thread: str, tid: int, level: int) -> bool:
    """Return whether a handler runs for a signal that ends the process, as far as is known."""
    (asked,) = gdb.send_together(stack_pointer(thread, level))
    address = address_in(await asked)
    if not address:
        return False
    try:
        with image.opened() as memory:
            number = handled_signal(memory, address, tid)
    except OSError:
        return False
    return number is not None and bool(fatal_signal(number))


def handled_signal(memory: Read, context: int, thread: int, proc: Path = procfs.PROC) -> int | None:
    """Return the signal whose handler runs, None where it is unknown.

    The kernel writes its number for a handler with SA_SIGINFO. For any other handler it is the one
    that the thread blocks now and did not block before.

    :param context: the address of the ucontext.
    :param thread: the kernel's number of the thread, 0 where a handler runs inside this one.
    """
    if platform.machine() != "x86_64":
        return None
    data = memory(context + _MASK_OFFSET, 16)
    if len(data) < 16:
        return None
    before, number, error = struct.unpack("<Qii", data)
    new = _blocked_since(before, thread, proc)
    # Without SA_SIGINFO the number is what was on the stack before.
    if 0 < number <= _HIGHEST_SIGNAL and not error and (not new or number in new):
        return int(number)
    return new.pop() if len(new) == 1 else None


def _blocked_since(before: int, thread: int, proc: Path) -> set[int]:
    """Return the signals that a thread blocks and that are not in the mask *before*."""
    status = procfs.status_fields(f"{proc}/{thread}/status") if thread else None
    blocked = procfs.signals_in((status or {}).get("SigBlk", "0"))
    return {each for each in blocked if not before >> (each - 1) & 1}
