"""Removal of private data from logs that users send to others. No I/O.

Structure stays: kinds of answers by rank, places, durations, error messages of GDB. Data are
removed: values, texts, arguments of functions and programs, literals and assignments in
expressions, and the arguments of commands outside of a short list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pgdb.frontend.api import gdb_commands
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.graph.wire import plain_text
from pgdb.mpi_calls import MpiCallStatus
from pgdb.overlay.messages import AnyOperation
from pgdb.patterns import pattern
from pgdb.rank_sample import RankSample
from pgdb.records import (
    Block,
    Breakpoint,
    BreakpointList,
    BreakpointsMade,
    Event,
    Exit,
    Failure,
    FileWritten,
    Frame,
    Gone,
    Record,
    Stack,
    Stop,
    Text,
    Threads,
    Value,
    Variables,
    Various,
)

HIDDEN = "…"
MOST_FRAMES = 40
MOST_CLASSES = 64
MOST_TEXT = 4000
"""Maximum length of a text, in characters; a longer text is cut."""
SECRET_NAME = pattern(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|COOKIE|AUTH|BEARER|SIGNATURE|DSN\Z|._PWD\Z", re.IGNORECASE
)
"""Names of variables and options whose values may be secrets."""
SHORTEST_SECRET = 6
_MAY_BE_PRIVATE = pattern(r"\A(?=.*[^\W\d]).{3,}\Z", re.DOTALL)
PEM = pattern(r"-----BEGIN [^-]*-----.*?(?:-----END [^-]*-----|\Z)", re.DOTALL)
# Keys and certificates without their header, in base64 or hexadecimal.
LONG_WORD = pattern(r"[A-Za-z0-9+=]{48,}|[0-9A-Fa-f]{32,}")
_LITERAL = pattern(r'"(?:\\.|[^"\\])*"?|\'(?:\\.|[^\'\\])*\'?')
_ASSIGNMENT = pattern(r"(?<![=!<>])=(?!=).*", re.DOTALL)
# Arguments of these commands are names, places and numbers; arguments of others can be anything.
_WITH_PLAIN_ARGUMENTS = frozenset(
    "info list frame up down thread x ptype whatis backtrace disassemble symbol display undisplay "
    "break tbreak hbreak thbreak rbreak watch rwatch awatch catch until advance jump finish "
    "stepi nexti step next continue delete enable disable ignore condition".split()
)
_JSON = msgspec.json.Encoder(enc_hook=plain_text)
_SHORT_OPTION = pattern(r"-\w{1,2}\Z")


def private_words(line: Sequence[str], is_program: Callable[[str], bool]) -> list[str]:
    """Return the private words of a launcher's command line.

    All words behind the program are private, also options: ``-psecret`` is one. Before the program,
    options of the launcher and the program's name stay. If no word is the program, options of one
    or two letters stay.

    >>> private_words(["mpirun", "-n", "4", "./a", "-psecret", "x"], lambda word: word == "./a")
    ['4', '-psecret', 'x']
    >>> private_words(["mpirun", "-n", "4", "./a", "-psecret"], lambda word: False)
    ['4', './a', '-psecret']
    """
    words = [(at, word) for at, word in enumerate(line) if at and not word.startswith("-")]
    at = next((at for at, word in words if is_program(word)), None)
    if at is None:
        return [word for word in line[1:] if not _SHORT_OPTION.match(word)]
    behind = line[at + 1 :]
    name = line[at : at + 1]
    public = {*name, *(Path(each).name for each in name)}
    return [word for word in (*(w for i, w in words if i < at), *behind) if word not in public]


class Redactor:
    """Filter that removes private data from texts."""

    def __init__(
        self, environment: Mapping[str, str], *, hidden: Iterable[str] = (), keeps_values: bool
    ) -> None:
        """Hide values of *environment* that look like secrets, the words *hidden*, and the home
        directory."""
        secrets = {
            value
            for name, value in environment.items()
            if SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET
        }
        # The longest first, since one can contain another.
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._home = environment.get("HOME", "").rstrip("/")
        self._words: re.Pattern[str] | None = None
        self._hidden: set[str] = set()
        self.keeps_values = keeps_values
        self.hide(hidden)

    def hide(self, words: Iterable[str]) -> None:
        """Hide the arguments of a program from now on, except numbers, which reveal nothing."""
        if self.keeps_values:
            return
        for word in words:
            self._hidden |= {
                part for part in (word, word.partition("=")[2]) if _MAY_BE_PRIVATE.search(part)
            }
        if self._hidden:
            either = "|".join(map(re.escape, sorted(self._hidden, key=len, reverse=True)))
            self._words = re.compile(rf"(?<!\w)(?:{either})(?!\w)")

    def text(self, text: str) -> str:
        """Return a text without secrets, with ``~`` for the home directory, cut to the maximum
        length."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        if self._words is not None:
            text = self._words.sub(HIDDEN, text)
        text = LONG_WORD.sub(HIDDEN, PEM.sub(HIDDEN, text))
        if self._home:
            text = re.sub(rf"{re.escape(self._home)}(?=/|\W|\Z)", "~", text)
        if len(text) <= MOST_TEXT:
            return text
        # The end of a traceback has the error, its beginning the place.
        half = MOST_TEXT // 2
        return f"{text[:half]} … ({len(text)} characters) … {text[-half:]}"

    def lines(self, text: str) -> str:
        """Return a text of many lines, each filtered by :meth:`text`."""
        return "".join(f"{self.text(line)}\n" for line in text.splitlines())

    def expression(self, text: str) -> str:
        """Return an expression without text literals and without assigned values."""
        if not self.keeps_values:
            text = _ASSIGNMENT.sub(f"= {HIDDEN}", _LITERAL.sub(f'"{HIDDEN}"', text))
        return self.text(text)

    def command(self, line: str) -> str:
        """Return a GDB command: whole if its arguments are names and places, otherwise its first
        word."""
        word = gdb_commands.resolve(line)
        if self.keeps_values or word in _WITH_PLAIN_ARGUMENTS:
            return self.expression(line)
        return f"{word} {HIDDEN}" if line.strip() != word else word

    def line(self, words: Iterable[str]) -> str:
        """Return a program's command line as the program and the number of further words."""
        first, *rest = words or ("",)
        if self.keeps_values:
            return self.text(" ".join((first, *rest)))
        return self.text(first) + (f" {HIDDEN} ({len(rest)} words)" if rest else "")

    def operation(self, operation: AnyOperation) -> dict[str, Any]:
        """Return the description of a request."""
        described: dict[str, Any] = {
            name: value
            for name, value in msgspec.structs.asdict(operation).items()
            if isinstance(value, bool | int | float) and value
        }
        for name, how in operation.logged.items():
            value = getattr(operation, name)
            match how:
                case "expression":
                    described[name] = self.expression(value)
                case "command":
                    described[name] = self.command(value)
                case "count":
                    described["lines"] = len(value)
                case "as it is":
                    described[name] = list(value) if isinstance(value, tuple) else value
        return {"what": type(operation).__name__, **described}

    def classes(
        self, classes: Iterable[EquivalenceClass[Record]] | Iterable[EquivalenceClass[Event]]
    ) -> list[dict[str, Any]]:
        """Return ranks and kinds of records; of very many classes, the first ones."""
        found: list[EquivalenceClass[Any]] = list(classes)
        described = [
            {"ranks": self.text(str(each.ranks)), **self._record(each.filled)}
            for each in found[:MOST_CLASSES]
        ]
        if len(found) > MOST_CLASSES:
            described.append({"what": f"{len(found) - MOST_CLASSES} more classes"})
        return described

    def _record(self, record: Record | Event) -> dict[str, Any]:
        described: dict[str, Any] = {"what": type(record).__name__}
        if self.keeps_values:
            if isinstance(record, Block):
                return described | {"dtype": record.dtype, "shape": list(record.shape)}
            return described | {"record": self.text(_JSON.encode(record).decode())}
        match record:
            case Stack():
                described["frames"] = [self._frame(frame) for frame in record.frames[:MOST_FRAMES]]
                described["depth"] = len(record.frames)
            case Threads():
                described["stacks"] = len(record.stacks)
                described["threads"] = sum(each.count for each in record.stacks)
            case Value() | Text():
                described["characters"] = len(record.text)
            case MpiCallStatus():
                described["state"] = record.state
                described["calls"] = [each.function for each in record.calls]
            case RankSample():
                described["threads"] = len(record.threads)
            case FileWritten():
                described["path"] = self.text(record.path)
            case Variables():
                described["names"] = [self.text(each.name) for each in record.items[:MOST_FRAMES]]
            case Block():
                described |= {"dtype": record.dtype, "shape": list(record.shape)}
            case Failure():
                described["message"] = self.text(record.message)
                if record.output:
                    described["output"] = self.text(record.output)
            case Various():
                described["of"] = type(record.template).__name__
            case Stop():
                described |= {
                    "reason": record.reason,
                    "run": record.run,
                    "breakpoint": record.breakpoint,
                    "breakpoints": list(record.breakpoints),
                    "signal": record.signal,
                    "inside": record.inside,
                    "hit": record.hit,
                    "frame": self._frame(record.frame) if record.frame is not None else "",
                }
            case Exit():
                described |= {"code": record.code, "signal": record.signal, "run": record.run}
            case Gone():
                described["why"] = self.text(record.why)
            case BreakpointsMade() | BreakpointList():
                described["breakpoints"] = [_breakpoint(each) for each in record.breakpoints]
            case _:
                pass
        return described

    def _frame(self, frame: Frame) -> str:
        where = f"{frame.file}:{frame.line}" if frame.line else frame.library
        return self.text(f"{frame.function} {where}".rstrip())


def _breakpoint(made: Breakpoint) -> str:
    where = f"{made.file}:{made.line}" if made.line else made.function
    return f"{made.number} {made.kind} {where} ({made.location_count})".replace("  ", " ")
