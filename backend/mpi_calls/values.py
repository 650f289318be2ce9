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
| ``("extended", size, value)`` | the lowest one or two bytes, extended by the sign |
| ``("insert", size, old, new)`` | *old* with the lowest bytes of *new*; *old* may be None |
| ``("holds", condition, flags)`` | 1 or 0, by a condition such as ``ne`` and :data:`Flags` |
| ``("select", condition, flags, a, b)`` | *a* where the condition holds, *b* where it does not |
| ``("some", …)`` | the same unknown value wherever it stands |
| ``("some", "value", n)`` | the value with the number n, which is too large to stand here |

An *age* separates the contents of memory before and after stores and calls: two loads of one
address give the same value if their ages are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pgdb.backend.mpi_calls.instructions import ARGUMENTS, SAVED, VOLATILE

Value = tuple[Any, ...] | None
Known = tuple[Any, ...]

MASK = (1 << 64) - 1
Flags = tuple[Any, ...] | None
"""The flags after ``("sub", size, a, b)``, ``("add", …)``, a logical operation with a result
(``("logic", size, value)``), an operation that says nothing of carry and overflow (``("result",
size, value)``), or a test of one bit (``("bit", value, number)``)."""
Region = Literal["frame", "image", "other"]
"""A part of memory: the frame of the function, variables of the object file, anything else."""
REGIONS: tuple[Region, ...] = ("frame", "image", "other")

_MOST_STACKED = 12
DEEPEST = 40
"""Operations in one value; larger ones are given up, as loops nest them."""


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
    """Return the number of operations and loads in a value."""
    if value[0] == "load":
        return 1 + depth(value[1])
    if value[0] == "some":
        return 0
    return 1 + sum(depth(each) for each in value if isinstance(each, tuple))


def region_of(address: Known) -> Region:
    """Return the part of memory that an address lies in. An index does not leave its array."""
    match address:
        case ("cfa" | "image" as kind, _):
            return "frame" if kind == "cfa" else "image"
        case ("op", "+", a, b):
            found = {region_of(a), region_of(b)} - {"other"}
            return found.pop() if len(found) == 1 else "other"
        case _:
            return "other"


def select(condition: str, flags: Flags, a: Value, b: Value) -> Value:
    """Return *a* or *b*, None where either is unknown."""
    if a == b:
        return a
    if flags is None or a is None or b is None:
        return None
    found = ("select", condition, flags, a, b)
    return found if depth(found) <= DEEPEST else None


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
        case ("insert", size, _, inner) if size_bytes <= size:
            return low(inner, size_bytes)
        case ("holds", _, _):
            return value
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
        return ("extended", size_bytes, low(value, size_bytes)) if size_bytes < 4 else value
    return ("signed", value[2] if value[0] == "low" and value[1] == 4 else value)


_FRAME: Known = ("cfa",)
_IMAGE: Known = ("image",)


def place_of(address: Known) -> tuple[Known, int]:
    """Return an address as a base and a distance from it."""
    match address:
        case ("cfa" | "image" as kind, number):
            return (kind,), number
        case ("op", "+", inner, ("const", number)):
            return inner, signed(number)
        case _:
            return address, 0


