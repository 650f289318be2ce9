"""Stops at which the agent in a Python rank reports a hit; runs inside GDB, in its Python.

The agent calls getpriority(2) with its key and the number of a page as first argument, and a bit
for each slot of that page as second one. ``$_pgdb_python_hit(KEY, SLOT)`` says whether the rank
stands at such a call. It is the condition of the breakpoints at Python code.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gdb
import process_in_gdb as process  # type: ignore[import-not-found]

_PAGE = 31
_REGISTERS = (("rdi", "rsi"), ("x0", "x1"), ("r3", "r4"), ("a0", "a1"))
"""Registers of the first two arguments: x86-64, aarch64, ppc64, riscv64."""
# GDB evaluates it anew when the rank executes another program; an address would be of no use then.
_LOCATION = "*(unsigned long) &getpriority"
_hidden: dict[int, Any] = {}
_enabled: dict[int, bool] = {}
"""Whether the user's breakpoints at hits are enabled, by number."""
_vector = b""
"""Auxiliary vector of the program for which the breakpoints were made."""


class _Hit(gdb.Function):  # type: ignore[misc]
    """The condition of a breakpoint at Python code."""

    def __init__(self) -> None:
        super().__init__("_pgdb_python_hit")

    def invoke(self, key: Any, slot: Any) -> bool:
        """Return whether the rank reports a hit of the slot."""
        page, bits = _arguments()
        number = int(slot)
        return page - int(key) == number // _PAGE and bool(bits >> number % _PAGE & 1)


def _arguments() -> tuple[int, int]:
    frame = gdb.newest_frame()
    for names in _REGISTERS:
        try:
            first, second = (int(frame.read_register(each)) & 0xFFFFFFFF for each in names)
        except ValueError:  # another machine
            continue
        return first, second
    return 0, 0


def check() -> None:
    """Write an error if GDB does not find the function that the agent calls at a hit."""
    found = {}
    try:
        _in_c(lambda: gdb.parse_and_eval(_LOCATION))
    except gdb.error as error:
        found = {"error": f"GDB does not find getpriority in the rank: {error}"}
    gdb.write(json.dumps(found) + "\n")


def insert(word: str, key: int, slot: int) -> None:
    """Make a breakpoint of the user's at the hits of a slot; *word* is ``break`` or ``tbreak``."""
    before = {each.number for each in gdb.breakpoints()}
    _in_c(lambda: gdb.execute(f"{word} {_LOCATION} if $_pgdb_python_hit({key}, {slot})"))
    _enabled.update({each.number: True for each in gdb.breakpoints() if each.number not in before})
    _note_program()


def _note_program() -> None:
    global _vector
    _vector = _vector_now()


def _vector_now() -> bytes:
    vector: bytes = process.auxiliary_vector(gdb.selected_inferior().pid)
    return vector


def _modified(made: Any) -> None:
    # GDB announces the new location of a breakpoint that it has disabled itself later.
    if made.number in _enabled and (made.enabled or _vector_now() == _vector):
        _enabled[made.number] = made.enabled


def enable_again() -> None:
    """Enable what GDB has disabled when the rank executed another program.

    GDB then has no libraries yet, does not find the function, and disables the breakpoint, without
    an event.
    """
    _note_program()
    for made in gdb.breakpoints():
        if _enabled.get(made.number) and not made.enabled:
            made.enabled = True


def _in_c(make: Callable[[], Any]) -> Any:
    """Return what *make* returns, with expressions in C: GDB keeps the language of a location."""
    language = str(gdb.parameter("language"))
    gdb.execute("set language c", to_string=True)
    try:
        return make()
    finally:
        gdb.execute(f"set language {language}", to_string=True)


def hide(key: int, slot: int) -> None:
    """Stop at hits of a slot that no user's breakpoint has; write GDB's number."""
    made = _hidden.get(slot)
    if made is None or not made.is_valid():
        try:
            made = _in_c(lambda: gdb.Breakpoint(_LOCATION, internal=True))
        except gdb.error as error:
            gdb.write(json.dumps({"error": str(error)}) + "\n")
            return
        made.condition = f"$_pgdb_python_hit({key}, {slot})"
        _hidden[slot] = made
    made.enabled = True
    gdb.write(json.dumps(made.number) + "\n")


def enable(slot: int, is_enabled: bool) -> None:
    """Enable or disable the stops of a slot that :func:`hide` has made."""
    made = _hidden.get(slot)
    if made is not None and made.is_valid():
        made.enabled = is_enabled


def call_later(text: str, page: int) -> None:
    """Let the interpreter execute a text when it executes bytecode next; write the text's address.

    GDB calls functions in the rank for that. It writes 0 if the interpreter is not initialized.

    :param page: address of the text from an earlier call, 0 for none.
    """
    language = str(gdb.parameter("language"))
    gdb.execute("set language c", to_string=True)
    try:
        found: Any = _call_later(text.encode() + b"\0", page)
    except (gdb.error, gdb.GdbError) as error:
        found = {"error": str(error)}
    finally:
        gdb.execute(f"set language {language}", to_string=True)
    gdb.write(json.dumps(found) + "\n")


def _check_registers() -> None:
    """Raise an error if GDB cannot restore the registers of the rank after a call.

    GDB 13 cannot on a processor with AMX, notices that half way, and then a system call that the
    rank was stopped in fails with error 514 (seen with Python's time.sleep).
    """
    for name in ("xmm0.v2_int64[0]", "v0.d.u[0]"):
        try:
            value = int(gdb.parse_and_eval(f"${name}"))
        except gdb.error:  # another machine
            continue
        # GDB does not write a value that the register has.
        for each in (value ^ 1, value):
            gdb.execute(f"set var ${name} = {each}", to_string=True)


def _call_later(data: bytes, page: int) -> int:
    _check_registers()
    if not int(gdb.parse_and_eval("((int (*)(void)) Py_IsInitialized)()")):
        return 0
    if not page:
        # Not malloc: the rank may be stopped inside it.
        mapped = "((void *(*)(void *, unsigned long, int, int, int, long)) mmap)"
        page = int(gdb.parse_and_eval(f"(unsigned long) {mapped}(0, 4096, 3, 0x22, -1, 0)"))
        if page & 0xFFF:
            raise gdb.GdbError("mmap has failed in the rank")
    gdb.selected_inferior().write_memory(page, data)
    call = "((int (*)(void *, void *)) Py_AddPendingCall)"
    failed = gdb.parse_and_eval(f"{call}((void *) PyRun_SimpleString, (void *) {page:#x})")
    if int(failed):
        raise gdb.GdbError("Py_AddPendingCall has failed: too many calls are pending")
    return page


def main() -> None:
    """Define the condition."""
    _Hit()
    gdb.events.breakpoint_modified.connect(_modified)
