"""The text of MI commands, and the first cut of the lines that come back."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import Any

from pygdbmi import gdbmiparser
from pygdbmi.gdbescapes import unescape

_RESULT = re.compile(r"(\d*)([\^*+=])(.*)", re.S)
# GDB before version 14 writes the commands of a breakpoint as a tuple without names
# (sourceware bug 24285), which no MI parser accepts.
_SCRIPT = re.compile(r'script=\{((?:"(?:[^"\\]|\\.)*",?)*)\}')


def quote(text: str) -> str:
    """Return *text* as an MI c-string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def console(command: str) -> str:
    """Return the MI command that runs a GDB command line."""
    return f"-interpreter-exec console {quote(command)}"


@dataclass(slots=True)
class Result:
    """How GDB answered one MI command."""

    kind: str
    """``done``, ``running``, ``error`` or ``exit``."""
    payload: dict[str, Any]
    text: str = ""
    """What it printed on its console meanwhile."""
    log: str = ""
    """What it printed as errors and warnings meanwhile."""
    notices: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """``=…`` records that came meanwhile: name and payload."""

    @property
    def message(self) -> str:
        """The error message, empty if it is none."""
        return str(self.payload.get("msg", "")) if self.kind == "error" else ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of MI output, cut into its parts."""

    kind: str
    """``^`` result, ``*`` state, ``=`` notice, ``~`` console, ``&`` log, ``@`` target, or empty."""
    token: int | None = None
    name: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    text: str = ""


def cut(line: str) -> Line:
    """Return the parts of an MI output line; prompts and foreign text have an empty kind."""
    try:
        return _cut(line)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError):
        # What runs inside GDB can print past MI, and pygdbmi raises what comes along; one odd
        # line must not take the results behind it with it.
        return Line(kind="", text=line)


def _cut(line: str) -> Line:
    first = line[:1]
    if first and first in "~&@":
        return Line(kind=first, text=_unquote(line[1:]))
    match = _RESULT.match(line)
    if match is None:
        return Line(kind="", text=line)
    name, payload = _parse(match[2] + match[3])
    return Line(
        kind=match[2], token=int(match[1]) if match[1] else None, name=name, payload=payload
    )


# Equal text from the GDBs of one host is parsed once: pygdbmi reads 3 to 14 MB/s. The result is
# shared, so that nobody may change it.
@functools.lru_cache(maxsize=2048)
def _parse(text: str) -> tuple[str, dict[str, Any]]:
    if "script={" in text:
        text = _SCRIPT.sub(r"script=[\1]", text)
    record = gdbmiparser.parse_response(text)
    payload = record.get("payload")
    return str(record.get("message", "")), payload if isinstance(payload, dict) else {}


def _unquote(text: str) -> str:
    text = text.strip()
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    body = text[1:-1]
    return unescape(body) if "\\" in body else body
