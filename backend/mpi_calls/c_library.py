"""Functions of the C library that an emulator carries out by itself.

The library's own ones have vector instructions of the newest kind, need the state of the dynamic
linker, or lock what another thread holds.
"""

from __future__ import annotations

import struct
from typing import Protocol

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.values import MASK, signed

_MOST_COPIED = 1 << 20
_PAGE = 4096
_MUTEX_BYTES = 40
"""Size of a ``pthread_mutex_t``."""
_HOLDER_BYTES = 12
"""Size of the holder's identity, which begins with its own address, and of a count."""
_ANOTHER_THREAD = 0x7EAD1000
"""The identity of the thread that makes the calls: no thread of the process has it."""


class Machine(Protocol):
    """The part of an emulator that these functions need."""

    registers: dict[str, int]
    thread_pointer: int

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return bytes of memory."""

    def write(self, address: int, data: bytes) -> None:
        """Write bytes into memory."""

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory."""

    def number(self, address: int, size_bytes: int) -> int:
        """Return an unsigned number in memory."""

    def string(self, address: int) -> bytes:
        """Return the bytes before the next zero byte."""


STUBS: dict[str, int] = {
    **dict.fromkeys("memcpy memmove __memcpy_chk __memmove_chk memset __memset_chk".split(), 3),
    **dict.fromkeys("memcmp strncmp strncpy __strncpy_chk".split(), 3),
    **dict.fromkeys("strlen strcmp strcpy __strcpy_chk malloc calloc realloc free".split(), 0),
    **dict.fromkeys("pthread_mutex_lock pthread_mutex_unlock pthread_mutex_trylock".split(), 0),
    **dict.fromkeys("pthread_self __errno_location __tls_get_addr sched_yield".split(), 0),
    **dict.fromkeys("snprintf __snprintf_chk".split(), 0),
    "posix_memalign": 3,
}
"""Functions that are carried out here; 3 for those whose third argument is a size in bytes."""


def carry_out(name: str, machine: Machine) -> int:
    """Carry out a function with the arguments in the registers; return its result.

    :raises EmulationError: if it cannot be.
    """
    registers = machine.registers
    a, b, c = registers["rdi"], registers["rsi"], registers["rdx"]
    if c > _MOST_COPIED and STUBS[name] == 3:
        raise EmulationError(f"{name} of {c} bytes")
    result = 0
    match name:
        case "memcpy" | "memmove" | "__memcpy_chk" | "__memmove_chk":
            machine.write(a, machine.read(b, c))
            result = a
        case "memset" | "__memset_chk":
            machine.write(a, bytes([b & 255]) * c)
            result = a
        case "memcmp":
            one, other = machine.read(a, c), machine.read(b, c)
            result = (one > other) - (one < other)
        case "strlen":
            result = len(machine.string(a))
        case "strcmp" | "strncmp":
            most = c if name == "strncmp" else _MOST_COPIED
            one, other = machine.string(a)[:most], machine.string(b)[:most]
            result = (one > other) - (one < other)
        case "strncpy" | "__strncpy_chk":
            machine.write(a, (machine.string(b) + b"\0")[:c].ljust(c, b"\0"))
            result = a
        case "strcpy" | "__strcpy_chk":
            machine.write(a, machine.string(b) + b"\0")
            result = a
        case "pthread_mutex_lock" | "pthread_mutex_trylock":
            _take_from_holder(machine, a)
        case "malloc":
            result = machine.allocate(a)
        case "calloc":
            result = machine.allocate(a * b)
        case "realloc":
            result = machine.allocate(b)
            if a:
                machine.write(result, machine.read(a, min(b, _PAGE)))
        case "posix_memalign":
            machine.write(a, struct.pack("<Q", machine.allocate(c + b) + b - 1 & -b))
        case "pthread_self":
            # A stopped thread may hold a lock of the library, which it must not take twice.
            result = _ANOTHER_THREAD
        case "__errno_location":
            result = machine.allocate(8)
        case "__tls_get_addr":
            module, offset = machine.number(a, 8), machine.number(a + 8, 8)
            vector = machine.number(machine.thread_pointer + 8, 8)
            block = machine.number(vector + 16 * module, 8)
            if block in (0, MASK):
                raise EmulationError("thread-local memory that is not there yet")
            result = block + offset & MASK
        case "snprintf":
            result = _print(machine, a, b, c, (registers["rcx"], registers["r8"], registers["r9"]))
        case "__snprintf_chk":
            result = _print(machine, a, b, registers["r8"], (registers["r9"],))
        case _:
            pass
    return result


def _take_from_holder(machine: Machine, mutex: int) -> None:
    """Make a mutex of MPICH as its holder leaves it, if a thread of the process holds it.

    MPICH keeps the holder and a count behind the mutex, and checks that nobody has it.
    """
    try:
        holder = machine.number(mutex + _MUTEX_BYTES, 8)
        is_thread = bool(holder) and machine.number(holder, 8) == holder
    except EmulationError:
        return
    if is_thread:
        machine.write(mutex + _MUTEX_BYTES, bytes(_HOLDER_BYTES))


def _print(machine: Machine, place: int, size_bytes: int, form: int, first: tuple[int, ...]) -> int:
    """Print texts and numbers into memory, as the texts about versions have them."""
    given = iter(first)
    stack = machine.registers["rsp"] + 8
    pieces = []
    text = machine.string(form)
    while text:
        before, percent, behind = text.partition(b"%")
        pieces.append(before)
        if not percent:
            break
        number = next(given, None)
        if number is None:
            number, stack = machine.number(stack, 8), stack + 8
        if behind[:1] == b"s":
            pieces.append(machine.string(number))
        elif behind[:1] == b"d":
            pieces.append(str(signed(number, 4)).encode())
        else:
            raise EmulationError(f"a format that has {behind[:4]!r}")
        text = behind[1:]
    whole = b"".join(pieces)
    if size_bytes:
        machine.write(place, whole[: min(size_bytes, _MOST_COPIED) - 1] + b"\0")
    return len(whole)
