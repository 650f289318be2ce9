"""The fault before a signal that the rank has sent to itself.

Handlers of Open MPI, UCX, the Fortran library and Python print a stack, and send the signal again.
The core file then has the second signal. The kernel's record for the handler is still in memory:
the registers of the fault, and its siginfo_t. Return addresses below it show the library of the
handler.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence

import msgspec

from pgdb.elf import Read
from pgdb.process_maps import Mapping

_REACH_BYTES = 1 << 15
"""Most bytes from the stack pointer to the end of a signal frame, with the state of the FPU."""
_SIGNAL_STACK_BYTES = 1 << 22
"""Size of the largest mapping that may hold a stack for signals (sigaltstack)."""
_ALL_STACKS_BYTES = 1 << 26
"""Most bytes that are searched for such stacks."""
_HANDLER_BYTES = 1 << 14
"""Most bytes of the frames of a handler and of the functions that it has called last."""
# arch/x86/include/uapi/asm/sigcontext.h, ucontext.h and siginfo.h: rsp and rip are neighbours.
_REGISTERS = struct.Struct("<QQ")
_FRAME_BEFORE_REGISTERS_BYTES = 8 + 160
_INFO_BEHIND_REGISTERS_BYTES = 144
_INFO = struct.Struct("<iii4xQ")
"""Number of the signal, errno, code, address."""
_WORD = struct.Struct("<Q")
_OWNERS = (
    ("libopen-pal.", "Open MPI"),
    ("libmpi.", "Open MPI"),
    ("libucs.", "UCX"),
    ("libgfortran.", "the Fortran library"),
)
_OF_SYSTEM = ("libc.", "libc-", "libpthread", "ld-", "ld.", "[")


class FirstFault(msgspec.Struct, frozen=True):
    """The fault that a handler has caught."""

    code: int
    """si_code of the kernel."""
    address: int
    """si_addr of the kernel."""
    handler: str
    """The owner of the handler that has caught the fault, empty if it is unknown."""


def first_fault(
    number: int, stack: int, place: int, mappings: Sequence[Mapping], read: Read
) -> FirstFault | None:
    """Return the fault that a handler has caught before the rank sent the signal to itself.

    On machines other than x86-64 it is None.

    :param number: the signal's number.
    :param stack: the stack pointer, which the fault had, too.
    :param place: the address of the instruction.
    """
    wanted = _REGISTERS.pack(stack, place)
    for begin, end in _places(stack, mappings):
        data = read(begin, end - begin)
        at = data.rfind(wanted)
        while at >= 0:
            info = data[at + _INFO_BEHIND_REGISTERS_BYTES :][: _INFO.size]
            if len(info) == _INFO.size:
                found, _, code, address = _INFO.unpack(info)
                if found == number and code > 0:
                    frame = begin + at - _FRAME_BEFORE_REGISTERS_BYTES
                    return FirstFault(code, address, _handler(frame, mappings, read))
            at = data.rfind(wanted, 0, at)
    return None


def _places(stack: int, mappings: Sequence[Mapping]) -> Iterator[tuple[int, int]]:
    """Yield where signal frames can be: below the stack pointer, and in stacks for signals."""
    yield max(stack - _REACH_BYTES, 0), stack
    left_bytes = _ALL_STACKS_BYTES
    for each in sorted(mappings, key=lambda one: one.end - one.start):
        size_bytes = each.end - each.start
        if not each.is_writable or each.path or size_bytes > _SIGNAL_STACK_BYTES:
            continue
        left_bytes -= size_bytes
        if left_bytes < 0:
            return
        yield each.start, each.end


def _handler(frame: int, mappings: Sequence[Mapping], read: Read) -> str:
    """Return the owner of the handler of the signal frame *frame*, empty if nothing shows it."""
    code = [each for each in mappings if each.is_code]
    for word in _words_below(frame, read):
        for each in code:
            name = os.path.basename(each.path)
            if each.start <= word < each.end and name and not name.startswith(_OF_SYSTEM):
                return next((whose for begin, whose in _OWNERS if name.startswith(begin)), name)
    return ""


def _words_below(frame: int, read: Read) -> Iterator[int]:
    """Yield the words below *frame*, from the frame on down."""
    begin = max(frame - _HANDLER_BYTES, 0)
    data = read(begin, frame - begin)
    for at in range(len(data) - _WORD.size, -1, -_WORD.size):
        yield _WORD.unpack_from(data, at)[0]
