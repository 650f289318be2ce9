"""The call of MPI that is active in a stack: its function, and its arguments by data flow.

The flow through the caller's code and through the code of the MPI function depends on the object
file and two addresses alone. So it is computed once for all ranks of an aggregator, and kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pgdb.backend.mpi_calls.flow import Flow, Reached
from pgdb.backend.mpi_calls.frames import Evaluator, MachineFrame, held_arguments
from pgdb.backend.mpi_calls.instructions import ARGUMENTS, SAVED, Instruction
from pgdb.backend.mpi_calls.memory import Image, Images, Memory
from pgdb.backend.mpi_calls.tails import Raw, Reader, Tails
from pgdb.backend.mpi_calls.values import Known, State
from pgdb.mpi_functions import CalledName, called_name

_MOST_KEPT = 4096
_MOST_OUTER = 4
_FINAL = frozenset(
    "__assert_fail __GI___assert_fail __assert_perror_fail abort __stack_chk_fail exit _exit _Exit"
    " quick_exit __cxa_throw __cxa_rethrow __cxa_bad_cast _Unwind_Resume __longjmp_chk longjmp"
    " siglongjmp pthread_exit _gfortran_os_error _gfortran_runtime_error _gfortran_os_error_at"
    " _gfortran_runtime_error_at _gfortran_stop_string _gfortran_stop_numeric"
    " _gfortran_error_stop_string _gfortran_error_stop_numeric __fortify_fail __chk_fail"
    " _ZSt9terminatev".split()
)
_FINAL_BEGIN = ("_ZSt16__throw", "_ZSt17__throw", "_ZSt18__throw", "_ZSt19__throw", "_ZSt20__throw")
_STATES: dict[tuple[object, ...], tuple[Reached | None, bool]] = {}
"""States at active calls, and whether a jump with unknown targets was on the way."""


class Called(msgspec.Struct, frozen=True):
    """The active call of MPI in a stack."""

    name: CalledName
    address: int
    """Address of the function in the process."""
    level: int
    """Index of the caller's frame."""
    tails: tuple[tuple[int, int], ...] = ()
    """Tail calls between the caller and the function: the addresses in the process of functions,
    and of the jumps by which they were left."""
    is_sure: bool = True
    """Whether no other function can have changed the arguments on the way."""


