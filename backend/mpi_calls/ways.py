"""The ways through a function: its blocks, the conditions of its branches, and its dominators."""

from __future__ import annotations

from functools import cached_property

from pgdb.backend.mpi_calls.values import Flags, Joins, Value


class Branch:
    """The end of a block that goes on at one of several places."""

    __slots__ = ("condition", "flags", "other", "taken", "target")

    def __init__(
        self, taken: int, other: int, condition: str = "", flags: Flags = None, target: Value = None
    ) -> None:
        self.taken = taken
        """The block behind a jump that is taken."""
        self.other = other
        self.condition = condition
        self.flags = flags
        self.target = target
        """The address that an indirect jump goes to."""


class Ways:
    """The blocks of one function; a block is named by its first instruction."""

    def __init__(
        self,
        start: int,
        following: dict[int, tuple[int, ...]],
        last: dict[int, int],
        branches: dict[int, Branch],
        joins: Joins,
        jumps: dict[int, int],
    ) -> None:
        self.start = start
        self.following = {
            block: tuple(each for each in nexts if each in following)
            for block, nexts in following.items()
        }
        self.last = last
        """The last instruction of each block."""
        self.branches = branches
        """The branches by the instructions that end their blocks."""
        self.joins = joins
        self.jumps = jumps
        """The block of each jump."""

    @cached_property
    def _before(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for block, nexts in self.following.items():
            for each in nexts:
                found.setdefault(each, []).append(block)
        return found

    @cached_property
    def _dominators(self) -> dict[int, int]:
        """The block that every way to a block passes last before it (Cooper, Harvey, Kennedy)."""
        order: list[int] = []
        seen = {self.start}
        stack = [(self.start, iter(self.following.get(self.start, ())))]
        while stack:
            block, rest = stack[-1]
            following = next((each for each in rest if each not in seen), None)
            if following is None:
                order.append(block)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(self.following[following])))
        number = {block: at for at, block in enumerate(order)}
        found = {self.start: self.start}
        is_changed = True
        while is_changed:
            is_changed = False
            for block in reversed(order[:-1]):
                new = None
                for other in self._before.get(block, ()):
                    if other not in found:
                        continue
                    if new is None:
                        new = other
                        continue
                    a, b = other, new
                    while a != b:
                        if number[a] < number[b]:
                            a = found[a]
                        else:
                            b = found[b]
                    new = a
                if new is not None and found.get(block) != new:
                    found[block] = new
                    is_changed = True
        return found

    def decided_from(self, block: int) -> int | None:
        """Return the block whose branch, with those behind it, decides how *block* is entered.

        None for the head of a loop: the last round is not known.
        """
        if block == self.start or block not in self._dominators:
            return None
        origin = self._dominators[block]
        work = list(self.following[block])
        seen = set()
        while work:
            at = work.pop()
            if at == block:
                return None
            if at in seen or at == origin:
                continue
            seen.add(at)
            work += self.following[at]
        return origin
