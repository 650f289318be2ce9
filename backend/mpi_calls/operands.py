"""Operands of instructions of x86-64, read and written in a symbolic state."""

from __future__ import annotations

from collections.abc import Iterator

from pgdb.backend.mpi_calls.instructions import HIGH, REGISTERS, Instruction, Operand
from pgdb.backend.mpi_calls.values import (
    DEEPEST,
    MASK,
    Known,
    State,
    Value,
    depth,
    low,
    operation,
    plus,
    region_of,
    signed,
)

_MOST_NESTED = 8
"""Most operations in a number of 32 bits that has no name."""
_MOST_LEVELS = 8
"""Most names that are resolved one inside the other."""


class Operands:
    """Reader and writer of operands.

    A *caller* is followed with symbols for unknown values, since a value that it has kept elsewhere
    is as good. Its stack slots are unknown after a call. For a *callee* its values at
    entry alone count, and a slot is lost once its address is passed on.
    """

    def __init__(self, *, is_caller: bool) -> None:
        self.is_caller = is_caller
        self.escaped: set[int] = set()
        """Stack slots whose address was passed on or stored."""
        self.definitions: list[Known] = []
        """The values that have numbers of their own."""
        self._numbers: dict[Known, int] = {}
        self._levels: list[int] = []
        self._now = 0

    def address(self, state: State, insn: Instruction, operand: Operand) -> Value:
        """Return the address of a place in memory."""
        if operand.segment in ("fs", "gs"):
            return None
        if operand.base == "rip":
            found: Value = ("image", insn.next)
        elif operand.base:
            found = self.register(state, operand.base)
        else:
            found = ("const", 0)
        if operand.index:
            index = self.register(state, operand.index)
            if index is None or found is None:
                return None
            if operand.scale != 1:
                index = (
                    ("const", index[1] * operand.scale & MASK)
                    if index[0] == "const"
                    else operation("*", index, ("const", operand.scale))
                )
            if index is not None and index[0] == "const":
                found = plus(found, signed(index[1]))
            elif found[0] == "const":
                found = plus(index, signed(found[1]))
            else:
                found = operation("+", found, index)
        return plus(found, operand.disp)

    def register(self, state: State, name: str) -> Value:
        """Return the value of a register by any of its names."""
        full, size = REGISTERS.get(name, ("", 0))
        if not full or name[1:] == "h":
            return None
        return low(state.registers.get(full), size)

    def get(self, state: State, insn: Instruction, operand: Operand) -> Value:
        """Return the value of an operand."""
        if operand.kind == "reg":
            return self.register(state, operand.reg)
        if operand.kind == "imm":
            return ("const", operand.imm & MASK)
        return self._load(state, self.address(state, insn, operand), operand.size)

    def _load(self, state: State, address: Value, size: int) -> Value:
        if address is None:
            return None
        if address[0] != "cfa":
            return operation_load(address, size, state.age_of(address, size))
        held = state.slots.get(address[1])
        if held is not None:
            value, held_size = held
            return low(value, size) if held_size >= size else None
        begin, end = address[1], address[1] + size
        for at, (value, held_size) in state.slots.items():
            if at < begin and end <= at + held_size:
                return low(operation(">>", value, ("const", 8 * (begin - at))), size)
        if any(at < end and begin < at + held_size for at, (_, held_size) in state.slots.items()):
            return None
        return operation_load(address, size, state.age_of(address, size))

    def _set(self, state: State, name: str, value: Value) -> None:
        full, size = REGISTERS.get(name, ("", 0))
        if not full:
            return
        if size < 4:
            old = state.registers.get(full)
            if name in HIGH or value is None:
                value = None
            elif old is not None and old[0] == "const":
                kept = old[1] & ~((1 << 8 * size) - 1)
                value = plus(low(value, size), kept)
            else:
                value = ("insert", size, old, value)
                value = value if depth(value) <= DEEPEST else None
        if value is None:
            if self.is_caller:
                state.registers[full] = ("some", self._now, full)
            else:
                state.registers.pop(full, None)
            return
        found = low(value, 4) if size == 4 else value
        assert found is not None
        if size == 4 and self.is_caller and depth(found) > _MOST_NESTED:
            found = low(self._numbered(found), 4) or ("some", self._now, full)
        state.registers[full] = found

    def _numbered(self, value: Known) -> Value:
        """Return a short name of a number that nests deep, None if there are too many inside.

        Equal values have equal names. Without them a value that a conditional move reads three
        times would be too large to be kept.
        """
        number = self._numbers.get(value)
        if number is None:
            level = 1 + max((self._levels[each] for each in _numbers_in(value)), default=0)
            if level > _MOST_LEVELS:
                return None
            number = self._numbers[value] = len(self.definitions)
            self.definitions.append(value)
            self._levels.append(level)
        return ("some", "value", number)

    def _store_element(self, state: State, address: Value) -> None:
        """Forget the slots that an element of an array in the frame may be: those above its start,
        as an index has no sign."""
        lowest = _array_of(address)
        for at in [at for at in state.slots if lowest is None or at >= lowest]:
            del state.slots[at]

    def _store(self, state: State, address: Value, value: Value, size: int) -> None:
        if value is not None and value[0] == "cfa":
            self.escaped.add(value[1])
        state.note_store(address, size, self._now, is_seen=bool(self.escaped))
        if address is None or address[0] != "cfa":
            if address is not None and region_of(address) == "frame":
                self._store_element(state, address)
            return
        if value is None and self.is_caller:
            value = ("some", self._now, address[1])
        begin = address[1]
        overlapping = [
            at for at, (_, held) in state.slots.items() if at < begin + size and begin < at + held
        ]
        for at in overlapping:
            del state.slots[at]
        if value is not None:
            state.slots[begin] = (low(value, size), size)

    def _put(self, state: State, insn: Instruction, operand: Operand, value: Value) -> None:
        if operand.kind == "reg":
            self._set(state, operand.reg, value)
        else:
            address = self.address(state, insn, operand)
            self._store(state, address, value, operand.size)


def _numbers_in(value: Known) -> Iterator[int]:
    """Yield the numbers of the values that are named in a value."""
    match value:
        case ("some", "value", int(number)):
            yield number
        case _:
            for each in value:
                if isinstance(each, tuple):
                    yield from _numbers_in(each)


def operation_load(address: Value, size: int, age: object) -> Value:
    """Return the value of memory, None where it nests too deep."""
    if address is None or size not in (1, 2, 4, 8):
        return None
    return ("load", address, size, age) if depth(address) < DEEPEST else None


def _array_of(address: Value) -> int | None:
    """Return the place in the frame of the array that has an element at *address*."""
    match address:
        case ("cfa", at):
            return int(at)
        case ("op", "+", a, b):
            found = [each for each in (_array_of(a), _array_of(b)) if each is not None]
            return found[0] if len(found) == 1 else None
        case _:
            return None
