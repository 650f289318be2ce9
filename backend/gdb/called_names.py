"""The names of functions without a symbol, from the instructions that have called them."""

from __future__ import annotations

import asyncio

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mpi_frames import mpi_name
from pgdb.backend.gdb.session import GdbSession
from pgdb.patterns import pattern

# x86: call rel32 and call *(rip+disp32); ARM and POWER: every instruction.
_CALL_LENGTHS_BYTES = (5, 6, 4)
# "call 0x5080 <MPI_Recv@plt>", "call *0x2fe2(%rip) # 0x7fd8 <MPI_Recv@got.plt>", "bl 0x66c <f>"
_CALLED = pattern(r"<(\w+)(?:@[\w.]+)?>\Z")


class CalledNames:
    """The MPI calls before return addresses; valid until an object is loaded or unloaded."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._known: dict[int, str] = {}

    def clear(self) -> None:
        """Forget all names."""
        self._known.clear()

    async def before(self, address: int) -> str:
        """Return the MPI call that the instruction before *address* makes, empty if it is none.

        Intel's library has functions without symbols, which GDB prints as ``??``.
        """
        if address not in self._known:
            answers = await asyncio.gather(
                *(
                    self._gdb.send(f"-data-disassemble -s {address - length} -e {address} -- 0")
                    for length in _CALL_LENGTHS_BYTES
                )
            )
            # x/i would move the address that the user's next x shows.
            found = (
                match[1]
                for answer in answers
                if (match := _CALLED.search(decode.only_instruction(answer.payload)))
            )
            self._known[address] = next(filter(None, map(mpi_name, found)), "")
        return self._known[address]
