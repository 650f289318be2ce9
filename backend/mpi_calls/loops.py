"""Loops that a rank cannot leave by itself, found in its machine code and its memory.

The innermost frames of a rank outside MPI either return some day or they do not. Two proofs say
that they do not:

- No way out: no path through the code from the place of the rank leads to a return from one of its
  functions, to a call of MPI, or to a call that ends the rank.
- Spinning: the code is run on a private copy of the memory, and comes back to a state that it had
  before. So nothing that the rank does itself ends the loop, but another thread or process can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.flow import MOST_INSTRUCTIONS, Flow
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.backend.mpi_calls.instructions import Instruction
from pgdb.backend.mpi_calls.memory import Image, Images, Memory, Source
from pgdb.backend.mpi_calls.recorder import is_recorder
from pgdb.backend.mpi_calls.sites import CallSites
from pgdb.backend.mpi_calls.spinning import SLEEPS, Spin
from pgdb.mpi_calls import Loop
from pgdb.patterns import pattern

Owns = Callable[[str], Literal["user", "c", ""]]
"""Function that returns whose code an object file has: the user's, the C library's or another's."""
_Outcome = Literal["returns", "stays", "unknown"]
_MOST_FRAMES = 16
_MOST_DEPTH = 8
# They return, and call neither MPI nor a function of the user's.
_HARMLESS = pattern(
    r"(?:__GI_+|__libc_|__isoc\d+_|_IO_|__)?(?:"
    r"(?:mem|str|wmem)\w+|(?:v?(?:f|s|sn|d|as)?printf)|f?puts|f?put(?:c|char)(?:_unlocked)?|fflush"
    r"|fwrite|write|u?sleep|(?:clock_)?nanosleep|sched_yield|pause|p?poll|p?select|clock|times?"
    r"|gettimeofday|clock_gettime|getpid|getenv|s?rand(?:om)?(?:_r)?|[delmn]rand48(?:_r)?"
    r"|malloc|free|calloc|realloc|l?labs|abs|l?ldiv|div"
    r"|pthread_(?:mutex_(?:lock|unlock|trylock)|self|yield|spin_\w+|cond_(?:signal|broadcast))"
    r")(?:64|_time64|_nocancel|_chk|@\S*)*\Z"
)
_MATH = pattern(r"libm(?:vec)?[.-]")
_ENDS = frozenset("syscall sysenter int int3 hlt ud2 ud1 iretq".split())


def loop_of(
    source: Source, thread_pointer: int | None, frames: Sequence[MachineFrame], owns: Owns
) -> Loop:
    """Return the kind of loop in which a stopped thread is; empty if unknown.

    *frames* are those of the thread, the innermost first.
    """
    try:
        memory = Memory(source)
    except OSError:
        return ""
    try:
        images = Images(memory)
        if _Paths(memory, images, owns).never_leave(frames):
            return "no way out"
        return "spins" if _spins(memory, images, thread_pointer, frames, owns) else ""
    except (OSError, ImportError):
        return ""
    finally:
        memory.close()


class _Paths:
    """The paths through the code from the places of a stack."""

    def __init__(self, memory: Memory, images: Images, owns: Owns) -> None:
        self._memory = memory
        self._images = images
        self._owns = owns
        self._sites = CallSites(memory, images, ())
        self._outcomes: dict[int, _Outcome] = {}
        self._left = MOST_INSTRUCTIONS

    def never_leave(self, frames: Sequence[MachineFrame]) -> bool:
        """Return whether one of the frames never returns, and none comes to a call of MPI."""
        for level, frame in enumerate(frames[:_MOST_FRAMES]):
            image = self._images.at(frame.pc - 1 if level else frame.pc)
            owner = self._owns(image.path) if image is not None else ""
            if image is None or not owner:
                return False
            if owner == "c":
                if _HARMLESS.match(frame.function) is None:
                    return False
                continue
            outcome = self._outcome(image, frame.pc - image.bias, 0)
            if outcome != "returns":
                return outcome == "stays"
        return False

    def _outcome(self, image: Image, start: int, depth: int) -> _Outcome:
        known = self._outcomes.get(start + image.bias)
        if known is not None:
            return known
        # A function that calls itself comes to no other calls by that.
        self._outcomes[start + image.bias] = "returns"
        found = self._explored(image, start, depth)
        self._outcomes[start + image.bias] = found
        return found

    def _explored(self, image: Image, start: int, depth: int) -> _Outcome:
        if depth > _MOST_DEPTH or self._left <= 0:
            return "unknown"
        flow = Flow(image, lambda at: False, is_caller=False)
        instructions, following = flow.instructions(start)
        self._left -= len(instructions)
        if flow.has_indirect or start not in instructions:
            return "unknown"
        outcome: _Outcome = "stays"
        for at, insn in instructions.items():
            next_ones = following.get(at, ())
            if insn.is_return:
                outcome = "returns"
                continue
            if insn.mnemonic in _ENDS or not next_ones:
                return "unknown"
            if any(each not in instructions for each in next_ones):
                return "unknown"
            if insn.is_call and not self._comes_back(image, insn, depth):
                return "unknown"
        return outcome

    def _comes_back(self, image: Image, insn: Instruction, depth: int) -> bool:
        """Return whether a call neither reaches MPI nor ends the rank."""
        operand = insn.operands[0]
        if operand.kind == "mem" and operand.base == "rip" and not operand.index:
            return self._is_harmless(image, insn.next + operand.disp)
        if operand.kind != "imm":
            return False
        slot = self._sites.slot(image, operand.imm)
        if slot is not None:
            return self._is_harmless(image, slot)
        return self._outcome(image, operand.imm, depth + 1) != "unknown"

    def _is_harmless(self, image: Image, slot: int) -> bool:
        name = image.imports.get(slot, "").partition("@")[0]
        target = self._memory.word(slot + image.bias)
        callee = self._images.at(target) if target is not None else None
        if name and callee is not None and _MATH.match(callee.path.rpartition("/")[2]):
            return True
        # A library of the user's, or a tool, may have a function of that name.
        is_c = callee is None or callee is image or self._owns(callee.path) == "c"
        return is_c and _HARMLESS.match(name) is not None


def _spins(
    memory: Memory,
    images: Images,
    thread_pointer: int | None,
    frames: Sequence[MachineFrame],
    owns: Owns,
) -> bool:
    """Return whether the innermost code comes back to a state that it had before."""
    begin = _begin(images, frames[:_MOST_FRAMES], owns)
    if begin is None or begin[0] >= len(frames):
        return False
    level, is_behind_call = begin
    frame = frames[level]
    registers = dict(frame.registers)
    if is_behind_call:
        registers["rax"] = 0
    try:
        return Spin(memory, images, thread_pointer or 0).recurs(frame.pc, registers)
    except (EmulationError, KeyError):
        return False


def _begin(images: Images, frames: Sequence[MachineFrame], owns: Owns) -> tuple[int, bool] | None:
    """Return the frame at which the emulation begins, and whether it begins behind a call, which
    returns 0; None for no frame."""
    files = [images.at(each.pc - 1 if level else each.pc) for level, each in enumerate(frames)]
    recorders = [at for at, each in enumerate(files) if each is not None and is_recorder(each.path)]
    if recorders:
        # The recorder reads clocks, which ends an emulation. The thread goes on as if the call had
        # found nothing new; the emulation makes the next call without the recorder.
        return recorders[-1] + 1, True
    outside = (at for at, each in enumerate(files) if each is None or owns(each.path) != "c")
    level = next(outside, len(files))
    if level and SLEEPS.match(frames[level - 1].function) is None:
        return None
    return level, level > 0
