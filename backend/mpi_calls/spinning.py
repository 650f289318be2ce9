"""An emulation from the place of a stopped thread on, which looks for a state that comes again."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from pgdb.backend.mpi_calls.emulator import Emulator
from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.instructions import VOLATILE, Instruction, Operand
from pgdb.backend.mpi_calls.recorder import is_recorder
from pgdb.patterns import pattern

MOST_STEPS = 20_000
"""Most instructions that are run."""
SLEEPS = pattern(
    r"(?:__GI_+|__libc_|__)*(?:u?sleep|(?:clock_)?nanosleep|sched_yield)(?:64|_time64|@\S*)*\Z"
)
"""Functions that give up the processor for some time and do nothing else."""
_YIELD = "sched_yield"
_FLAGS = {"_carry": 0, "_zero": 6, "_sign": 7, "_overflow": 11}


class Spin(Emulator):
    """Run of a thread's code on a private copy of its memory.

    A register that is unknown ends the emulation where it is read. So do system calls and clocks,
    whose results differ each time.
    """

    def recurs(self, pc: int, registers: Mapping[str, int], most_steps: int = MOST_STEPS) -> bool:
        """Return whether the code from *pc* on comes to a state again that it had before.

        :raises EmulationError: if an instruction cannot be emulated.
        """
        self.registers = {name: value for name, value in registers.items() if name != "eflags"}
        flags = registers.get("eflags", 0)
        for name, bit in _FLAGS.items():
            setattr(self, name, bool(flags >> bit & 1))
        self._pc = pc
        seen = set()
        for _ in range(most_steps):
            before = self._pc
            self.steps += 1
            self._step()
            if self._pc <= before:
                state = self._state()
                if state in seen:
                    return True
                seen.add(state)
        return False

    def _step(self) -> None:
        if self._stubs.get(self._pc) != _YIELD:
            super()._step()
            return
        for name in VOLATILE:
            self.registers.pop(name, None)
        self.registers["rax"] = 0
        self._pc = self._pop()

    def _state(self) -> bytes:
        """Return a digest of the registers, the flags and the memory that was written."""
        digest = blake2b(digest_size=16)
        flags = (self._zero, self._sign, self._carry, self._overflow)
        vectors = sorted(self._vectors.items())
        digest.update(repr((self._pc, sorted(self.registers.items()), vectors, flags)).encode())
        for number in sorted(self._pages):
            digest.update(number.to_bytes(8, "little"))
            digest.update(self._pages[number])
        return digest.digest()

    def _get(self, insn: Instruction, operand: Operand) -> int:
        if operand.is_xmm and operand.reg not in self._vectors:
            raise EmulationError(f"{operand.reg} is unknown")
        if operand.segment and not self.thread_pointer:
            raise EmulationError("the thread pointer is unknown")
        return super()._get(insn, operand)

    def _put(self, insn: Instruction, operand: Operand, value: int) -> None:
        if operand.segment and not self.thread_pointer:
            raise EmulationError("the thread pointer is unknown")
        super()._put(insn, operand, value)

    def _move_half(self, insn: Instruction, *, is_high: bool) -> None:
        if insn.operands[0].is_xmm and insn.operands[0].reg not in self._vectors:
            raise EmulationError(f"{insn.operands[0].reg} is unknown")
        super()._move_half(insn, is_high=is_high)

    def _resolved(self, slot: int, target: int) -> int:
        image = self._images.at(slot)
        name = image.imports.get(slot - image.bias, "") if image is not None else ""
        if SLEEPS.match(name.partition("@")[0]):
            return self._stub(_YIELD)
        found = super()._resolved(slot, target)
        called = self._images.at(found)
        if called is None or not is_recorder(called.path):
            return found
        # The recorder counts the calls and reads the clock, so that no state comes again.
        inner = f"P{name.partition('@')[0]}"
        for each in self._images.all():
            if inner in each.symbols:
                return each.symbols[inner] + each.bias
        return found
