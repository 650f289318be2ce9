"""End of single-stepping at each stop; runs inside GDB, in its Python (3.7 or later).

A step sets flags of the thread in the kernel and in the processor. The kernel clears them when a
debugger continues or detaches the thread, and keeps them when the debugger is killed: the thread
then runs one instruction, and SIGTRAP ends the process (Linux 6.18, ``exit_ptrace``). So the thread
is continued once at its place, with a signal that stops it before it runs an instruction. GDB
notices nothing of this: registers and the information about the signal are as before.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import struct
from typing import Any

import gdb

_CONTINUE = 7  # PTRACE_CONT and so on, ptrace(2)
_GET_SIGNAL, _SET_SIGNAL = 0x4202, 0x4203
_GET_MASK, _SET_MASK = 0x420A, 0x420B
_MASK_BYTES = 8
_SIGNAL_BYTES = 128  # of siginfo_t

_P_PID = 1  # waitid(2)
_WSTOPPED, _WEXITED, _WNOWAIT, _WALL = 2, 4, 0x01000000, 0x40000000
_CLD_TRAPPED = 4

_BY_STEP = (1, 2)
"""TRAP_BRKPT and TRAP_TRACE, sigaction(2): single steps, the former at the end of system calls.
A breakpoint instruction has SI_KERNEL, another event of ptrace a number above 255."""
_MOST_STOPS = 4
"""Stops of other kinds that may come before ours, such as that of job control."""


class _Thread:
    """One stopped thread of GDB's process."""

    def __init__(self, library: ctypes.CDLL, pid: int, number: int) -> None:
        self._library = library
        self._pid = pid
        self._number = number

    def ptrace(self, request: int, address: int = 0, data: Any = None) -> None:
        """Make a request; *data* is the address of a buffer, or the buffer.

        :raises OSError: if the kernel refuses it.
        """
        if self._library.ptrace(request, self._number, address, data) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def signal_that_stopped_it(self) -> ctypes.Array[ctypes.c_char]:
        """Return the siginfo_t of the stop."""
        found = ctypes.create_string_buffer(_SIGNAL_BYTES)
        self.ptrace(_GET_SIGNAL, 0, found)
        return found

    def continue_at_its_place(self) -> None:
        """Continue the thread, and stop it before its next instruction."""
        mask = ctypes.create_string_buffer(_MASK_BYTES)
        self.ptrace(_GET_MASK, _MASK_BYTES, mask)
        # SIGTRAP comes first and alone: SIGCONT from anywhere would remove a pending SIGSTOP.
        bits = bytearray(b"\xff" * _MASK_BYTES)
        bits[(signal.SIGTRAP - 1) // 8] &= ~(1 << (signal.SIGTRAP - 1) % 8)
        only_trap = ctypes.create_string_buffer(bytes(bits), _MASK_BYTES)
        self.ptrace(_SET_MASK, _MASK_BYTES, only_trap)
        try:
            if self._library.tgkill(self._pid, self._number, signal.SIGTRAP) < 0:
                raise OSError(ctypes.get_errno(), "tgkill")
            for _ in range(_MOST_STOPS):
                self.ptrace(_CONTINUE)
                if not self._stops() or self._has_our_signal():
                    break
        finally:
            with contextlib.suppress(OSError):  # it has ended
                self.ptrace(_SET_MASK, _MASK_BYTES, mask)

    def _stops(self) -> bool:
        """Wait for the thread; return whether it has stopped. Its end is left for GDB to find."""
        found = ctypes.create_string_buffer(_SIGNAL_BYTES)
        options = _WALL | _WSTOPPED
        for each in (options | _WEXITED | _WNOWAIT, options):
            if self._library.waitid(_P_PID, self._number, found, each) < 0:
                raise OSError(ctypes.get_errno(), "waitid")
            (code,) = struct.unpack_from("i", found, 8)
            if code != _CLD_TRAPPED:
                return False
        return True

    def _has_our_signal(self) -> bool:
        try:
            number, _, code = struct.unpack_from("iii", self.signal_that_stopped_it())
        except OSError:  # a stop of job control has none
            return False
        return bool(number == signal.SIGTRAP and code <= 0)


@functools.lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """Return the C library; each stop needs it."""
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.restype = ctypes.c_long
    library.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    return library


def end_single_steps(pid: int, thread: int) -> bool:
    """Clear the flags of a thread that may have been single-stepped; return whether it was done.

    Nothing is done where a breakpoint instruction, a fault or an event of ptrace stopped the
    thread.

    :raises OSError: if the kernel refuses a part of it.
    """
    stopped = _Thread(_library(), pid, thread)
    before = stopped.signal_that_stopped_it()
    number, _, code = struct.unpack_from("iii", before)
    was_stepped = number == signal.SIGTRAP and code in _BY_STEP
    was_interrupted = code <= 0
    if not (was_stepped or was_interrupted):
        return False
    stopped.continue_at_its_place()
    stopped.ptrace(_SET_SIGNAL, 0, before)
    return True


def _stopped(event: Any) -> None:
    """End the single-stepping of the thread that has stopped, in a process of this machine."""
    if not isinstance(event, gdb.StopEvent):
        return
    thread = gdb.selected_thread()
    connection = getattr(gdb.selected_inferior(), "connection", None)
    if thread is None or (connection is not None and connection.type != "native"):
        return
    pid, number, _ = thread.ptid
    # Not in this GDB's power, as in a process that has just been killed: the step stays as it is.
    with contextlib.suppress(OSError, AttributeError):
        end_single_steps(pid, number or pid)


def main() -> None:
    """End single-stepping at each stop."""
    if os.uname().machine == "x86_64":
        gdb.events.stop.connect(_stopped)