class State:
    """Values of registers, stack slots, vector registers and flags at one instruction."""

    __slots__ = ("ages", "flags", "last_base", "registers", "slots", "stored", "vectors")

    def __init__(self) -> None:
        self.registers: dict[str, Known] = {}
        self.slots: dict[int, tuple[Value, int]] = {}
        """Value and size of each slot, by its distance from the canonical frame address."""
        self.vectors: dict[str, tuple[Value, Value]] = {}
        """The two halves of the lowest 16 bytes."""
        self.flags: Flags = None
        self.ages: dict[Region, object] = dict.fromkeys(REGIONS, 0)
        """The last store to each part of memory, or the last call."""
        self.stored: dict[tuple[Known, int], tuple[int, object]] = {}
        """Size and age of the stores to known places since the last call, by base and distance."""
        self.last_base: tuple[Known, object] | None = None
        """The pointer of the last store by a pointer, and the age of its other targets: they keep
        their contents, while the targets of other pointers may have changed."""

    def copy(self) -> State:
        """Return a copy."""
        made = State()
        made.registers = dict(self.registers)
        made.slots = dict(self.slots)
        made.vectors = dict(self.vectors)
        made.flags = self.flags
        made.ages = dict(self.ages)
        made.stored = dict(self.stored)
        made.last_base = self.last_base
        return made

    def equals(self, other: State) -> bool:
        """Return whether all is the same."""
        return all(getattr(self, each) == getattr(other, each) for each in self.__slots__)

    @property
    def sp(self) -> int | None:
        """Distance of the stack pointer from the canonical frame address."""
        found = self.registers.get("rsp")
        return found[1] if found is not None and found[0] == "cfa" else None

    def age_of(self, address: Known, size_bytes: int) -> object:
        """Return the age of the bytes at an address."""
        region = region_of(address)
        base, begin = place_of(address)
        age = self.ages[region]
        if region == "other" and self.last_base is not None and self.last_base[0] == base:
            age = self.last_base[1]
        if not self.stored:
            return age
        if region != "other" and base not in (_FRAME, _IMAGE):
            # An element of an array, which may be any of those stored to.
            own = _FRAME if region == "frame" else _IMAGE
            stores = [item for item in self.stored.items() if item[0][0] == own]
        else:
            stores = [
                ((other, at), (size, stored))
                for (other, at), (size, stored) in self.stored.items()
                if other == base and at < begin + size_bytes and begin < at + size
            ]
        # Only the hash, as ages would contain each other in pointers that stores have changed.
        return hash((age, frozenset(stores))) if stores else age

    def note_store(self, address: Value, size_bytes: int, now: int, *, is_seen: bool) -> None:
        """Note that memory may have changed at an address, or anywhere if that is None.

        :param is_seen: pointers may lead to the frame.
        """
        region = region_of(address) if address is not None else "other"
        base, begin = place_of(address) if address is not None else (("nowhere",), 0)
        if region == "other":
            if self.last_base is None or self.last_base[0] != base:
                self.last_base = (base, self.ages["other"]) if address is not None else None
            self.ages["image"] = now
            if is_seen:
                self.ages["frame"] = now
        elif region == "image" or is_seen:
            self.last_base = None
        if region != "frame" or is_seen:
            self.ages["other"] = now
        if region == "other" or base in (_FRAME, _IMAGE):
            self.stored[base, begin] = (size_bytes, now)
        else:
            self.ages[region] = now

    def note_call(self, now: int) -> None:
        """Note that all memory may have changed."""
        self.ages = dict.fromkeys(REGIONS, now)
        self.stored.clear()
        self.last_base = None


def entry_state() -> State:
    """Return the state at the first instruction of a function."""
    state = State()
    for name in (*ARGUMENTS, *SAVED, *VOLATILE):
        state.registers[name] = ("entry", name)
    state.registers["rsp"] = ("cfa", -8)
    for number in range(_MOST_STACKED):
        state.slots[8 * number] = (("stacked", number), 8)
    return state


Joins = dict[Known, tuple[tuple[int, Value], ...]]
"""The values of symbols that were made at joins: each with the instruction before the join."""


def meet(
    states: Sequence[State],
    where: int,
    *,
    keeps_symbols: bool,
    sources: Sequence[int] = (),
    joins: Joins | None = None,
) -> State:
    """Return the knowledge that all *states* share, at the instruction *where* they join.

    With *keeps_symbols*, locations that agree with each other in every state get one symbol.

    :param sources: the instruction before the join, for each state.
    :param joins: where to note the values of symbols.
    """
    found = states[0].copy()
    if len(states) == 1:
        return found
    for region in REGIONS:
        if any(each.ages[region] != found.ages[region] for each in states):
            found.ages[region] = ("join", where)
    if any(each.stored != found.stored for each in states):
        for at in {at for each in states for at in each.stored}:
            held = [each.stored.get(at) for each in states]
            if any(each != held[0] for each in held):
                largest = max(each[0] for each in held if each is not None)
                found.stored[at] = (largest, ("join", where))
    if any(each.flags != found.flags for each in states):
        found.flags = None
    if any(each.last_base != found.last_base for each in states):
        found.last_base = None
        found.ages["other"] = ("join", where)
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
    for values, places in groups.items():
        symbol = ("some", "join", where, str(min(map(str, places))))
        if joins is not None:
            joins[symbol] = tuple(zip(sources, values, strict=True))
        for kind, key in places:
            if kind == "registers":
                found.registers[key] = symbol
            else:
                found.slots[key] = (symbol, found.slots[key][1])
    return found
