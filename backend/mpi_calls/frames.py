"""The frames of a stack as a debugger unwinds them, and symbolic values evaluated in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pgdb.backend.mpi_calls.conditions import is_true
from pgdb.backend.mpi_calls.flow import Reached
from pgdb.backend.mpi_calls.gates import Gates
from pgdb.backend.mpi_calls.instructions import SAVED
from pgdb.backend.mpi_calls.memory import Memory
from pgdb.backend.mpi_calls.values import MASK, Flags, Known, State, Value, signed

_DEEPEST = 100
"""Values inside each other that are evaluated."""


class MachineFrame(msgspec.Struct, frozen=True):
    """One frame without the inlined functions in it."""

    pc: int
    """Address of the next instruction: for all but the innermost frame, where a call returns to."""
    registers: dict[str, int]
    """The stack pointer and the registers that calls preserve; all of the innermost frame."""
    cfa: int | None = None
    """Canonical frame address: the stack pointer of the caller behind the call."""
    function: str = ""
    """Name of the function, as the debugger has it."""


Entry = Callable[[Known], int | None]
"""Function that returns a value of an entry: a register's, or an argument's on the stack."""


class Evaluator:
    """Evaluator of symbolic values of one function in one of its frames."""

    def __init__(
        self,
        memory: Memory,
        frame: MachineFrame,
        reached: Reached,
        *,
        bias: int,
        cfa: int | None,
        entry: Entry,
        is_gone: bool = False,
    ) -> None:
        """Prepare for the frame of a function.

        :param is_gone: the function has left its frame by a tail call.
        """
        self._memory = memory
        self._frame = frame
        self._state = reached.state
        self._definitions = reached.definitions
        ways = reached.ways
        self.gates = Gates(ways, self.value, self.holds, bias) if ways is not None else None
        """The way that the execution has taken, of a caller."""
        self._bias = bias
        self._cfa = cfa
        self._entry = entry
        self._is_gone = is_gone
        self._known: dict[Known, int | None] = {}
        self._deep = 0

    def value(self, value: Value) -> int | None:
        """Return the number that *value* stands for, None if it cannot be known any longer."""
        if value is None or self._deep > _DEEPEST:
            return None
        try:
            return self._known[value]
        except KeyError:
            pass
        # A value that depends on itself is unknown.
        self._known[value] = None
        self._deep += 1
        found = self._known[value] = self._value(value)
        self._deep -= 1
        return found

    def _value(self, value: Known) -> int | None:
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
                number = self._low(inner, size)
                return None if number is None else number & ((1 << 8 * size) - 1)
            case ("signed", inner):
                number = self._low(inner, 4)
                return None if number is None else signed(number, 4) & MASK
            case ("extended", size, inner):
                number = self._low(inner, size)
                return None if number is None else signed(number, size) & MASK
            case ("load", address, size, age):
                return self._load(address, size, age)
            case ("op", sign, a, b):
                left, right = self.value(a), self.value(b)
                return None if left is None or right is None else compute(sign, left, right)
            case ("insert", size, old, new):
                left, right = self.value(old), self.value(new)
                mask = (1 << 8 * size) - 1
                return None if left is None or right is None else left & ~mask | right & mask
            case ("holds", condition, flags):
                holds = self.holds(condition, flags)
                return None if holds is None else int(holds)
            case ("select", condition, flags, a, b):
                holds = self.holds(condition, flags)
                if holds is not None:
                    return self.value(a if holds else b)
                left, right = self.value(a), self.value(b)
                return left if left == right else None
            case ("stacked", number):
                return None if self._cfa is None else self._memory.word(self._cfa + 8 * number)
            case ("entry", _):
                return self._entry(value)
            case ("some", "value", number):
                return self.value(self._definitions[number])
            case ("some", "join", where, _) if self.gates is not None:
                return self.gates.joined(value, where)
            case _:
                return None

    def _low(self, value: Value, size: int) -> int | None:
        """Return a number whose lowest bytes are those of *value*."""
        found = self._located(("low", size, value)) if value is not None else None
        return self.value(value) if found is None else found

    def _load(self, address: Known, size: int, age: object) -> int | None:
        """Return a number in memory, unless something may have changed it since."""
        if age != self._state.age_of(address, size):
            return None
        if self._is_gone and address[0] == "cfa" and address[1] < 0:
            return None
        place = self.value(address)
        return None if place is None else self._memory.word(place, size)

    def holds(self, condition: str, flags: Flags) -> bool | None:
        """Return whether a condition holds, None if that cannot be known."""
        if flags is None:
            return None
        kind, size, *values = flags
        numbers = [self.value(each) for each in values]
        known = [each for each in numbers if each is not None]
        return is_true(condition, kind, size, known) if len(known) == len(numbers) else None

    def _located(self, value: Known) -> int | None:
        """Return the value from a preserved register or a stack slot that still holds it, or that
        holds it with a constant added."""
        state, registers = self._state, self._frame.registers
        width = 4 if value[:2] == ("low", 4) else 8
        wanted, offset = _split(value, width)
        for name in SAVED:
            held = state.registers.get(name)
            if held is None or name not in registers:
                continue
            if held == value:
                return registers[name]
            base, more = _split(held, width)
            if base == wanted and base[0] not in _EVALUATED:
                return registers[name] + offset - more & ((1 << 8 * width) - 1)
        if self._cfa is None or self._is_gone:
            return None
        for at, (slot, size) in state.slots.items():
            if slot is None or size < width:
                continue
            base, more = _split(slot, width)
            if slot == value or (base == wanted and base[0] not in _EVALUATED):
                number = self._memory.word(self._cfa + at, size)
                if number is not None:
                    return number + offset - more & ((1 << 8 * width) - 1)
        return None


_EVALUATED = ("const", "image", "cfa")


def _split(value: Known, width: int) -> tuple[Known, int]:
    """Return a value as a base and a constant that is added.

    Of four bytes only those count: the lowest bytes of a sum are the sum of the lowest bytes.
    """
    offset = 0
    while True:
        match value:
            case ("low", 4, inner) if width == 4:
                value = inner
            case ("signed", inner) if width == 4:
                value = inner
            case ("op", "+", inner, ("const", number)):
                value, offset = inner, offset + number
            case _:
                return value, offset


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
        case "/s4" | "%s4" | "/s8" | "%s8" | "/u4" | "%u4" | "/u8" | "%u8":
            size = int(sign[2])
            mask = (1 << 8 * size) - 1
            left, right = (signed(n, size) if sign[1] == "s" else n & mask for n in (a, b))
            if not right:
                return None
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return (quotient if sign[0] == "/" else left - quotient * right) & mask
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
