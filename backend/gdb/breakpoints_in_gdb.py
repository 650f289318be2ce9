"""Breakpoints of PGDB's own that use up no number; runs inside GDB, in its Python (3.7 or later).

GDB counts all its breakpoints together. Breakpoints that Python declares internal have negative
numbers, are not listed, and are not deleted by ``delete``. So GDB's numbers are those of the user's
breakpoints alone, the same on all ranks of the job.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import gdb
import process_in_gdb as process  # type: ignore[import-not-found]

_SIGNALS = (signal.SIGURG, signal.SIGSTOP)
"""The signal that stops a process which has executed a program, and one that nobody can block."""
_images: set[tuple[bytes, int, int]] = set()
"""The programs that the processes have executed so far."""
_events: tuple[Any, ...] = ()
_own: list[Any] = []
"""The breakpoints of :func:`stop_once`, until :func:`pass_exec`."""
_hidden: list[Any] = []
"""The breakpoints of :func:`hide`."""


def stop_at_exec() -> None:
    """Stop each process of this GDB by a signal right when it has executed a program.

    GDB discards and reads symbols at that time, while the process is still stopped; it takes the
    signal before its first instruction. ``catch exec`` would use up a number.

    :raises gdb.GdbError: if GDB will discard nothing at that time: where it finds no files.
    """
    global _events
    spaces = [each.progspace for each in gdb.inferiors() if each.pid]
    if not all(each.objfiles() for each in spaces):
        raise gdb.GdbError("no symbols will be discarded")
    if not hasattr(gdb.events, "free_objfile"):  # GDB 12: no event if the program has no symbols
        raise gdb.GdbError("this GDB does not report that symbols are discarded")
    if _events:
        return
    _new_image()
    for each in _SIGNALS:
        gdb.execute(f"handle {each.name} stop print nopass", to_string=True)
    _events = (gdb.events.free_objfile, gdb.events.clear_objfiles, gdb.events.new_objfile)
    for each in _events:
        each.connect(_stop_new_image)


def pass_exec() -> None:
    """Stop processes no longer when they execute a program, and delete all own breakpoints."""
    global _events
    for each in _events:
        each.disconnect(_stop_new_image)
    _events = ()
    _images.clear()
    gdb.execute("handle SIGURG nostop noprint nopass", to_string=True)
    gdb.execute("handle SIGSTOP stop print pass", to_string=True)
    for each in _own:
        if each.is_valid():
            each.delete()
    del _own[:]


def _stop_new_image(event: Any) -> None:
    del event
    if pid := _new_image():
        is_blocked = _blocked(pid) >> (signal.SIGURG - 1) & 1
        os.kill(pid, _SIGNALS[is_blocked])


def _new_image() -> int:
    """Return the selected process if it executes a program that was not seen before, else 0."""
    pid = int(gdb.selected_inferior().pid)
    try:
        status = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return 0
    vector = process.auxiliary_vector(pid)
    image = (vector, status.st_dev, status.st_ino)
    if not vector or image in _images:
        return 0
    _images.add(image)
    return pid


def _blocked(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status") as file:
            lines = [line.split() for line in file if line.startswith("SigBlk:")]
    except OSError:
        return 0
    return int(lines[0][1], 16) if lines else 0


def stop_once(place: str) -> None:
    """Stop at a place once; print the number, or 0 if there is no such place."""
    made = gdb.Breakpoint(place, internal=True, temporary=True)
    if _keep_or_delete(made, is_pending=False):
        _own.append(made)


def addresses(function: str) -> None:
    """Print the addresses behind the beginning of a function, where a breakpoint in it would be."""
    # Fortran would find pmpi_abort_ of MPI's Fortran library for PMPI_Abort; its arguments are
    # pointers.
    with _in_c():
        made = gdb.Breakpoint(function, internal=True, qualified=True)
    try:
        _print(*[f"{each.address:#x}" for each in made.locations])
    finally:
        made.delete()


def hide(place: str, condition: str, is_pending: bool) -> None:
    """Stop at a function, or at ``*ADDRESS``, under a condition of C; print the number.

    The number is 0 if there is no such place, and *is_pending* is not set.
    """
    made = _conditional(place, condition)
    if _keep_or_delete(made, is_pending=is_pending):
        _hidden.append(made)


def stop_at_report(function: str, condition: str) -> None:
    """Stop at a function under a condition of C; print the number, or 0 if there is none."""
    _keep_or_delete(_conditional(function, condition), is_pending=False)


def _conditional(place: str, condition: str) -> Any:
    # GDB reads the condition again, in the language of this moment, at each library that is loaded.
    with _in_c():
        if place.startswith("*"):
            made = gdb.Breakpoint(place, internal=True)
        else:
            made = gdb.Breakpoint(place, internal=True, qualified=True)
        made.condition = condition
    return made


@contextlib.contextmanager
def _in_c() -> Iterator[None]:
    """Set GDB's language to C in the context."""
    language = str(gdb.parameter("language"))
    gdb.execute("set language c", to_string=True)
    try:
        yield
    finally:
        gdb.execute(f"set language {language}", to_string=True)


def enable_hidden(is_enabled: bool) -> None:
    """Enable or disable the breakpoints of :func:`hide`."""
    for each in _hidden:
        each.enabled = is_enabled


def delete_hidden() -> None:
    """Delete the breakpoints of :func:`hide`."""
    for each in _hidden:
        if each.is_valid():
            each.delete()
    del _hidden[:]


def hidden_hits() -> None:
    """Print the number of hits of the breakpoints of :func:`hide`."""
    _print(sum(each.hit_count for each in _hidden if each.is_valid()))


def _keep_or_delete(made: Any, *, is_pending: bool) -> bool:
    """Print the number of a breakpoint and return whether it stays: delete a pending one, and print
    0, unless *is_pending* is set."""
    if made.pending and not is_pending:
        made.delete()
        _print(0)
        return False
    _print(made.number)
    return True


def _print(*words: object) -> None:
    gdb.write(" ".join(map(str, words)) + "\n")
