"""The frames of a stack as a debugger unwinds them, and symbolic values evaluated in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pgdb.backend.mpi_calls.instructions import SAVED
from pgdb.backend.mpi_calls.memory import Memory
from pgdb.backend.mpi_calls.values import MASK, Known, State, Value, signed

_DEEPEST = 16


class MachineFrame(msgspec.Struct, frozen=True):
    """One frame without the inlined functions in it."""

    pc: int
    """Address of the next instruction: for all but the innermost frame, where a call returns to."""
    registers: dict[str, int]
    """The stack pointer and the registers that calls preserve; all of the innermost frame."""
    cfa: int | None = None
    """Canonical frame address: the stack pointer of the caller behind the call."""
    is_mpi: bool = False
    """Whether the code is of the MPI library."""
    function: str = ""
    """Name of the function, as the debugger has it."""


Entry = Callable[[Known], int | None]
"""Returns a value of a function's entry: a register's, or an argument's on the stack."""


class Evaluator:
    """Evaluates symbolic values of one function in one of its frames."""

    def __init__(
        self,
        memory: Memory,
        frame: MachineFrame,
        state: State,
        *,
        bias: int,
        cfa: int | None,
        entry: Entry,
    ) -> None:
        self._memory = memory
        self._frame = frame
        self._state = state
        self._bias = bias
        self._cfa = cfa
        self._entry = entry
        self.is_stale = False
        """Whether memory was read that the function, or a call of it, may have changed since."""

    def value(self, value: Value, deep: int = 0) -> int | None:
        """Return the number that *value* stands for, None if it cannot be known any longer."""
        if value is None or deep > _DEEPEST:
            return None
        kind = value[0]
        if kind == "const":
            return int(value[1]) & MASK
        if kind == "image":
            return int(value[1]) + self._bias & MASK
        if kind == "cfa":
            return None if self._cfa is None else self._cfa + value[1] & MASK
        found = self._located(value)
        if found is not None:
            return found
        match value:
            case ("low", size, inner):
                number = self.value(inner, deep + 1)
                return None if number is None else number & ((1 << 8 * size) - 1)
            case ("signed", inner):
                number = self.value(inner, deep + 1)
                return None if number is None else signed(number, 4) & MASK
            case ("load", address, size, age):
                place = self.value(address, deep + 1)
                if place is None:
                    return None
                self.is_stale |= age != self._state.age
                return self._memory.word(place, size)
            case ("op", sign, a, b):
                left, right = self.value(a, deep + 1), self.value(b, deep + 1)
                return None if left is None or right is None else compute(sign, left, right)
            case ("stacked", number):
                return None if self._cfa is None else self._memory.word(self._cfa + 8 * number)
            case ("entry", _):
                return self._entry(value)
            case _:
                return None

    def _located(self, value: Known) -> int | None:
        """Return the value from a preserved register or a stack slot that still holds it."""
        state, registers = self._state, self._frame.registers
        for name in SAVED:
            held = state.registers.get(name)
            if held is None or name not in registers:
                continue
            if held == value:
                return registers[name]
            if value[:2] == ("low", 4) and _lowest(held) == _lowest(value):
                return registers[name] & 0xFFFFFFFF
        if self._cfa is None:
            return None
        for at, (slot, size) in state.slots.items():
            if slot == value and size >= 4:
                return self._memory.word(self._cfa + at, size)
        return None


def _lowest(value: Known) -> Known:
    """Return the value whose lowest four bytes are those of *value*."""
    match value:
        case ("low", 4, inner) | ("signed", inner):
            return inner  # type: ignore[no-any-return]
        case _:
            return value


def compute(sign: str, a: int, b: int) -> int | None:
    """Return the result of an operation on unsigned numbers of 64 bits."""
    match sign:
        case "+":
            return a + b & MASK
        case "-":
            return a - b & MASK
        case "*":
            return a * b & MASK
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
        case "<<":
            return a << (b & 63) & MASK
        case ">>":
            return a >> (b & 63)
        case "neg":
            return -a & MASK
        case "not":
            return ~a & MASK
        case "/" | "%":
            left, right = signed(a, 4), signed(b, 4)
            if not right:
                return None
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return (quotient if sign == "/" else left - quotient * right) & 0xFFFFFFFF
        case _ if sign.startswith(">>"):
            return signed(a, int(sign[2:])) >> (b & 63) & MASK
        case _:
            return None


def held_arguments(
    memory: Memory,
    frame: MachineFrame,
    state: State,
    cfa: int | None,
    *,
    is_innermost: bool,
    preserves: bool = True,
) -> dict[Known, tuple[int, int]]:
    """Return the values of the entry of a frame's function that registers and slots still hold.

    Each has the number of bytes that are known.

    :param preserves: the functions of this object file preserve registers for each other.
    """
    found: dict[Known, tuple[int, int]] = {}
    contradicted: set[Known] = set()

    def note(value: Value, number: int | None, size: int) -> None:
        if value is None or number is None:
            return
        match value:
            case ("entry" | "stacked", _):
                key, known = value, size
            case ("low", 4, ("entry" | "stacked", _) as key) | (
                "signed",
                ("entry" | "stacked", _) as key,
            ):
                known = min(size, 4)
            case _:
                return
        if key in found:
            bits = 8 * min(known, found[key][1])
            if (found[key][0] ^ number) & ((1 << bits) - 1):
                contradicted.add(key)
        if key not in found or found[key][1] < known:
            found[key] = (number & ((1 << 8 * known) - 1), known)

    names: Sequence[str] = tuple(frame.registers) if is_innermost else SAVED * preserves
    for name in names:
        if name in frame.registers:
            note(state.registers.get(name), frame.registers[name], 8)
    if cfa is not None:
        for at, (value, size) in state.slots.items():
            if size >= 4:
                note(value, memory.word(cfa + at, size), size)
    return {key: value for key, value in found.items() if key not in contradicted}
