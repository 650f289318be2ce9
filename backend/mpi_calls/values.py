"""Symbolic values of registers and stack slots, and the state of a function at one instruction.

A value is a tuple, so that it can be compared and hashed, and None if nothing is known:

| value | meaning |
|---|---|
| ``("entry", reg)`` | the value that a register had when the function was entered |
| ``("stacked", n)`` | the argument number 6 + n, which the caller passed on the stack |
| ``("const", n)`` | a number |
| ``("image", n)`` | the address n of the object file |
| ``("cfa", n)`` | n bytes above the canonical frame address |
| ``("load", value, size, age)`` | memory at an address, read after the store or call at *age* |
| ``("op", sign, a, b)`` | an operation |
| ``("low", size, value)`` | the lowest bytes of a value, extended by zeros |
| ``("signed", value)`` | the lowest four bytes, extended by the sign |
| ``("some", …)`` | the same unknown value wherever it stands |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgdb.backend.mpi_calls.instructions import ARGUMENTS, SAVED, VOLATILE

Value = tuple[Any, ...] | None
Known = tuple[Any, ...]

MASK = (1 << 64) - 1
_MOST_STACKED = 12
DEEPEST = 12
"""Operations inside each other in one value; deeper ones are given up, as loops nest them."""


def signed(number: int, size_bytes: int = 8) -> int:
    """Return the signed number with these bits."""
    bits = 8 * size_bytes
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def plus(value: Value, number: int) -> Value:
    """Return *value* + *number*."""
    if value is None or number == 0:
        return value
    match value:
        case ("const", known):
            return ("const", (known + number) & MASK)
        case ("image" | "cfa" as kind, known):
            return (kind, known + number)
        case ("op", "+", inner, ("const", known)):
            return plus(inner, signed(known) + number)
        case _:
            return operation("+", value, ("const", number & MASK))


def operation(sign: str, a: Value, b: Value) -> Value:
    """Return the value of an operation, None where it nests too deep."""
    if a is None or b is None or depth(a) + depth(b) > DEEPEST:
        return None
    return ("op", sign, a, b)


def depth(value: Known) -> int:
    """Return the number of operations and loads inside each other."""
    match value:
        case ("op", _, a, b):
            return 1 + max(depth(a), depth(b))
        case ("load", a, _, _) | ("low", _, a) | ("signed", a):
            return 1 + depth(a)
        case _:
            return 0


def low(value: Value, size_bytes: int) -> Value:
    """Return the lowest bytes of *value*, extended by zeros."""
    if value is None or size_bytes == 8:
        return value
    match value:
        case ("const", number):
            return ("const", number & ((1 << 8 * size_bytes) - 1))
        case ("low", size, _) if size <= size_bytes:
            return value
        case ("low", _, inner):
            return low(inner, size_bytes)
        case ("signed", inner) if size_bytes <= 4:
            return low(inner, size_bytes)
        case ("load", _, size, _) if size <= size_bytes:
            return value
        case _:
            return ("low", size_bytes, value)


def sign_extended(value: Value, size_bytes: int) -> Value:
    """Return the lowest bytes of *value*, extended by their sign."""
    if value is None:
        return None
    if value[0] == "const":
        return ("const", signed(value[1], size_bytes) & MASK)
    if size_bytes != 4:
        return None
    return ("signed", value[2] if value[0] == "low" and value[1] == 4 else value)


class State:
    """Values of registers, stack slots and vector registers at one instruction."""

    __slots__ = ("age", "registers", "slots", "vectors")

    def __init__(self) -> None:
        self.registers: dict[str, Known] = {}
        self.slots: dict[int, tuple[Value, int]] = {}
        """Value and size of each slot, by its distance from the canonical frame address."""
        self.vectors: dict[str, tuple[Value, Value]] = {}
        """The two halves of the lowest 16 bytes."""
        self.age = 0
        """Address of the last store to memory outside the frame, or of the last call."""

    def copy(self) -> State:
        """Return a copy."""
        made = State()
        made.registers = dict(self.registers)
        made.slots = dict(self.slots)
        made.vectors = dict(self.vectors)
        made.age = self.age
        return made

    def equals(self, other: State) -> bool:
        """Return whether all is the same."""
        return (
            self.registers == other.registers
            and self.slots == other.slots
            and self.vectors == other.vectors
            and self.age == other.age
        )

    @property
    def sp(self) -> int | None:
        """Distance of the stack pointer from the canonical frame address."""
        found = self.registers.get("rsp")
        return found[1] if found is not None and found[0] == "cfa" else None


def entry_state() -> State:
    """Return the state at the first instruction of a function."""
    state = State()
    for name in (*ARGUMENTS, *SAVED, *VOLATILE):
        state.registers[name] = ("entry", name)
    state.registers["rsp"] = ("cfa", -8)
    for number in range(_MOST_STACKED):
        state.slots[8 * number] = (("stacked", number), 8)
    return state


def meet(states: Sequence[State], where: int, *, keeps_symbols: bool) -> State:
    """Return the knowledge that all *states* share, at the instruction *where* they join.

    With *keeps_symbols*, locations that agree with each other in every state get one symbol.
    """
    found = states[0].copy()
    if len(states) == 1:
        return found
    found.age = max(each.age for each in states)
    groups: dict[tuple[Any, ...], list[tuple[str, Any]]] = {}
    for kind in ("registers", "slots", "vectors"):
        tables = [getattr(each, kind) for each in states]
        table = getattr(found, kind)
        for key in list(table):
            if any(key not in each for each in tables):
                del table[key]
                continue
            values = tuple(each[key] for each in tables)
            if all(each == values[0] for each in values):
                continue
            if not keeps_symbols or kind == "vectors":
                del table[key]
            elif kind == "slots":
                sizes = {size for _, size in values}
                if len(sizes) != 1:
                    del table[key]
                else:
                    groups.setdefault(tuple(v for v, _ in values), []).append((kind, key))
            else:
                groups.setdefault(values, []).append((kind, key))
    for places in groups.values():
        symbol = ("some", "join", where, str(min(map(str, places))))
        for kind, key in places:
            if kind == "registers":
                found.registers[key] = symbol
            else:
                found.slots[key] = (symbol, found.slots[key][1])
    return found
