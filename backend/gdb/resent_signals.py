"""The fault before a signal that the rank has sent to itself.

Handlers of Open MPI, UCX, the Fortran library and Python print a stack, and send the signal again.
The core file then has the second signal. The kernel's record for the handler is still in memory:
the registers of the fault, and its siginfo_t. Return addresses below it show the library of the
handler.
"""

from __future__ import annotations

import os
import signal
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
_TRAP_BEHIND_REGISTERS_BYTES = 32
_TRAP = struct.Struct("<QQQQQ")
"""Error code and number of the exception, blocked signals, address (cr2), state of the FPU."""
_MXCSR_IN_FPU_BYTES = 24
_MXCSR = struct.Struct("<I")
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
                is_written = found == number and code > 0
                trap = data[at + _TRAP_BEHIND_REGISTERS_BYTES :][: _TRAP.size]
                known = (code, address) if is_written else _of_trap(number, trap, place, read)
                if known is not None:
                    code, address = known
                    frame = begin + at - _FRAME_BEFORE_REGISTERS_BYTES
                    return FirstFault(code, address, _handler(frame, mappings, read))
            at = data.rfind(wanted, 0, at)
    return None


def _of_trap(number: int, data: bytes, place: int, read: Read) -> tuple[int, int] | None:
    """Return code and address of a fault by the exception of the processor, None for no fault.

    The kernel writes no siginfo_t for a handler without SA_SIGINFO, as the Fortran library has it.
    """
    error, trap, _, address, fpu = _TRAP.unpack(data)
    match number, trap:
        case signal.SIGSEGV, 14:  # a page fault; the processor's bits: present, of a protection key
            return (4 if error & 32 else 2 if error & 1 else 1), address
        case signal.SIGSEGV, 13:  # general protection
            return 128, 0
        case signal.SIGBUS, 14:
            return 2, address
        case signal.SIGBUS, 17:
            return 1, address
        case signal.SIGFPE, 19:  # SIMD
            state = read(fpu + _MXCSR_IN_FPU_BYTES, _MXCSR.size) if fpu else b""
            code = _of_mxcsr(_MXCSR.unpack(state)[0]) if len(state) == _MXCSR.size else 0
            return (code, place) if code else None
        case signal.SIGFPE, 0:
            # A division by zero is number 0, which unwritten memory has, too.
            return (1, place) if error == 0 and fpu else None
    return None


def _of_mxcsr(register: int) -> int:
    """Return the code of a floating-point exception that is set and not masked, 0 for none."""
    raised = register & ~(register >> 7)
    for bits, code in ((1, 7), (4, 3), (8, 4), (2 | 16, 5), (32, 6)):
        if raised & bits:
            return code
    return 0


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
