"""Calls at the end of functions, which leave by a jump and keep no frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from pgdb.backend.mpi_calls.effects import Effects
from pgdb.backend.mpi_calls.flow import Reached
from pgdb.backend.mpi_calls.frames import Evaluator, MachineFrame
from pgdb.backend.mpi_calls.instructions import ARGUMENTS, SAVED
from pgdb.backend.mpi_calls.memory import Image, Images, Memory
from pgdb.backend.mpi_calls.values import Known

if TYPE_CHECKING:
    from pgdb.backend.mpi_calls.sites import CallSites

_MOST_TAILS = 4
_BRANCH_TARGET_BYTES = 4
"""Bytes of an endbr64 instruction."""


class Raw(msgspec.Struct, frozen=True):
    """The bits of an argument."""

    number: int
    size_bytes: int = 8
    """Number of bytes that are known."""


Reader = Callable[[int], Raw | None]
"""Function that returns an argument by its number, None if it is unknown."""


class Left(msgspec.Struct, frozen=True):
    """The tail calls between a function and another one."""

    target: int
    """Address of the last function."""
    tails: tuple[tuple[int, int], ...]
    is_sure: bool = True
    """Whether the last jump led to the function itself, not to one that left for it in turn."""


class Tails:
    """Finder of the tail calls that were made between two frames."""

    def __init__(
        self, sites: CallSites, memory: Memory, images: Images, frames: Sequence[MachineFrame]
    ) -> None:
        self._sites = sites
        self._memory = memory
        self._images = images
        self._frames = frames

    def find(
        self,
        function: int,
        level: int,
        reader: Reader,
        is_wanted: Callable[[int], bool],
        inner: int | None,
        depth: int = 0,
    ) -> Left | None:
        """Return the tail calls from *function* to a wanted one; None if there are none, or if one
        of several was made.

        :param level: the frame that has called *function* with the arguments of *reader*.
        :param inner: the function of the frame inside that one.
        """
        image = self._images.at(function)
        if image is None or depth >= _MOST_TAILS:
            return None
        found: list[Left] = []
        for jump, target in self._exits(image, function):
            evaluator = self._evaluator(image, function, jump, level, reader)
            if evaluator is not None and evaluator.gates is not None:
                if not evaluator.gates.can_reach(jump - image.bias):
                    continue
            tails = ((function, jump),)
            real = target
            is_sure = True
            if real is None:
                real = self._target(image, jump, evaluator, function)
                if real is None:
                    # It may have gone anywhere, so also to the function of the frame inside.
                    real = inner if inner is not None and is_wanted(inner) else None
                    is_sure = False
                    if real is None:
                        return None
            if is_wanted(real):
                found.append(Left(real, tails, is_sure))
            elif target is None:
                onward = self.find(
                    real,
                    level,
                    self.through(function, jump, level, reader),
                    is_wanted,
                    inner,
                    depth + 1,
                )
                if onward is not None:
                    found.append(Left(onward.target, tails + onward.tails, onward.is_sure))
        if inner is not None and len(found) > 1:
            found = [each for each in found if each.target == inner] or found
        return found[0] if len(found) == 1 else None

    def _exits(self, image: Image, function: int) -> list[tuple[int, int | None]]:
        """Return the jumps out of a function, and their targets where the code has them."""
        sites = self._sites
        flow = sites.flow(image, is_caller=True)
        insns, following = flow.instructions(function - image.bias)
        found: list[tuple[int, int | None]] = []
        stubs = set()
        for at, insn in insns.items():
            if not insn.is_jump or insn.target is None:
                continue
            place = insn.target + image.bias
            real = sites.behind_plt(place)
            if real != place:
                stubs |= {insn.target, insn.target + _BRANCH_TARGET_BYTES}
            if real != place or sites.mpi_name(real) is not None:
                found.append((at + image.bias, real))
            elif not insn.is_branch and insn.target not in insns:
                found.append((at + image.bias, real))
            elif image.function(insn.target) != image.function(at):
                found.append((at + image.bias, real))
        for at, insn in insns.items():
            if insn.is_jump and insn.target is None and not following[at] and at not in stubs:
                slot = sites.slot(image, at)
                real_target = self._memory.word(slot + image.bias) if slot is not None else None
                found.append((at + image.bias, real_target))
        return found

    def _reached(self, image: Image, function: int, jump: int) -> Reached | None:
        return self._sites.state(
            image, function - image.bias, jump - image.bias, is_return=False, is_caller=True
        )[0]

    def _evaluator(
        self, image: Image, function: int, jump: int, level: int, outer: Reader
    ) -> Evaluator | None:
        reached = self._reached(image, function, jump)
        if reached is None:
            return None
        frame = self._frames[level]

        def entry(value: Known) -> int | None:
            name = value[1]
            if name in ARGUMENTS:
                found = outer(ARGUMENTS.index(name))
                return found.number if found is not None else None
            return frame.registers.get(name) if name in SAVED else None

        return Evaluator(
            self._memory,
            MachineFrame(pc=0, registers={}),
            reached,
            bias=image.bias,
            cfa=frame.registers.get("rsp"),
            entry=entry,
            is_gone=True,
        )

    def _target(
        self, image: Image, jump: int, evaluator: Evaluator | None, function: int
    ) -> int | None:
        """Return the target of an indirect jump."""
        reached = self._reached(image, function, jump)
        insn = image.instruction(jump - image.bias)
        if evaluator is None or reached is None or insn is None:
            return None
        return evaluator.value(Effects(is_caller=True).get(reached.state, insn, insn.operands[0]))

    def through(self, function: int, jump: int, level: int, outer: Reader) -> Reader:
        """Return a reader of the arguments behind a tail call, from those of *function*."""
        image = self._images.at(function)
        evaluator = None
        if image is not None:
            evaluator = self._evaluator(image, function, jump, level, outer)
        if image is None or evaluator is None:
            return lambda number: None
        reached = self._reached(image, function, jump)
        assert reached is not None

        def argument(number: int) -> Raw | None:
            if number >= len(ARGUMENTS):
                return None
            found = evaluator.value(reached.state.registers.get(ARGUMENTS[number]))
            return None if found is None else Raw(found)

        return argument
