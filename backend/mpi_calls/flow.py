"""Data flow through one function of x86-64, from its first instruction to the active call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from pgdb.backend.mpi_calls.effects import Effects
from pgdb.backend.mpi_calls.instructions import Instruction
from pgdb.backend.mpi_calls.values import Joins, Known, State, entry_state, meet
from pgdb.backend.mpi_calls.ways import Branch, Ways

MOST_INSTRUCTIONS = 12000
_MOST_ROUNDS = 60
_TABLE_DISTANCE = 1 << 16
_MOST_CASES = 256
_LOOKED_BACK = 16


class HasCode(Protocol):
    """An object file with code."""

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return bytes, fewer where there are none."""

    def instruction(self, address: int) -> Instruction | None:
        """Return the instruction at an address."""

    def function(self, address: int) -> tuple[int, int] | None:
        """Return the start and the end of the function with an address, None if no table has it."""


IsFinal = Callable[[int], bool]
"""Function that returns whether a call of this target never returns."""


class Reached(msgspec.Struct, frozen=True):
    """The state at the active call of a function."""

    state: State
    call: Instruction | None
    """The call instruction; None if the target was another instruction."""
    ways: Ways | None = None
    """The ways through the function, of a caller."""
    definitions: tuple[Known, ...] = ()
    """The values that are named by their numbers."""


