"""Decoding of GDB's descriptions of breakpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from pgdb.backend.gdb import decode
from pgdb.patterns import pattern
from pgdb.records import Breakpoint, Location

_NOTE = pattern(r"Note: breakpoints? (\d.*) also set at pc 0x[0-9a-f]+\.")
_OTHER = pattern(r"(\d+)((?: \([^()]*\))*)")
_INSTALLED = {"y": True, "n": False}


def breakpoint_of(payload: Mapping[str, Any]) -> Breakpoint:
    """Decode a ``bkpt={…}``."""
    listed = decode.mappings(payload.get("locations"))
    pending = "pending" in payload
    where = listed[0] if listed else payload
    file, line = str(where.get("file", "")), decode.whole_number(where.get("line", "0"))
    original = str(payload.get("original-location", payload.get("pending", ""))).strip()
    symbol = str(where.get("at", ""))
    if original.startswith("*0x"):
        # The place that "break" alone resolved to, which differs from rank to rank.
        original = f"{os.path.basename(file)}:{line}" if line else symbol or original
    return Breakpoint(
        number=decode.whole_number(payload.get("number", "0")),
        kind=str(payload.get("type", "breakpoint")),
        disposition=str(payload.get("disp", "keep")),
        enabled=payload.get("enabled") != "n",
        what=_watched(payload),
        function=str(where.get("func", "")),
        file=file,
        line=line,
        location_count=0 if pending else max(1, len(listed)),
        original=original,
        at=symbol,
        condition=str(payload.get("cond", "")),
        times=decode.whole_number(payload.get("times", "0")),
        ignore=decode.whole_number(payload.get("ignore", "0")),
        thread=str(decode.first(payload.get("thread", ""))),
        task=str(payload.get("task", "")),
        disable_after=decode.whole_number(payload.get("enable", "0")),
        passes=decode.whole_number(payload.get("pass", "0")),
        commands=tuple(map(str, decode.sequence(payload.get("script")))),
        event=str(payload.get("catch-type", "")),
        matching=str(payload.get("regexp", "")),
        locations=tuple(map(_location, listed)),
        installed=_INSTALLED.get(str(payload.get("installed"))),
    )


def addresses_of(payload: Mapping[str, Any]) -> frozenset[int]:
    """Return the addresses of a ``bkpt={…}`` at which GDB inserts an instruction."""
    listed = (payload, *decode.mappings(payload.get("locations")))
    texts = (str(each.get("addr", "")) for each in listed)
    return frozenset(int(text, 16) for text in texts if text.startswith("0x"))


def _location(payload: Mapping[str, Any]) -> Location:
    return Location(
        number=decode.whole_number(str(payload.get("number", "")).partition(".")[2]),
        enabled=payload.get("enabled") == "y",
        condition_is_invalid=payload.get("enabled") == "N",
        function=str(payload.get("func", "")),
        file=str(payload.get("file", "")),
        line=decode.whole_number(payload.get("line", "0")),
        at=str(payload.get("at", "")),
        installed=_INSTALLED.get(str(payload.get("installed"))),
    )


def notes_of(text: str, public: Callable[[int], int]) -> str:
    """Return GDB's notes about other breakpoints at an address, without the address.

    The address differs from rank to rank. *public* returns the job-wide number for a number of
    GDB's, 0 for a breakpoint that users do not see.

    >>> notes_of("Note: breakpoints 1 and 4 (disabled) also set at pc 0x1130.\\nBreakpoint 5", int)
    'Note: breakpoints 1 and 4 (disabled) also set at pc.'
    """
    notes = []
    for match in _NOTE.finditer(text):
        found = ((public(int(number)), state) for number, state in _OTHER.findall(match[1]))
        others = list(dict.fromkeys(f"{number}{state}" for number, state in found if number))
        if others:
            first = f"{', '.join(others[:-1])} and " if others[1:] else ""
            plural = "s" if others[1:] else ""
            notes.append(f"Note: breakpoint{plural} {first}{others[-1]} also set at pc.")
    return "\n".join(dict.fromkeys(notes))


def warnings_of(log: str) -> str:
    r"""Return GDB's warnings about a breakpoint that it has made all the same.

    >>> warnings_of("warning: failed to validate condition at location 1, disabling:\n  No symbol")
    'warning: failed to validate condition at location 1, disabling:\n  No symbol'
    """
    start = log.find("warning: ")
    return log[start:].rstrip() if start >= 0 else ""


def with_symbol(made: Breakpoint, symbol: str) -> Breakpoint:
    """Return a breakpoint with the symbol at its address, where GDB does not name it."""
    if not symbol:
        return made
    original = symbol if made.original.startswith("*0x") else made.original
    return replace(made, at=symbol, original=original)


def _watched(payload: Mapping[str, Any]) -> str:
    """Return the watched expression, or the caught event, which is the same on all ranks."""
    if (kind := payload.get("catch-type")) in ("fork", "vfork"):
        # After the first hit GDB has the number of the new process here.
        return str(kind)
    return str(payload.get("what", payload.get("catch-type", "")))