class CallSites:
    """Calls in one stack of a stopped process; innermost frame first."""

    def __init__(self, memory: Memory, images: Images, frames: Sequence[MachineFrame]) -> None:
        self._memory = memory
        self._images = images
        self._frames = frames
        self._tails = Tails(self, memory, images, frames)

    # -- the called function -------------------------------------------------------------------

    def called(self, level: int) -> Called | None:
        """Return the function of MPI that the frame *level* has called, None if it is unknown."""
        target = self.target(level)
        inner = self._inner_start(level)
        is_sure = target is not None
        if target is None:
            # The frame inside is of the function that was called, or of one that this has left for.
            target = inner
        if target is None:
            return None
        name = self.mpi_name(target)
        if name is not None:
            return Called(name, target, level, is_sure=is_sure)
        reader = self.caller_arguments(level)
        found = self._tails.find(
            target, level, reader, lambda at: self.mpi_name(at) is not None, inner
        )
        name = self.mpi_name(found.target) if found is not None else None
        if name is None or found is None:
            return None
        return Called(name, found.target, level, found.tails, is_sure and found.is_sure)

    def _inner_start(self, level: int) -> int | None:
        """Return the start of the function of the frame that *level* has called."""
        inner = next((at for at in range(level - 1, -1, -1) if not self.is_tail_frame(at)), None)
        return None if inner is None else self._start(inner)

    def mpi_name(self, address: int) -> CalledName | None:
        """Return the function of MPI at an address of the process."""
        image = self._images.at(address)
        if image is None:
            return None
        names = [called_name(each) for each in image.functions.get(address - image.bias, ())]
        found = [each for each in names if each is not None]
        if not found or len({each.function for each in found}) > 1:
            return None
        return found[0]

    def target(self, level: int) -> int | None:
        """Return the address in the process of the function that a frame has called."""
        frame = self._frames[level]
        image, insn = self._call_of(frame)
        if image is None or insn is None or not insn.is_call:
            return None
        operand = insn.operands[0]
        if operand.kind == "imm":
            return self.behind_plt(operand.imm + image.bias)
        if operand.kind == "mem" and operand.base == "rip":
            return self._memory.word(insn.next + operand.disp + image.bias)
        reached = self.caller_state(level)
        if reached is None:
            return None
        from pgdb.backend.mpi_calls.effects import Effects

        value = Effects(is_caller=True).get(reached.state, insn, operand)
        evaluator = self._evaluator(level, reached, 0)
        return evaluator.value(value) if evaluator is not None else None

    def is_tail_frame(self, level: int) -> bool:
        """Return whether a frame is one that the debugger has inferred from a tail call: its code
        ends in a jump there, not in a call. The innermost frame stands anywhere."""
        if not level:
            return False
        _, insn = self._call_of(self._frames[level])
        return insn is not None and not insn.is_call

    def _call_of(self, frame: MachineFrame) -> tuple[Image | None, Instruction | None]:
        image = self._images.at(frame.pc - 1)
        if image is None:
            return None, None
        at = frame.pc - image.bias
        function = image.function(at - 1)
        if function is None:
            return image, None
        return image, _before(image, at, function[0])

    def behind_plt(self, address: int) -> int:
        """Return the function that an entry of a procedure linkage table jumps to."""
        for _ in range(4):
            image = self._images.at(address)
            if image is None:
                return address
            slot = self.slot(image, address - image.bias)
            if slot is None:
                return address
            target = self._memory.word(slot + image.bias)
            if target is None or self._images.at(target) is image:
                # The linker has not resolved it yet.
                return address
            address = target
        return address

    def slot(self, image: Image, at: int) -> int | None:
        """Return the address of the word that a stub at *at* jumps through, None if it is none."""
        insn = image.instruction(at)
        if insn is not None and insn.mnemonic == "endbr64":
            insn = image.instruction(insn.next)
        if insn is None or insn.mnemonic != "jmp":
            return None
        operand = insn.operands[0]
        if operand.kind != "mem" or operand.base != "rip":
            return None
        return insn.next + operand.disp

    # -- states at active calls ----------------------------------------------------------------

    def state(
        self, image: Image, start: int, target: int, *, is_return: bool, is_caller: bool
    ) -> tuple[Reached | None, bool]:
        """Return the state of a function at an instruction or a call, and whether a jump with
        unknown targets was on the way."""
        key = (image.key, start, target, is_return, is_caller)
        if key in _STATES:
            return _STATES[key]

        flow = self.flow(image, is_caller=is_caller)
        reached = flow.state_at(start, target, is_return=is_return)
        while len(_STATES) >= _MOST_KEPT:
            del _STATES[next(iter(_STATES))]
        found = _STATES[key] = (reached, flow.has_indirect)
        return found

    def flow(self, image: Image, *, is_caller: bool) -> Flow:
        """Return a flow through a function of an object file."""

        def is_final(at: int) -> bool:
            slot = self.slot(image, at)
            names = (
                image.functions.get(at, ())
                if slot is None
                else (image.imports.get(slot, "").partition("@")[0],)
            )
            return any(each in _FINAL or each.startswith(_FINAL_BEGIN) for each in names)

        return Flow(image, is_final, is_caller=is_caller)

    def caller_state(self, level: int) -> Reached | None:
        """Return the state of the frame *level* at its active call."""
        frame = self._frames[level]
        image = self._images.at(frame.pc - 1)
        if image is None:
            return None
        at = frame.pc - image.bias
        function = image.function(at - 1)
        if function is None:
            return None
        return self.state(image, function[0], at, is_return=True, is_caller=True)[0]

    def _cfa(self, level: int, state: State) -> int | None:
        """Return the canonical frame address, None where the flow contradicts the debugger."""
        frame = self._frames[level]
        sp = frame.registers.get("rsp")
        if frame.cfa is not None:
            if state.sp is not None and sp is not None and frame.cfa + state.sp != sp:
                return None
            return frame.cfa
        return sp - state.sp if sp is not None and state.sp is not None else None

    def _evaluator(self, level: int, reached: Reached, depth: int) -> Evaluator | None:
        frame = self._frames[level]
        image = self._images.at(frame.pc - 1)
        cfa = self._cfa(level, reached.state)
        if image is None or (cfa is None and frame.cfa is not None):
            return None
        return Evaluator(
            self._memory,
            frame,
            reached,
            bias=image.bias,
            cfa=cfa,
            entry=lambda value: self._entry(level, value, depth),
        )

    def _entry(self, level: int, value: Known, depth: int) -> int | None:
        """Return what a register held when the function of a frame was entered."""
        _, name = value
        if level + 1 >= len(self._frames):
            return None
        if name in SAVED:
            return self._frames[level + 1].registers.get(name)
        if name not in ARGUMENTS or depth >= _MOST_OUTER:
            return None
        start = self._start(level)
        target = self.target(level + 1)
        if start is None or target is None:
            return None
        reader = self.caller_arguments(level + 1, depth + 1)
        if target != start:
            # The caller's function may have left for this one by a tail call.
            left = self._tails.find(target, level + 1, reader, lambda at: at == start, start)
            if left is None or not left.is_sure:
                return None
            for function, jump in left.tails:
                reader = self._tails.through(function, jump, level + 1, reader)
        found = reader(ARGUMENTS.index(name))
        return found.number if found is not None else None

    def _start(self, level: int) -> int | None:
        frame = self._frames[level]
        image = self._images.at(frame.pc - 1)
        function = image.function(frame.pc - 1 - image.bias) if image is not None else None
        return function[0] + image.bias if image is not None and function is not None else None

    # -- arguments -----------------------------------------------------------------------------

    def caller_arguments(self, level: int, depth: int = 0) -> Reader:
        """Return a reader of the arguments that the frame *level* gives to its active call."""
        reached = self.caller_state(level)
        if reached is None:
            return lambda number: None
        evaluator = self._evaluator(level, reached, depth)
        if evaluator is None:
            return lambda number: None
        sp = self._frames[level].registers.get("rsp")

        def argument(number: int) -> Raw | None:
            if number >= len(ARGUMENTS):
                if sp is None:
                    return None
                word = self._memory.word(sp + 8 * (number - len(ARGUMENTS)))
                return Raw(word) if word is not None else None
            found = evaluator.value(reached.state.registers.get(ARGUMENTS[number]))
            return None if found is None else Raw(found)

        return argument

    def call_arguments(self, called: Called) -> Reader:
        """Return a reader of the arguments of a call, from the caller's code."""
        if not called.is_sure:
            return lambda number: None
        reader = self.caller_arguments(called.level)
        for function, jump in called.tails:
            reader = self._tails.through(function, jump, called.level, reader)
        return reader

    def callee_arguments(self, address: int, level: int) -> Reader:
        """Return a reader of the arguments of the function at *address*, whose frame is *level*."""
        frame = self._frames[level]
        image = self._images.at(address)
        if image is None or self._images.at(frame.pc - 1) is not image:
            return lambda number: None
        at, start = frame.pc - image.bias, address - image.bias
        is_return = level > 0
        reached, has_indirect = self.state(image, start, at, is_return=is_return, is_caller=False)
        if reached is None and has_indirect and is_return:
            # The function may have left by an indirect jump for one with the same arguments.
            own = image.function(at - 1)
            if own is not None and own[0] != start:
                reached, _ = self.state(image, own[0], at, is_return=True, is_caller=False)
        if reached is None:
            return lambda number: None
        cfa = self._cfa(level, reached.state)
        if cfa is None and frame.cfa is not None and reached.state.sp is not None:
            return lambda number: None
        held = held_arguments(
            self._memory,
            frame,
            reached.state,
            cfa,
            is_innermost=level == 0,
            preserves=not image.is_of_intel,
        )

        def argument(number: int) -> Raw | None:
            key: Known = (
                ("entry", ARGUMENTS[number])
                if number < len(ARGUMENTS)
                else ("stacked", number - len(ARGUMENTS))
            )
            found = held.get(key)
            return Raw(*found) if found is not None else None

        return argument


def _before(image: Image, address: int, start: int) -> Instruction | None:
    """Return the instruction that ends at *address*, decoded from the function's *start*.

    To decode backwards is ambiguous: ``41 ff 57 08`` ends in ``ff 57 08``, a call as well.
    """
    at = start
    while at < address:
        found = image.instruction(at)
        if found is None:
            return None
        if found.next == address:
            return found
        at = found.next
    return None
