"""The fault before a signal that a rank has sent to itself, found in memory of the rank."""

from __future__ import annotations

import signal
import struct

import pytest

from pgdb.backend.gdb.resent_signals import FirstFault, first_fault
from pgdb.process_maps import Mapping

STACK, PLACE, ADDRESS = 0x7FFF_0000_8000, 0x40_1136, 0x18
SIGNALS = 0x7F00_0000_0000
MAPPINGS = (
    Mapping(0x40_1000, 0x40_2000, "r-xp", 0, "/home/me/app"),
    Mapping(SIGNALS, SIGNALS + 0x1_0000, "rw-p", 0, ""),
    Mapping(0x7F10_0000_0000, 0x7F10_0010_0000, "r-xp", 0, "/lib/libc.so.6"),
    Mapping(0x7F20_0000_0000, 0x7F20_0010_0000, "r-xp", 0, "/lib/libopen-pal.so.40.30.2"),
    Mapping(0x7F30_0000_0000, 0x7F30_0010_0000, "r-xp", 0, "/lib/libother.so.1"),
    Mapping(STACK - 0x8000, STACK + 0x1000, "rw-p", 0, "[stack]"),
)
FPU = STACK - 1024
OPEN_MPI, OTHER, C_LIBRARY = 0x7F20_0000_4242, 0x7F30_0000_4242, 0x7F10_0000_4242


def frame(*, stack: int = STACK, number: int = 11, code: int = 1) -> bytes:
    """Return the frame that the kernel of an x86-64 machine writes for a handler."""
    registers = bytes(120) + struct.pack("<QQ", stack, PLACE) + bytes(120)
    context = bytes(40) + registers + bytes(8)
    return struct.pack("<Q", C_LIBRARY) + context + struct.pack("<iii4xQ", number, 0, code, ADDRESS)


def bare_frame(trap: int, error: int, mxcsr: int) -> bytes:
    """Return the frame for a handler without SA_SIGINFO, which has no siginfo_t."""
    words = struct.pack("<QQQQQ", error, trap, 0, ADDRESS, FPU)
    registers = bytes(120) + struct.pack("<QQ", STACK, PLACE) + bytes(16) + words
    whole = struct.pack("<Q", C_LIBRARY) + bytes(40) + registers
    return whole.ljust(1024, b"\0") + bytes(24) + struct.pack("<I", mxcsr)


def found(data: bytes, at: int, number: int = 11) -> FirstFault | None:
    def read(address: int, size_bytes: int) -> bytes:
        memory = {at + offset: byte for offset, byte in enumerate(data)}
        return bytes(memory.get(address + each, 0) for each in range(size_bytes))

    return first_fault(number, STACK, PLACE, MAPPINGS, read)


@pytest.mark.parametrize("end", [STACK - 128, SIGNALS + 0x1_0000])
def test_a_fault_is_found_below_the_stack_pointer_and_in_a_stack_for_signals(end: int) -> None:
    data = frame()
    assert found(data, end - len(data)) == FirstFault(1, ADDRESS, "")


@pytest.mark.parametrize(
    ("number", "trap", "error", "mxcsr", "expected"),
    [
        (signal.SIGSEGV, 14, 4, 0, (1, ADDRESS)),
        (signal.SIGSEGV, 14, 7, 0, (2, ADDRESS)),
        (signal.SIGSEGV, 14, 0x25, 0, (4, ADDRESS)),
        (signal.SIGSEGV, 13, 0, 0, (128, 0)),
        (signal.SIGBUS, 14, 6, 0, (2, ADDRESS)),
        (signal.SIGBUS, 17, 0, 0, (1, ADDRESS)),
        (signal.SIGFPE, 0, 0, 0, (1, PLACE)),
        (signal.SIGFPE, 19, 0, 0x1D84, (3, PLACE)),
        (signal.SIGFPE, 19, 0, 0x1F01, (7, PLACE)),
        (signal.SIGFPE, 19, 0, 0x1FBF, None),
        (signal.SIGSEGV, 0, 0, 0, None),
        (signal.SIGABRT, 14, 4, 0, None),
    ],
)
def test_the_exception_of_the_processor_says_what_a_plain_handler_was_called_for(
    number: int, trap: int, error: int, mxcsr: int, expected: tuple[int, int] | None
) -> None:
    fault = found(bare_frame(trap, error, mxcsr), FPU - 1024, number)
    assert fault == (None if expected is None else FirstFault(*expected, ""))


@pytest.mark.parametrize(
    ("words", "whose"),
    [
        ((OTHER, OPEN_MPI, 7, C_LIBRARY, 0), "Open MPI"),
        ((OPEN_MPI, OTHER, 7), "libother.so.1"),
        ((PLACE, 7), "app"),
        ((C_LIBRARY, 7), ""),
    ],
)
def test_the_nearest_code_below_the_frame_is_the_handlers(
    words: tuple[int, ...], whose: str
) -> None:
    data = struct.pack(f"<{len(words)}Q", *words) + frame()
    fault = found(data, STACK - 512 - len(data))
    assert fault is not None and fault.handler == whose


@pytest.mark.parametrize(
    "data", [frame(stack=STACK + 8), frame(number=7), frame(code=-6), frame()[:-24], b""]
)
def test_what_is_no_frame_of_this_fault_is_none(data: bytes) -> None:
    assert found(data, STACK - 128 - len(data)) is None
