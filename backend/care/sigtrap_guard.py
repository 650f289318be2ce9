"""A SIGTRAP handler that lets a rank survive the end of its GDB (``--guard``).

When a GDB is killed, its rank runs on with breakpoint instructions in it, and the next one ends it
by SIGTRAP, before anything could remove them. Ignoring or blocking the signal does not help: for a
signal that the processor raises, the kernel restores the default action. But it does call a
handler. So the rank gets one before breakpoints are set, on two pages of its own: the handler
returns to the instruction's address, sleeps a millisecond and tries again, until
:mod:`.breakpoint_repair` has restored the original instruction. While a debugger is attached, the
rank never receives the signal, and the handler is never called.

On a signal of another origin, or after ten seconds of tries in all, the handler restores the
action that the program had and sends the signal again, since that signal is the program's own. A
program whose own handler may use the instruction for itself is not guarded. The handler of
gfortran's library is none of these: it prints a backtrace and ends the rank.

The rank does not survive if GDB is killed between receiving a hit from the kernel and setting the
rank back to the instruction's address (four system calls; 2 of 40 and 1 of 100 kills with a hit
every 0.6 ms, GDB 13.1).
"""

from __future__ import annotations

import contextlib
import platform
import re
import signal
import struct
from pathlib import Path

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.patterns import pattern
from pgdb.process_maps import MappingTable, read_mappings

_PAGE_BYTES = 4096
# The GNU assembler makes this of:
#     mov 8(%rsi),%eax; cmp $0x80,%eax; jne other       # si_code SI_KERNEL: an int3
#     lock incl data(%rip); cmpl $10000,data(%rip); ja give_up
#     decq 0xa8(%rdx)                                    # REG_RIP of the interrupted context
#     lea nap(%rip),%rdi; xor %esi,%esi; mov $35,%eax; syscall; ret         # nanosleep
# other:
#     cmp $2,%eax; je done; cmp $4,%eax; je done         # TRAP_TRACE, TRAP_HWBKPT: left by GDB
# give_up:
#     mov $5,%edi; lea data+192(%rip),%rsi; xor %edx,%edx; mov $8,%r10d
#     mov $13,%eax; syscall                              # rt_sigaction(SIGTRAP, the program's)
#     mov $39,%eax; syscall; mov %eax,%r8d; mov $186,%eax; syscall          # getpid, gettid
#     mov %eax,%esi; mov %r8d,%edi; mov $5,%edx; mov $234,%eax; syscall     # tgkill
# done:
#     ret; .balign 8
# nap: .quad 0,1000000
# .org 240; mov $15,%eax; syscall                        # rt_sigreturn
# .org 4096; data:
_HANDLER = bytes.fromhex(
    "8b46083d80000000752bf0ff05ef0f0000813de50f000010"
    "270000772248ff8aa8000000488d3d5500000031f6b82300"
    "00000f05c383f802744283f804743dbf05000000488d3575"
    "10000031d241ba08000000b80d0000000f05b8270000000f"
    "054189c0b8ba0000000f0589c64489c7ba05000000b8ea00"
    "00000f05c30f1f00000000000000000040420f0000000000"
).ljust(240, b"\0") + bytes.fromhex("b80f0000000f05")
_RESTORER = 240
_ACTION = _PAGE_BYTES + 64
_REPLACED_ACTION = _PAGE_BYTES + 128
_PROGRAM_ACTION = _PAGE_BYTES + 192
_HARMLESS = pattern(r"(?:_gfortrani_)?backtrace_handler\b")
_HARMLESS_LIBRARY = "libgfortran.so"

_MMAP, _MPROTECT, _MUNMAP, _SIGACTION = 9, 10, 11, 13
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE_ANONYMOUS = 0x22
_SA_SIGINFO, _SA_RESTORER, _SA_RESTART = 0x4, 0x04000000, 0x10000000
_SIGSET_BYTES = 8


