"""Random expressions in C and C++ with fixed values, which the compiler cannot know."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

COMMUNICATORS = {"world": (0, 1, 2, 3), "sub": (3, 1, 0), "turned": (3, 2, 1, 0), "twin": (3, 1, 0)}
"""Communicators of a program, and the world ranks of their members; all have rank 1."""
TYPES = {"MPI_INT": "int", "MPI_DOUBLE": "double", "MPI_CHAR": "char"}
INPUTS = 64
_HIGHEST = 60
"""Highest value of a variable; results of expressions may be larger."""


@dataclass
class Scope:
    """The function that has the call: its variables, and the text that makes them."""

    parameters: list[tuple[str, str, str]] = field(default_factory=list)
    """Type, name, and the text that the caller passes."""
    before: list[str] = field(default_factory=list)
    """Statements before the call."""
    outside: list[str] = field(default_factory=list)
    """Statements of the caller, before it calls the function."""
    exact: dict[int, list[str]] = field(default_factory=dict)
    """Expressions by their values."""


class Expressions:
    """Writer of expressions, and of the variables that they need."""

    def __init__(self, random: Random, *, is_cpp: bool = False) -> None:
        self._random = random
        self._is_cpp = is_cpp
        self._count = 0
        self._globals: list[str] = []

    def expression(self, scope: Scope, value: int, depth: int) -> str:
        """Return an expression with this value, of type int."""
        random = self._random
        if depth <= 0 or not 0 <= value <= 100_000 or random.random() < 0.15:
            return self._leaf(scope, value)

        def part(number: int) -> str:
            return self.expression(scope, number, depth - 1)

        match random.randrange(16):
            case 0 | 1 | 2 | 3:
                other = part(random.randrange(_HIGHEST))
                if random.random() < 0.5:
                    return f"({self._condition(scope, True, depth - 1)} ? {part(value)} : {other})"
                return f"({self._condition(scope, False, depth - 1)} ? {other} : {part(value)})"
            case 4 | 5:
                less = random.randrange(0, value + 1)
                return f"({part(less)} + {part(value - less)})"
            case 6:
                more = random.randrange(0, 40)
                return f"({part(value + more)} - {part(more)})"
            case 7:
                by = random.choice([2, 3, 4, 5, 7, 8, 10])
                return f"({part(value // by)} * {by} + {value % by})"
            case 8:
                by = random.choice([2, 3, 4, 5, 7, 8, 16])
                return f"({part(value * by + random.randrange(by))} / {by})"
            case 9:
                by = value + random.randrange(1, 20)
                return f"({part(value + by * random.randrange(3))} % {part(by)})"
            case 10:
                mask = (1 << max(1, value.bit_length())) - 1
                high = random.randrange(4) << value.bit_length()
                return f"({part(value | high)} & {mask if value else 0})"
            case 11:
                other_value = random.randrange(32)
                return f"({part(value ^ other_value)} ^ {part(other_value)})"
            case 12:
                larger = value + random.randrange(20)
                if random.random() < 0.5 and self._is_cpp:
                    return f"std::min<int>(+{part(value)}, +{part(larger)})"
                return f"least({part(larger)}, {part(value)})"
            case 13 if value:
                is_true = random.random() < 0.5
                condition = self._condition(scope, is_true, depth - 1)
                return f"({part(value - is_true)} + ({condition}))"
            case 14:
                return f"abs({part(3)} - {part(3 + value)})"
            case _:
                by = random.randrange(1, 3)
                return f"({part(value << by | random.randrange(1 << by))} >> {by})"

    def _condition(self, scope: Scope, is_true: bool, depth: int) -> str:
        random = self._random
        low = random.randrange(0, 30)
        high = low + random.randrange(1, 20)

        def part(number: int) -> str:
            return self.expression(scope, number, depth - 1)

        match random.randrange(9):
            case 0:
                text, holds = f"rank == {1 if is_true else random.choice([0, 2, 3])}", is_true
            case 1:
                text, holds = f"{part(low)} < {part(high)}", True
            case 2:
                text, holds = f"{part(low)} == {part(high)}", False
            case 3:
                text, holds = f"(unsigned){part(low)} >= (unsigned){part(high)}", False
            case 4:
                odd = random.random() < 0.5
                text, holds = f"{part(2 * low + odd)} & 1", odd
            case 5:
                text, holds = f"{part(low)} <= {high}", True
            case 6:
                text, holds = f"{part(random.choice([0, 3]))} && rank", False
                text = f"{part(3)} && rank" if is_true else text.replace("rank", "rank > 1")
                holds = is_true
            case 7:
                text, holds = f"{part(low)} > {high} || rank == 2", False
            case _:
                text, holds = f"rank {'!=' if is_true else '=='} {part(0)}", is_true
        return f"({text})" if holds == is_true else f"!({text})"

    def _leaf(self, scope: Scope, value: int) -> str:
        random = self._random
        known = scope.exact.get(value)
        if known and random.random() < 0.5:
            return random.choice(known)
        if not 0 <= value < INPUTS or random.random() < 0.15:
            return str(value)
        self._count += 1
        name = f"v{self._count}"
        given = f"in[{value}]"
        match random.randrange(14):
            case 0 | 1 | 2:
                scope.parameters.append(("int", name, given))
                found = name
            case 3 | 4:
                scope.before.append(f"int {name} = {given};")
                found = name
            case 5:
                self._globals.append(f"static int {name};")
                scope.outside.append(f"{name} = {given};")
                found = name
            case 6:
                found = self._member(scope, name, given)
            case 7:
                index = random.randrange(6)
                self._globals.append(f"static int {name}[8];")
                scope.outside.append(f"{name}[in[{index}]] = {given};")
                found = f"{name}[{random.choice([f'in[{index}]', str(index)])}]"
            case 8:
                scope.before.append(f"int {name} = identity({given});")
                found = name
            case 9:
                return f"identity({given})"
            case 10:
                kind = random.choice(["short", "unsigned char", "long", "signed char", "unsigned"])
                scope.parameters.append((kind, name, given))
                found = f"(int){name}"
            case 11:
                self._globals.append(f"static {random.choice(['short', 'char'])} {name};")
                scope.outside.append(f"{name} = {given};")
                found = name
            case 12:
                scope.before.append(f"volatile int {name} = {given};")
                return name
            case _:
                scope.parameters.append(("const int *", name, f"&{name}_there"))
                self._globals.append(f"static int {name}_there;")
                scope.outside.append(f"{name}_there = {given};")
                found = f"*{name}"
        scope.exact.setdefault(value, []).append(found)
        return found

    def _member(self, scope: Scope, name: str, given: str) -> str:
        self._globals.append(f"static struct part {name}_part;")
        table = self._random.choice(["a", "s", "l"])
        index = self._random.randrange(4)
        scope.outside.append(f"{name}_part.{table}[{index}] = {given};")
        scope.parameters.append(("struct part *", name, f"&{name}_part"))
        return f"(int){name}->{table}[{index}]" if table == "l" else f"{name}->{table}[{index}]"

    def communicator(self, scope: Scope, name: str) -> str:
        random = self._random
        number = list(COMMUNICATORS).index(name)
        match random.randrange(6):
            case 0 | 1:
                return name
            case 2:
                return f"comms[{self.expression(scope, number, 1)}]"
            case 3:
                self._count += 1
                scope.parameters.append(("MPI_Comm", f"c{self._count}", name))
                return f"c{self._count}"
            case 4:
                other = random.choice(list(COMMUNICATORS))
                return f"({self._condition(scope, True, 1)} ? {name} : {other})"
            case _:
                self._count += 1
                self._globals.append(f"static struct part c{self._count}_part;")
                scope.outside.append(f"c{self._count}_part.comm = {name};")
                scope.parameters.append(
                    ("struct part *", f"c{self._count}", f"&c{self._count}_part")
                )
                return f"c{self._count}->comm"

    def datatype(self, scope: Scope, name: str) -> str:
        if self._random.random() < 0.7:
            return name
        return f"types[{self.expression(scope, list(TYPES).index(name), 1)}]"
