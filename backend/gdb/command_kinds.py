"""Kinds of operations and of GDB's commands: what each makes GDB do. No I/O."""

from __future__ import annotations

import os

from pgdb.backend.gdb.mi import console
from pgdb.overlay.messages import (
    AnyOperation,
    BreakpointCommands,
    Console,
    Evaluate,
    InsertBreakpoint,
    ListVariables,
    Resume,
    Script,
    SelectFrame,
)
from pgdb.patterns import pattern

_RESUME = {
    "continue": "-exec-continue",
    "step": "-exec-step",
    "next": "-exec-next",
    "stepi": "-exec-step-instruction",
    "nexti": "-exec-next-instruction",
    "finish": "-exec-finish",
    "until": "-exec-until",
}
_PRINTS = pattern(
    r"(?:p|print|inspect|output|call|display|bt|backtrace|where|info (?:args|locals|display))\b"
)
_ASKS_ONCE = pattern(
    r"(?:p|print|inspect|output|x|bt|backtrace|where|info|show|ptype|whatis|list|l|disassemble|set"
    r"|frame|up|down)\b|thread(?: \d+)?\Z"
)
_SCRIPTED = pattern(r"(?:python|py|python-interactive|pi|guile|gu|source|define|commands)\b")
_RECORDS = pattern(r"rec(?:o(?:rd?)?)?(?:\s+(?:full|b\w*|pt)\b.*)?\s*\Z")
_ONLY_STOPS = pattern(r"(?:b|br|break|tb|tbreak|hbreak|thbreak)\b")


def prints_values(operation: AnyOperation) -> bool:
    """Return whether an operation makes GDB print values of variables, which can be of any size.

    The values in stacks have a limit of their own.
    """
    if isinstance(operation, Console):
        return not operation.run and _PRINTS.match(operation.command) is not None
    return isinstance(operation, Evaluate | SelectFrame | ListVariables)


def records(command: str) -> bool:
    """Return whether a command begins to record the execution of the rank."""
    return _RECORDS.match(command) is not None


def has_several_threads(pid: int) -> bool:
    """Return whether a process has more than one thread; False if it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def computes(operation: AnyOperation) -> bool:
    """Return whether an operation makes GDB carry out code of the user's, which can have no end."""
    if isinstance(operation, Console):
        is_code = operation.is_user_defined or _SCRIPTED.match(operation.command) is not None
        return is_code and not operation.run
    return isinstance(operation, Script)


def prints_unasked(operation: AnyOperation) -> bool:
    """Return whether GDB may print values by itself after an operation, such as at a later stop."""
    match operation:
        case Console(command=command):
            return _ASKS_ONCE.match(command) is None
        case InsertBreakpoint(command=command):
            return _ONLY_STOPS.match(command) is None
        case _:
            return isinstance(operation, Script | BreakpointCommands)


def prints_at_stops(operation: AnyOperation) -> bool:
    """Return whether an operation can make GDB's own scripts print values at a later stop."""
    if isinstance(operation, Console):
        return _SCRIPTED.match(operation.command) is not None
    return isinstance(operation, Script | BreakpointCommands)


def run_command(operation: Resume | Console) -> str:
    """Return the MI command that sets the rank running."""
    if isinstance(operation, Console):
        mi, word, argument = "", operation.command, ""
    else:
        word, argument = operation.command, operation.argument
        mi = _RESUME.get(word, "")
    if mi and not argument:
        return mi
    # In the foreground GDB would read nothing until the rank has stopped: neither an interrupt nor
    # the end of its input.
    line = f"{word} {argument}".strip().removesuffix("&").rstrip()
    return console(f"{line} &")
