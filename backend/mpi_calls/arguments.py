"""The arguments of one call of MPI, each from the best source; two that disagree give nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.backend.mpi_calls.library import MpiLibrary
from pgdb.backend.mpi_calls.sites import Called, CallSites
from pgdb.backend.mpi_calls.tails import Raw
from pgdb.mpi_calls import ArgumentSource
from pgdb.mpi_functions import PROTOTYPES, Argument, Prototype

_POINTERS = ("pointer", "request", "requests")
_NUMBERS = ("int", "count", "address")
_F2C = {
    "comm": "Comm",
    "win": "Win",
    "file": "File",
    "group": "Group",
    "datatype": "Type",
    "op": "Op",
    "request_handle": "Request",
}


class Known(msgspec.Struct, frozen=True):
    """The value of an argument as C has it: a number, a handle or an address."""

    number: int
    source: ArgumentSource
    is_fortran: bool = False
    """Whether an address leads to handles of Fortran."""


class CallArguments:
    """Finder of the arguments of one call."""

    def __init__(
        self,
        sites: CallSites,
        library: MpiLibrary,
        frames: Sequence[MachineFrame],
        called: Called,
        callee_level: int,
    ) -> None:
        self._sites = sites
        self._library = library
        self._frames = frames
        self._called = called
        self.prototype: Prototype | None = PROTOTYPES.get(called.name.function)
        self._outer = sites.call_arguments(called)
        # In Fortran the arguments are addresses until the binding calls the function of C.
        inner = self._c_function(callee_level) if called.name.is_fortran else None
        self._inner_is_c = inner is not None or not called.name.is_fortran
        address, level = inner or (called.address, callee_level)
        self._inner = sites.callee_arguments(address, level)

    def _c_function(self, callee_level: int) -> tuple[int, int] | None:
        """Return the function of C that a binding of Fortran has called, and its frame's index."""
        for level in range(callee_level, 0, -1):
            target = self._sites.target(level)
            name = self._sites.mpi_name(target) if target is not None else None
            if name is not None and not name.is_fortran:
                if name.function == self._called.name.function and target is not None:
                    return target, level - 1
        return None

    def values(self) -> dict[str, Known]:
        """Return the known arguments by their names."""
        found: dict[str, Known] = {}
        if self.prototype is None:
            return found
        for number, argument in enumerate(self.prototype.arguments):
            if argument.name in ("_", "int", "handle"):
                continue
            known = self._known(number, argument)
            if known is not None:
                found[argument.name] = known
        return found

    def _known(self, number: int, argument: Argument) -> Known | None:
        outer, inner = self._by_caller(number, argument), self._by_callee(number, argument)
        if outer is not None and inner is not None:
            # Handles of both languages differ in their bits.
            is_same_kind = outer.is_fortran == inner.is_fortran
            if is_same_kind and outer.number != inner.number:
                return None
        return outer or inner

    def _by_caller(self, number: int, argument: Argument) -> Known | None:
        raw = self._outer(number)
        if raw is None:
            return None
        if not self._called.name.is_fortran:
            found = self._in_c(raw, argument)
            return None if found is None else Known(found, "caller code")
        return self._of_fortran(raw, argument)

    def _of_fortran(self, raw: Raw, argument: Argument) -> Known | None:
        if argument.type in _POINTERS:
            return Known(raw.number, "caller code", is_fortran=True)
        size = self._bytes_of_number(argument)
        word = self._library.memory.word(raw.number, size)
        if word is None:
            return None
        if argument.type != "handle":
            return Known(_signed(word, size), "caller code")
        kind = _F2C.get(argument.name)
        try:
            if kind is None:
                return None
            return Known(self._library.of_fortran(kind, word), "caller code")
        except EmulationError:
            return None

    def _by_callee(self, number: int, argument: Argument) -> Known | None:
        if not self._inner_is_c:
            return None
        raw = self._inner(number)
        if raw is None:
            return None
        found = self._in_c(raw, argument)
        return None if found is None else Known(found, "callee code")

    def _in_c(self, raw: Raw, argument: Argument) -> int | None:
        """Return the value of an argument of a function of C."""
        size = self._size(argument)
        if raw.size_bytes < size:
            return None
        if argument.is_pointed or (argument.name == "message" and size == 8):
            word = self._library.memory.word(raw.number, self._library.handle_bytes)
            return word
        number = raw.number & ((1 << 8 * size) - 1)
        return _signed(number, size) if argument.type in _NUMBERS else number

    def _size(self, argument: Argument) -> int:
        if argument.type in _POINTERS or argument.is_pointed:
            return 8
        if argument.type == "handle":
            return 8 if argument.name == "file" else self._library.handle_bytes
        return self._bytes_of_number(argument)

    def _bytes_of_number(self, argument: Argument) -> int:
        is_large = argument.type == "count" and self._called.name.is_large
        return 8 if is_large or argument.type == "address" else 4


def _signed(number: int, size_bytes: int) -> int:
    bits = 8 * size_bytes
    return number - (1 << bits) if number >> bits - 1 else number
