"""Search for a name that the selected frame does not know, in other scopes; runs in GDB's Python.

Variables of a Fortran module that the frame's procedure does not use, of a C++ namespace or class,
and of another frame on the stack have names that GDB accepts, or a frame that has them.
"""

from __future__ import annotations

import json
import re

import gdb
import printers_in_gdb as printers  # type: ignore[import-not-found]

_MOST_SCOPES, _MOST_FRAMES, _MOST_PLACES = 16, 64, 200
_FRAME_IS_NAMED = 40
"""Length up to which the name of a function is written out."""
_SCOPES = r"((?:(?:\(anonymous namespace\)|[A-Za-z_]\w*(?:<[^;]*?>)?)::)+{}\b)"
_VALUES = {"true": "1", "TRUE": "1", "false": "0", "FALSE": "0", "NULL": "0", "nullptr": "0"}
_MACRO = re.compile(r"[A-Z][A-Z\d]*_?[A-Z\d_]*\Z")
"""A name in capitals, as macros have it."""


def find(name: str, text: str, has_frames: bool) -> None:
    """Write where a name is known, as JSON: expressions for it, the function of a frame, or the
    value of a word of C that is a macro.

    :param text: the line or expression in which it stands.
    :param has_frames: whether a frame further out helps.
    """
    found = _qualified(name, text) or _in_scopes(name)
    function = _function_with(name) if has_frames and not found else ""
    macro = _macro(name) if not found and not function else ""
    gdb.write(json.dumps({"names": found, "function": function, "macro": macro}) + "\n")


def _macro(name: str) -> str:
    """Return the value of a macro of C's own headers, or ``?`` for a name written as macros are.

    It is empty for other names, and in Fortran.
    """
    if printers.is_in_fortran():
        return ""
    return _VALUES.get(name, "?" if _MACRO.match(name) else "")


def _qualified(name: str, text: str) -> list[str]:
    """Return the name with its scopes as *text* has it, if GDB knows it in quotes alone.

    The frame is of a language without scopes then.
    """
    full = re.search(rf"(?<![\w':]){re.escape(name)}(?:::\w+)+", text)
    return [quoted] if full is not None and _is_known(quoted := f"'{full[0]}'") else []


def _in_scopes(name: str) -> list[str]:
    """Return expressions for the variables of this name in namespaces, classes, and modules."""
    word = re.escape(name)
    try:
        # GDB 13 looks for "::x" only in files whose symbols it has read in full.
        listed = gdb.execute(rf"info variables -q -n \b{word}$", False, True)
    except gdb.error:
        return []
    names = []
    for line in listed.splitlines()[:_MOST_PLACES]:
        found = re.search(_SCOPES.format(word), line)
        if found is not None and found[1] not in names:
            names.append(found[1])
    known = (_known_form(each) for each in names[:_MOST_SCOPES])
    return [each for each in known if each]


def _known_form(name: str) -> str:
    """Return the form of a full name that GDB knows in the selected frame; empty without one."""
    return next((each for each in (name, f"'{name}'") if _is_known(each)), "")


def _is_known(expression: str) -> bool:
    try:
        value = gdb.parse_and_eval(expression)
        # Fortran has texts in these quotes.
        return value.address is not None or value.is_optimized_out
    except gdb.error:
        return False


def _function_with(name: str) -> str:
    """Return the function of the nearest frame further out that has a variable of this name."""
    try:
        frame = gdb.selected_frame().older()
    except gdb.error:
        return ""
    for _ in range(_MOST_FRAMES):
        if frame is None or not frame.is_valid():
            break
        function = frame.name() or ""
        if _has(frame, name) and len(function) <= _FRAME_IS_NAMED:
            return str(function)
        frame = frame.older()
    return ""


def _has(frame: gdb.Frame, name: str) -> bool:
    """Return whether a block of a frame's function has a variable of this name."""
    try:
        block = frame.block()
    except (gdb.error, RuntimeError):  # without debug information
        return False
    while block is not None and not block.is_global and not block.is_static:
        if any(symbol.name == name and _is_variable(symbol) for symbol in block):
            return True
        block = None if block.function is not None else block.superblock
    return False


def _is_variable(symbol: gdb.Symbol) -> bool:
    return bool(symbol.is_variable or symbol.is_argument)