class SigtrapGuard:
    """The handler of one rank, installed and removed by its GDB while the rank is stopped."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._page = 0

    async def install(self, pid: int) -> str:
        """Install the handler; return the reason for a failure, or an empty string.

        :raises GdbError: if GDB ends.
        """
        if platform.machine() != "x86_64":
            return f"there is none for {platform.machine()}"
        # No other thread may run meanwhile. And a copy of an instruction that is stepped elsewhere
        # would be resumed there.
        for setting in ("scheduler-locking on", "displaced-stepping off"):
            result = await self._gdb.set(setting)
            if result.kind == "error":
                return result.message
        try:
            handler = await self._handler() if self._is_caught(pid) else 0
            if handler and await self._is_ours(handler):
                await self._write(handler + _PAGE_BYTES, bytes(4))
                self._page = handler
            elif handler and not await self._is_harmless(pid, handler):
                return "the program has a handler for SIGTRAP of its own"
            else:
                await self._install()
        except _RefusedError as error:
            return str(error)
        else:
            return ""
        finally:
            await self._gdb.set("scheduler-locking replay")

    async def remove(self) -> None:
        """Remove the handler as far as it is still there.

        :raises GdbError: if GDB ends.
        """
        page, self._page = self._page, 0
        if not page or not await self._is_ours(page):
            return  # or the program has executed another since
        await self._gdb.set("scheduler-locking on")
        try:
            replaced, program = page + _REPLACED_ACTION, page + _PROGRAM_ACTION
            await self._call(_SIGACTION, signal.SIGTRAP, 0, replaced, _SIGSET_BYTES)
            now = await self._gdb.read_memory(replaced, 8)
            if int.from_bytes(now, "little") == page:
                await self._call(_SIGACTION, signal.SIGTRAP, program, 0, _SIGSET_BYTES)
                await self._call(_MUNMAP, page, 2 * _PAGE_BYTES)
        except _RefusedError:
            return  # the program has removed it itself
        finally:
            await self._gdb.set("scheduler-locking replay")

    async def _is_ours(self, page: int) -> bool:
        try:
            return await self._gdb.read_memory(page, len(_HANDLER)) == _HANDLER
        except GdbError:
            if not self._gdb.is_alive:
                raise
            return False

    @staticmethod
    def _is_caught(pid: int) -> bool:
        return signal.SIGTRAP in (procfs.caught_signals(pid) or ())

    async def _handler(self) -> int:
        """Return the address of the present handler."""
        stack = await self._evaluate("(long)$sp")
        # Far enough below the stack pointer to be unused, and untouched by the call.
        place = (stack - _PAGE_BYTES // 2) & ~15
        await self._call(_SIGACTION, signal.SIGTRAP, 0, place, _SIGSET_BYTES)
        return int.from_bytes(await self._gdb.read_memory(place, 8), "little")

    async def _is_harmless(self, pid: int, handler: int) -> bool:
        """Return whether a handler is gfortran's."""
        # GDB has no name for it in a library without symbols.
        with contextlib.suppress(OSError):
            mapping = MappingTable(read_mappings(pid)).at(handler)
            if mapping and Path(mapping.path).name.startswith(_HARMLESS_LIBRARY):
                return True
        named = await self._gdb.send(console(f"info symbol {handler:#x}"))
        return named.kind != "error" and _HARMLESS.match(named.text) is not None

    async def _install(self) -> None:
        protection = _READ | _EXECUTE
        page = await self._call(_MMAP, 0, 2 * _PAGE_BYTES, protection, _PRIVATE_ANONYMOUS, -1, 0)
        await self._call(_MPROTECT, page + _PAGE_BYTES, _PAGE_BYTES, _READ | _WRITE)
        await self._write(page, _HANDLER)
        flags = _SA_SIGINFO | _SA_RESTORER | _SA_RESTART
        await self._write(page + _ACTION, struct.pack("<4Q", page, flags, page + _RESTORER, 0))
        saved = page + _PROGRAM_ACTION
        await self._call(_SIGACTION, signal.SIGTRAP, page + _ACTION, saved, _SIGSET_BYTES)
        self._page = page

    async def _call(self, number: int, *arguments: int) -> int:
        """Make the rank execute a system call."""
        words = ",".join(map(str, (number, *arguments, *(0,) * (6 - len(arguments)))))
        types = ",".join(["long"] * 7)
        value = await self._evaluate(f"((long(*)({types}))syscall)({words})")
        if value == -1:
            raise _RefusedError(f"system call {number} failed")
        return value

    async def _evaluate(self, expression: str) -> int:
        result = await self._gdb.evaluate_in_c(expression)
        match = re.match(r"-?\d+", result.answer.strip())
        if result.kind == "error" or match is None:
            raise _RefusedError(result.message or f"{expression} has no value")
        return int(match[0])

    async def _write(self, address: int, data: bytes) -> None:
        result = await self._gdb.write_memory(address, data)
        if result.kind == "error":
            raise _RefusedError(result.message)


class _RefusedError(GdbError):
    """Request that the rank cannot execute."""
