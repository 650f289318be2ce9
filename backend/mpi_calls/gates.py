"""The way of one execution of a function, as far as its conditions can still be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pgdb.backend.mpi_calls.values import Flags, Known, Value
from pgdb.backend.mpi_calls.ways import Ways

Evaluate = Callable[[Value], int | None]
Holds = Callable[[str, Flags], bool | None]


class Gates:
    """Finder of the edges of the control flow that an execution can have taken last."""

    def __init__(self, ways: Ways, evaluate: Evaluate, holds: Holds, bias: int) -> None:
        self._ways = ways
        self._evaluate = evaluate
        self._holds = holds
        self._bias = bias
        self._entered: dict[int, frozenset[int] | None] = {}

    def joined(self, symbol: Known, where: int) -> int | None:
        """Return the value of a symbol that was made where ways join at *where*."""
        entered = self._entrances(where)
        found = None
        for source, value in self._ways.joins.get(symbol, ()):
            if entered is not None and source not in entered:
                continue
            number = self._evaluate(value)
            if number is None or (found is not None and found != number):
                return None
            found = number
        return found

    def can_reach(self, jump: int) -> bool:
        """Return whether an execution can have come to a jump from the function's start."""
        ways = self._ways
        return jump not in ways.jumps or ways.jumps[jump] in self._walk(ways.start, ())

    def _entrances(self, where: int) -> frozenset[int] | None:
        """Return the instructions from which the block *where* can have been entered last; None if
        nothing is known of that."""
        if where in self._entered:
            return self._entered[where]
        # The conditions may depend on the symbol in question.
        self._entered[where] = None
        origin = self._ways.decided_from(where)
        if origin is None:
            return None
        ways = self._ways
        passed = self._walk(origin, (where,))
        found = frozenset(ways.last[block] for block in passed if where in self._following(block))
        self._entered[where] = found
        return found

    def _walk(self, origin: int, ends: Iterable[int]) -> set[int]:
        """Return the blocks that can have been passed from *origin* to any of *ends*."""
        seen: set[int] = set()
        work = [origin]
        while work:
            block = work.pop()
            if block in seen:
                continue
            seen.add(block)
            work += [each for each in self._following(block) if each not in ends]
        return seen

    def _following(self, block: int) -> tuple[int, ...]:
        ways = self._ways
        nexts = ways.following[block]
        branch = ways.branches.get(ways.last[block])
        if branch is None or len(nexts) < 2:
            return nexts
        if branch.condition:
            holds = self._holds(branch.condition, branch.flags)
            if holds is None:
                return nexts
            chosen = branch.taken if holds else branch.other
            return (chosen,) if chosen in nexts else nexts
        target = self._evaluate(branch.target)
        if target is None or target - self._bias not in nexts:
            return nexts
        return (target - self._bias,)
