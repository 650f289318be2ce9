"""The reason for a fault, from the information that came with the signal: siginfo_t, the stack
pointer and the mappings of the rank.

GDB names the signal alone: a stack that has overflowed, a null pointer and constant memory all are
``SIGSEGV, Segmentation fault``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
from collections.abc import Sequence

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.rank_image import ImageOf, ProcessImage, RankImage
from pgdb.backend.gdb.resent_signals import FirstFault, first_fault
from pgdb.backend.gdb.session import GdbSession
from pgdb.jobs import procfs
from pgdb.patterns import pattern
from pgdb.process_maps import Mapping
from pgdb.sizes import MIB, whole_size

FAULTS = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP"})
"""Signals about the instruction that a rank executes."""
EXPLAINED = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE"})
"""Faults whose reason the kernel gives."""

_CASTS = "(long)$_siginfo.si_code", "(long)$_siginfo._sifields._sigfault.si_addr"
_SENDER = "(long)$_siginfo._sifields._kill.si_pid"
_ASK = (
    'with language c -- printf "%ld %lu %ld %lu %lu\\n", '
    f"{', '.join(_CASTS)}, {_SENDER}, (long)$sp, (long)$pc"
)
_NUMBERS = pattern(r"(-?\d+) (\d+) (-?\d+) (\d+) (\d+)\s*\Z")

# asm-generic/siginfo.h
_NOT_MAPPED, _NOT_ALLOWED, _BY_KERNEL = 1, 2, 128
_CODES = {
    ("SIGBUS", 1): "an address that is not aligned",
    ("SIGBUS", 2): "memory of a mapped file behind the file's end",
    ("SIGBUS", 3): "an error of the hardware or of the mapped file",
    ("SIGBUS", 4): "an error in the machine's memory",
    ("SIGBUS", 5): "an error in the machine's memory",
    ("SIGFPE", 1): "a division of an integer by zero",
    ("SIGFPE", 2): "an integer that is too large",
    ("SIGFPE", 3): "a division by zero",
    ("SIGFPE", 4): "a number that is too large (overflow)",
    ("SIGFPE", 5): "a number that is too small (underflow)",
    ("SIGFPE", 6): "an inexact result",
    ("SIGFPE", 7): "an operation without a result (invalid), such as 0/0",
    ("SIGSEGV", 3): "an address outside of its bounds",
    ("SIGSEGV", 4): "memory that a protection key closes",
}
_PAGE_BYTES = 4096
_STACK_REACH_BYTES = 1 << 20
"""Most bytes from the stack pointer down to what a function touches in its frame."""
_LARGEST_FRAME_BYTES = 1 << 32


class Fault:
    """The information of the kernel about a fault."""

    def __init__(self, signal: str, code: int, address: int, stack: int, place: int) -> None:
        self.signal = signal
        self.code = code
        self.address = address
        self.stack = stack
        self.place = place
        """Address of the instruction."""

    def words(
        self, mappings: Sequence[Mapping], stack_limit: str = "", *, is_core: bool = False
    ) -> str:
        """Return the reason in words, empty for an unknown one.

        :param stack_limit: the size of the first thread's stack in words, empty if it is unknown.
        :param is_core: the mappings are those of a core file, which does not name a stack.
        """
        if (known := _CODES.get((self.signal, self.code))) is not None:
            return known
        if self.signal != "SIGSEGV":
            return ""
        if self.code == _BY_KERNEL:
            return "" if self.address else self._by_kernel(mappings, stack_limit, is_core=is_core)
        if self.code not in (_NOT_MAPPED, _NOT_ALLOWED):
            return ""
        if (of := overflowed(self.address, self.stack, mappings)) is not None:
            return _stack_words(of, stack_limit, is_core=is_core)
        if self.address < _PAGE_BYTES:
            if self.place == self.address:
                return "a call through a null pointer"
            at = f" (address {self.address:#x})" if self.address else ""
            return f"an access through a null pointer{at}"
        if self.place == self.address:
            return "a jump to an address where no code is"
        if self.code == _NOT_MAPPED:
            return "an address where no memory is"
        there = [each for each in mappings if each.start <= self.address < each.end]
        if not there or there[0].permissions.startswith("---"):
            return "memory that is closed to all accesses, such as a guard page"
        if not there[0].permissions.startswith("rw"):
            file = os.path.basename(there[0].path)
            return "a write to memory that can only be read" + (f", of {file}" if file else "")
        return ""

    def _by_kernel(self, mappings: Sequence[Mapping], stack_limit: str, *, is_core: bool) -> str:
        """Return the reason for a fault without an address.

        The kernel also sends one where a stack that has overflowed has no room for the frame of a
        handler of the signal.
        """
        if (of := overflowed(self.stack, self.stack, mappings)) is not None:
            return _stack_words(of, stack_limit, is_core=is_core)
        pointer = "a pointer whose value can be no address"
        of = overflowed(self.stack - _PAGE_BYTES, self.stack - _PAGE_BYTES, mappings)
        if of is not None and of.end - of.start >= MIB:
            return f"{pointer}, or a stack that has overflowed ({whole_size(of.end - of.start)})"
        return pointer


def overflowed(address: int, stack: int, mappings: Sequence[Mapping]) -> Mapping | None:
    """Return the stack that has overflowed, None if none has.

    The fault is below the stack and near its pointer. The pointer is below the stack, too, where a
    function has large variables.
    """
    above = [each for each in mappings if each.is_writable and each.end > stack]
    if not above:
        return None
    own = min(above, key=lambda each: each.start)
    is_stack = own.path in ("", "[stack]") or own.path.startswith("[stack:")
    is_near = own.start > address >= stack - _STACK_REACH_BYTES
    is_at_end = is_near and own.start - min(stack, address) < _LARGEST_FRAME_BYTES
    return own if is_stack and is_at_end else None


def _stack_words(of: Mapping, limit: str, *, is_core: bool) -> str:
    if is_core:
        return f"a stack has overflowed ({whole_size(of.end - of.start)})"
    if of.path == "[stack]":
        return "the stack has overflowed" + (f" ('ulimit -s' is {limit})" if limit else "")
    return f"the stack of the thread has overflowed ({whole_size(of.end - of.start)})"


class FaultCauses:
    """Finder of the reasons of faults, from one GDB."""

    def __init__(self, gdb: GdbSession, image_of: ImageOf = ProcessImage) -> None:
        self._gdb = gdb
        self._image_of = image_of

    async def of(self, signal: str, pid: int) -> str:
        """Return the reason why the selected thread got *signal*, empty if it is unknown."""
        if signal not in EXPLAINED:
            return ""
        found = _NUMBERS.search((await self._gdb.send(console(_ASK))).answer)
        if found is None:
            return ""
        code, address, sender, stack, place = map(int, found.groups())
        image = self._image_of(pid)
        # A process of the core's time has gone; its number may be another one's.
        lives = isinstance(image, ProcessImage)
        own = procfs.own_number(pid) if lives else pid
        if code <= 0 and sender != own:
            return _sent_by(sender, knows_name=lives and own == pid)
        fault = Fault(signal, code, address, stack, place)
        limit = _stack_limit(pid) if lives else ""
        return await asyncio.to_thread(self._words, fault, image, limit)

    def _words(self, fault: Fault, image: RankImage, limit: str) -> str:
        mappings: Sequence[Mapping] = ()
        with contextlib.suppress(OSError):
            mappings = image.mappings()
        is_core = not isinstance(image, ProcessImage)
        if fault.code > 0:
            return fault.words(mappings, limit, is_core=is_core)
        if (first := _first(fault, image, mappings)) is None:
            return "sent by the program itself, perhaps by its handler of an earlier fault"
        earlier = Fault(fault.signal, first.code, first.address, fault.stack, fault.place)
        cause = earlier.words(mappings, limit, is_core=is_core) or "a fault"
        whose = f"the handler of {first.handler}" if first.handler else "a handler"
        return f"{cause} ({whose} caught it and sent the signal again)"


def _first(fault: Fault, image: RankImage, mappings: Sequence[Mapping]) -> FirstFault | None:
    """Return the fault before a signal that the rank has sent to itself, None if none is seen."""
    number = signals.Signals[fault.signal]
    with contextlib.suppress(OSError), image.opened() as read:
        return first_fault(number, fault.stack, fault.place, mappings, read)
    return None


def _sent_by(sender: int, *, knows_name: bool) -> str:
    """Return the words for a signal that another process has sent."""
    name = procfs.program_name(sender) if sender > 0 and knows_name else ""
    return f"sent by process {sender}" + (f" ({name})" if name else "")


def _stack_limit(pid: int) -> str:
    """Return the soft limit of the stack of a process on this host, empty if it is unknown."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/limits") as limits:
        for line in limits:
            if line.startswith("Max stack size"):
                soft = line[len("Max stack size") :].split()[0]
                return whole_size(int(soft)) if soft.isdecimal() else soft
    return ""