class Flow:
    """The instructions of a function that can be reached, and the flow of values through them."""

    def __init__(self, code: HasCode, is_final: IsFinal, *, is_caller: bool) -> None:
        self._code = code
        self._function = code.function
        self._is_final = is_final
        self._is_caller = is_caller
        self._insns: dict[int, Instruction] = {}
        self._following: dict[int, list[int]] = {}
        self._ways: Ways | None = None
        self.has_indirect = False
        """Whether there is a jump whose targets are unknown."""

    def state_at(self, start: int, target: int, *, is_return: bool) -> Reached | None:
        """Return the state before an instruction of the function that begins at *start*.

        :param is_return: *target* is the address to which the call in question returns.
        """
        where = self._explore(start, target, is_return=is_return)
        if where is None:
            return None
        effects = Effects(is_caller=self._is_caller)
        state: State | None = None
        escaped = -1
        # An address that is passed on late in a loop matters for the calls before, too.
        while len(effects.escaped) != escaped:
            escaped = len(effects.escaped)
            state = self._settle(effects, start, where)
        if state is None:
            return None
        # A slot whose address the call got may have changed since.
        for at in effects.escaped:
            state.slots.pop(at, None)
        insn = self._insns[where]
        definitions = tuple(effects.definitions)
        return Reached(state, insn if insn.is_call else None, self._ways, definitions)

    def instructions(self, start: int) -> tuple[dict[int, Instruction], dict[int, list[int]]]:
        """Return all instructions that can be reached from *start*, and those that follow each."""
        self._explore(start, -1, is_return=False)
        return self._insns, self._following

    # -- reachable instructions ----------------------------------------------------------------

    def _explore(self, start: int, target: int, *, is_return: bool) -> int | None:
        """Find all instructions; return the address of the one in question."""
        work = [start]
        where = None
        while work:
            at = work.pop()
            while at not in self._insns:
                insn = self._code.instruction(at)
                if insn is None:
                    break
                if len(self._insns) >= MOST_INSTRUCTIONS:
                    return None
                self._insns[at] = insn
                if is_return and insn.is_call and insn.next == target:
                    where = at
                following = self._following[at] = self._successors(insn)
                if len(following) != 1:
                    work += following
                    break
                at = following[0]
        if not is_return and target in self._insns:
            return target
        return where

    def _successors(self, insn: Instruction) -> list[int]:
        if insn.is_call:
            is_end = not self._is_inside(insn.address, insn.next)
            if is_end or (insn.target is not None and self._is_final(insn.target)):
                return []
            return [insn.next]
        if insn.is_jump:
            if insn.target is None:
                cases = self._cases(insn)
                self.has_indirect |= not cases
                return cases
            return [insn.target] if not insn.is_branch else [insn.next, insn.target]
        return [] if insn.is_return else [insn.next]

    def _is_inside(self, one: int, other: int) -> bool:
        """Return whether two addresses are in one function, as far as tables say it."""
        found = self._function(one)
        return found is None or found[0] <= other < found[1]

    def _cases(self, jump: Instruction) -> list[int]:
        """Return the targets of a switch: ``lea table(%rip)`` … ``jmp *%reg``, entries relative to
        the table, their number from the ``cmp`` before ``ja``."""
        found = self._function(jump.address)
        if found is None:
            return []
        before: list[Instruction] = []
        at = jump.address
        for _ in range(_LOOKED_BACK):
            insn = next((e for e in self._insns.values() if e.next == at), None)
            if insn is None:
                break
            before.append(insn)
            at = insn.address
        table = None
        count = _MOST_CASES
        for place, insn in enumerate(before):
            operands = insn.operands
            if table is None and insn.mnemonic == "lea" and operands[1].base == "rip":
                table = insn.next + operands[1].disp
            if insn.mnemonic == "cmp" and operands[1].kind == "imm":
                if any(each.mnemonic == "ja" for each in before[max(place - 3, 0) : place]):
                    count = min(_MOST_CASES, operands[1].imm + 1)
                    break
        if table is None:
            return []
        targets = set()
        for number in range(count):
            entry = self._code.read(table + 4 * number, 4)
            target = table + int.from_bytes(entry, "little", signed=True)
            is_near = len(entry) == 4 and abs(target - jump.address) < _TABLE_DISTANCE
            if not is_near or not self._is_inside(jump.address, target):
                break
            targets.add(target)
        return sorted(targets)

    # -- the fixed point -----------------------------------------------------------------------

    def _settle(self, effects: Effects, start: int, where: int) -> State | None:
        before: dict[int, list[int]] = {}
        for at, following in self._following.items():
            for each in set(following):
                before.setdefault(each, []).append(at)
        heads = [
            at
            for at in self._insns
            if at == start
            or len(before.get(at, ())) != 1
            or len(self._following.get(before[at][0], ())) != 1
        ]
        blocks = set(heads)
        heads = self._in_order(start, heads)
        previous = {insn.next: at for at, insn in self._insns.items()}
        ends: dict[int, State] = {}
        found: State | None = None
        joins: Joins = {}
        dirty = {start}
        for _ in range(_MOST_ROUNDS):
            if not dirty:
                if self._is_caller:
                    self._ways = self._ways_of(effects, start, heads, ends, joins)
                return found
            for head in heads:
                if head not in dirty:
                    continue
                dirty.discard(head)
                sources = [at for at in before.get(head, ()) if at in ends]
                states = [
                    self._over_edge(ends[at], self._insns[at], head, previous) for at in sources
                ]
                if head == start:
                    states.insert(0, entry_state())
                    sources.insert(0, -1)
                if not states:
                    continue
                state = meet(
                    states, head, keeps_symbols=self._is_caller, sources=sources, joins=joins
                )
                at = head
                while True:
                    insn = self._insns[at]
                    if at == where:
                        found = state.copy()
                    if not (insn.is_jump or insn.is_return):
                        effects.apply(state, insn)
                    following = self._following[at]
                    if len(following) == 1 and following[0] in self._insns:
                        if following[0] not in blocks:
                            at = following[0]
                            continue
                    old = ends.get(at)
                    if old is None or not old.equals(state):
                        ends[at] = state
                        dirty.update(each for each in following if each in blocks)
                    break
        # Values that have not settled are not known.
        return None

    def _in_order(self, start: int, heads: list[int]) -> list[int]:
        """Return blocks so that each comes behind those before it, except in loops."""
        own = set(heads)
        found: list[int] = []
        seen = {start}
        stack = [(start, iter(self._next_blocks(start, own)))]
        while stack:
            block, rest = stack[-1]
            following = next((each for each in rest if each not in seen), None)
            if following is None:
                found.append(block)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(self._next_blocks(following, own))))
        return found[::-1]

    def _next_blocks(self, head: int, own: set[int]) -> list[int]:
        at = head
        while True:
            following = self._following.get(at, [])
            if len(following) != 1 or following[0] in own or following[0] not in self._insns:
                return [each for each in following if each in own]
            at = following[0]

    def _ways_of(
        self,
        effects: Effects,
        start: int,
        heads: list[int],
        ends: dict[int, State],
        joins: Joins,
    ) -> Ways:
        """Return the ways through the function, with the conditions of its branches."""
        own = set(heads)
        last: dict[int, int] = {}
        jumps: dict[int, int] = {}
        for head in heads:
            at = head
            while True:
                if self._insns[at].is_jump:
                    jumps[at] = head
                following = self._following[at]
                if len(following) != 1 or following[0] in own or following[0] not in self._insns:
                    break
                at = following[0]
            last[head] = at
        branches: dict[int, Branch] = {}
        for at in last.values():
            insn, state = self._insns[at], ends.get(at)
            if state is None or not insn.is_jump:
                continue
            if insn.is_branch and insn.target is not None:
                branches[at] = Branch(insn.target, insn.next, insn.mnemonic[1:], state.flags)
            elif insn.target is None:
                value = effects.get(state, insn, insn.operands[0])
                branches[at] = Branch(0, 0, target=value)
        nexts = {head: tuple(self._following[at]) for head, at in last.items()}
        return Ways(start, nexts, last, branches, joins, jumps)

    def _over_edge(
        self, state: State, insn: Instruction, to: int, previous: dict[int, int]
    ) -> State:
        """Return the state behind a jump: a loop that probes the stack ends with the stack pointer
        equal to its limit."""
        if insn.mnemonic != "jne" or to != insn.next:
            return state
        compared = self._insns.get(previous.get(insn.address, -1))
        if compared is None or compared.mnemonic != "cmp":
            return state
        names = [each.reg for each in compared.operands]
        if "rsp" not in names:
            return state
        limit = state.registers.get(names[1 - names.index("rsp")])
        if limit is None or limit[0] != "cfa":
            return state
        found = state.copy()
        found.registers["rsp"] = limit
        return found
