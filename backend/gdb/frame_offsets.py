"""Offsets of the program counters of frames in their functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.mpi_frames import Place
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.unnamed import UNNAMED, UnnamedCode
from pgdb.patterns import pattern

# "main + 31 in section .text of /bin/a", "main in section .text"
_SYMBOL = pattern(r"\S.*?(?: \+ (\d+))? in section ")


class FrameOffsets:
    """Offsets from answers of GDB, by address; valid until an object is loaded or unloaded."""

    def __init__(self, gdb: GdbSession, unnamed: Callable[[], UnnamedCode]) -> None:
        self._gdb = gdb
        self._unnamed = unnamed
        self._known: dict[int, str] = {}

    def clear(self) -> None:
        """Forget all offsets."""
        self._known.clear()

    async def learn(self, stacks: Iterable[Sequence[Place]]) -> None:
        """Ask GDB for the offsets of all frames that are not known yet."""
        wanted = {
            address
            for places in stacks
            for address in _looked_up(places)
            if address and address not in self._known
        }
        order = sorted(wanted)
        results = await asyncio.gather(
            *(self._gdb.send(console(f"info symbol {address:#x}")) for address in order)
        )
        for address, result in zip(order, results, strict=True):
            match = _SYMBOL.match(result.text)
            self._known[address] = str(int(match[1] or 0)) if match else ""

    def of(self, places: Sequence[Place]) -> tuple[str, ...]:
        """Return the offset of each frame in its function, such as ``+31``."""
        offsets = []
        for at, (place, address) in enumerate(zip(places, _looked_up(places), strict=True)):
            found = self._known.get(address, "")
            outer = places[at + 1] if at + 1 < len(places) else None
            # An inlined function has the address of the frame that contains it.
            is_inlined = (
                outer is not None
                and outer.address == place.address
                and outer.frame.function != place.frame.function
            )
            if not found or is_inlined or place.frame.function == UNNAMED:
                offsets.append(self._unnamed().offset(place.frame.function, place.address))
            else:
                offsets.append(f"+{int(found) + place.address - address}")
        return tuple(offsets)


def _looked_up(places: Sequence[Place]) -> list[int]:
    # The return address of a call that never returns may lie behind the function's end.
    return [
        place.address - 1 if at and place.address else place.address
        for at, place in enumerate(places)
    ]
