"""The names of functions without a symbol, from the instructions that have called them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from msgspec.structs import replace

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mpi_frames import Owner, Place, mpi_name
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.unnamed import UNNAMED
from pgdb.patterns import pattern

# x86: call rel32 and call *(rip+disp32); ARM and POWER: every instruction.
_CALL_LENGTHS_BYTES = (5, 6, 4)
# "call 0x5080 <MPI_Recv@plt>", "call *0x2fe2(%rip) # 0x7fd8 <MPI_Recv@got.plt>", "bl 0x66c <f>"
_CALLED = pattern(r"<(\w+)(?:@[\w.@]+)?>\Z")


class CalledNames:
    """The functions called before return addresses; valid until an object is loaded or unloaded."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._known: dict[int, tuple[str, ...]] = {}

    def clear(self) -> None:
        """Forget all names."""
        self._known.clear()

    async def mpi_call_before(self, address: int) -> str:
        """Return the MPI call that the instruction before *address* makes, empty if it is none.

        Intel's library has functions without symbols, which GDB prints as ``??``.
        """
        return next(filter(None, map(mpi_name, await self._before(address))), "")

    async def with_c_library(self, places: Sequence[Place]) -> tuple[Place, ...]:
        """Return frames, those of the C library without a symbol with the name that was called.

        ``pthread_join`` and ``sem_wait`` jump to functions of the C library's own, which have no
        symbol where its debug information is not installed. The return address of such a frame
        shows the name in the caller's instruction.
        """
        found = list(places)
        for number, (place, caller) in enumerate(itertools.pairwise(places)):
            if place.owner is not Owner.C_RUNTIME or place.frame.function != UNNAMED:
                continue
            if place.frame.library != caller.frame.library and caller.address:
                name = next(iter(await self._before(caller.address)), UNNAMED)
                found[number] = place._replace(frame=replace(place.frame, function=name))
        return tuple(found)

    async def _before(self, address: int) -> tuple[str, ...]:
        """Return the functions that an instruction of each length before *address* calls."""
        if address not in self._known:
            answers = await asyncio.gather(
                *(
                    self._gdb.send(f"-data-disassemble -s {address - length} -e {address} -- 0")
                    for length in _CALL_LENGTHS_BYTES
                )
            )
            # x/i would move the address that the user's next x shows.
            self._known[address] = tuple(
                match[1]
                for answer in answers
                if (match := _CALLED.search(decode.only_instruction(answer.payload)))
            )
        return self._known[address]
