"""MI commands as text, and MI output lines cut into their parts.

The lines of all ranks of a host differ only in addresses and thread numbers. Those are extracted
first; the rest, the line's *shape*, is parsed once for the whole host, and the addresses are
inserted only when the payload is read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pgdb.patterns import pattern

_LARGEST_SHARED = 64 * 1024
_SMALL = 4096

_RECORD = pattern(r"(\d*)([\^*+=])(.*)", re.S)
_NAME = pattern(r"([\w-]+)(?:,|\Z)")
# GDB before version 14 writes the commands of a breakpoint as a tuple without names (sourceware bug
# 24285), which no MI parser accepts. Other strings are skipped, those without an end too: each part
# is matched only once.
_SCRIPT = pattern(
    r"""script=\{(?P<commands>(?:"(?:[^"\\]|\\.)*+",?)*+)\}|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)""", re.S
)
# An item of a tuple or list: an optional name, a string or opening bracket, closing brackets. A
# name with a MARK, whose address was a part of the name, is none.
_ITEM = pattern(
    r'(?:([^\s"{}\[\],=\\\x01]+)=)?(?:"([^"\\]*(?:\\.[^"\\]*)*)"|([{\[]))([}\]]*)(,?)|(.)', re.S
)
_ADDRESS = pattern(r"(0x[0-9a-f]+)")
_ADDRESS_OR_THREAD = pattern(r"(0x[0-9a-f]+|(?<=LWP )\d+)")
_STILL_RUNS = pattern(r"(selected|target|thread).* is running", re.I)
_ESCAPE = pattern(r"\\(?:([0-7]{3}(?:\\[0-7]{3})*)|(.))", re.S)
_ESCAPED = {**{each: each for each in "'\\\""}, "a": "\a", "b": "\b", "e": "\033", "f": "\f"}
_ESCAPED |= {"n": "\n", "r": "\r", "t": "\t"}
_SHOWN = 80
MARK = "\x01"
"""Placeholder in a shape for an address or a thread's number."""


def quote(text: str) -> str:
    """Return *text* as an MI c-string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def console(command: str) -> str:
    """Return the MI command that runs a GDB command line."""
    return f"-interpreter-exec console {quote(command)}"


class Shape:
    """A record without its addresses and thread numbers, parsed once for all ranks of a host.

    Its payload is shared and must not be changed.
    """

    __slots__ = ("_plan", "arguments", "frames", "name", "payload", "varying_count")

    def __init__(self, name: str, payload: dict[str, Any], varying_count: int) -> None:
        self.name = name
        self.payload = payload
        """Payload with marks in place of the extracted parts."""
        self.varying_count = varying_count
        self.frames: Any = None
        """The payload decoded by :mod:`.decode` as a list of frames, once for all ranks."""
        self.arguments: Any = None
        """The same as a list of arguments, separate since GDB may answer with another list than
        asked for."""
        self._plan = _plan(payload) if varying_count else None

    def fill(self, varying: Sequence[str]) -> dict[str, Any]:
        """Return the payload with *varying* in place of the marks."""
        if self._plan is None:
            return self.payload
        filled: dict[str, Any] = _fill(self._plan, iter(varying).__next__)
        return filled


class Line:
    """One line of MI output, cut into its parts."""

    __slots__ = ("_payload", "kind", "name", "shape", "text", "token", "varying")

    def __init__(
        self,
        kind: str,
        token: int | None = None,
        name: str = "",
        payload: dict[str, Any] | None = None,
        text: str = "",
        *,
        shape: Shape | None = None,
        varying: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        """``^`` result, ``*`` state, ``=`` notice, ``~`` console, ``&`` log, ``@`` target, or
        empty."""
        self.token = token
        self.name = name
        self.text = text
        self.shape = shape
        """Shape shared with the lines of other ranks; None if it was not determined."""
        self.varying = varying
        """The extracted parts, in the order of the text."""
        self._payload = payload

    @property
    def payload(self) -> dict[str, Any]:
        """The fields after the name; shared with equal lines, so they must not be changed."""
        if self._payload is None:
            self._payload = self.shape.fill(self.varying) if self.shape is not None else {}
        return self._payload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Line) and self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment]  # its payload is a dict

    def __repr__(self) -> str:
        return f"Line{self._parts()}"

    def _parts(self) -> tuple[object, ...]:
        return self.kind, self.token, self.name, self.payload, self.text


_NO_LINE = Line("")


class Result:
    """GDB's answer to one MI command."""

    __slots__ = ("complaints", "kind", "line", "notices", "text")

    def __init__(
        self, kind: str, payload: dict[str, Any] | None = None, text: str = "", log: str = ""
    ) -> None:
        self.kind = kind
        """``done``, ``running``, ``error`` or ``exit``."""
        self.line = Line("^", name=kind, payload=payload) if payload else _NO_LINE
        """The result line."""
        self.text = text
        """Console output of the command."""
        self.complaints: list[tuple[int, str]] = [(len(text), log)] if log else []
        """Parts of errors and warnings, each with the number of characters of *text* before it."""
        self.notices: list[tuple[str, dict[str, Any]]] = []
        """``=…`` records that arrived during the command: name and payload."""

    @property
    def payload(self) -> dict[str, Any]:
        """Fields of the result line."""
        return self.line.payload

    @property
    def log(self) -> str:
        """Errors and warnings printed during the command."""
        return "".join(part for _, part in self.complaints)

    @property
    def printed(self) -> str:
        """The console output with the errors and warnings in their order, on lines of their own."""
        parts: list[str] = []
        shown = 0
        for at, part in self.complaints:
            if at > shown:
                # A complaint within a line follows the line, such as that about a display.
                end = self.text.find("\n", at - 1) + 1 or len(self.text)
                parts.append(self.text[shown:end])
                shown = end
                if not parts[-1].endswith("\n"):
                    parts.append("\n")
            parts.append(part)
        return "".join([*parts, self.text[shown:]])

    def change_text(self, text: str) -> None:
        """Replace the console output; errors and warnings follow it then."""
        log = self.log
        self.text, self.complaints = text, [(len(text), log)] if log else []

    @property
    def message(self) -> str:
        """The error message, empty if there is none."""
        return str(self.payload.get("msg", "")) if self.kind == "error" else ""

    @property
    def answer(self) -> str:
        """The console output, without the warning of GDB that the frame has another language.

        A command "with language c" gives it in a frame of C++ or Fortran.
        """
        return _OTHER_LANGUAGE.sub("", self.text)

    @property
    def says_that_it_runs(self) -> bool:
        """Whether GDB has refused a command because the rank runs."""
        return _STILL_RUNS.search(self.message) is not None

    def __repr__(self) -> str:
        return f"Result({self.kind!r}, {self.payload!r}, {self.text!r}, {self.log!r})"


_OTHER_LANGUAGE = pattern(r"\n?Warning: the current language does not match this frame\.\n?\Z")

_TEXT_RECORD = pattern(r"(?m)^[~&](\"(?:[^\"\\\n]|\\.)*\")(?:\n|\Z)")

_NOTICE = pattern(r"(?m)^(=(?:breakpoint-(?:created|modified|deleted)|library-loaded),.+)(?:\n|\Z)")


def cut(line: str | bytes) -> Line:
    """Return the parts of an MI output line; prompts and foreign text have an empty kind."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    try:
        return _cut(text)
    except (ValueError, RecursionError):
        # Code inside GDB can print lines past MI: a token of thousands of digits, a thousand
        # brackets. Such a line must not affect the results after it.
        return Line(kind="", text=text)


def without_records(text: str, levels: int) -> str:
    """Return the text of a command in which GDB 18 has left records of text and of warnings.

    Each of the *levels* of commands that carry out another one has made a record of the text of the
    next, records included.
    """
    for _ in range(levels):
        text = _TEXT_RECORD.sub(lambda found: _unquote(found[1]), text)
    return text


def notices_in(text: str) -> tuple[str, list[Line]]:
    """Separate the notices that GDB 18 has written into the text of a command.

    It does so where a command returns the text of another one, as ``thread apply`` does.

    >>> text, notices = notices_in('a\\n=breakpoint-deleted,id="1"\\nb\\n')
    >>> text, [each.name for each in notices]
    ('a\\nb\\n', ['breakpoint-deleted'])
    """
    if "=breakpoint-" not in text and "=library-" not in text:
        return text, []
    return _NOTICE.sub("", text), [cut(each) for each in _NOTICE.findall(text)]


def _cut(line: str) -> Line:
    first = line[:1]
    if first and first in "~&@":
        return Line(kind=first, text=_unquote(line[1:]))
    match = _RECORD.match(line)
    if match is None:
        return Line(kind="", text=line)
    digits, kind, rest = match.groups()
    token = int(digits) if digits else None
    if "0x" in rest and len(rest) <= _LARGEST_SHARED and MARK not in rest:
        pattern = _ADDRESS_OR_THREAD if "LWP " in rest else _ADDRESS
        parts = pattern.split(rest)
        varying = parts[1::2]
        shape = _shape(kind + MARK.join(parts[::2]), len(varying))
        if shape is not None:
            return Line(kind, token, shape.name, shape=shape, varying=varying)
    elif len(rest) <= _LARGEST_SHARED:
        shape = _shape(kind + rest, 0)
        assert shape is not None
        return Line(kind, token, shape.name, shape=shape)
    name, payload = _record(kind + rest)
    return Line(kind, token, name, payload)


# The results are shared and must not be changed. The lines of the cached small shapes have at
# most a megabyte in all, those of the large ones too; a shape takes several times the size of its
# line.
def _shape(text: str, varying_count: int) -> Shape | None:
    """Return the shape of a record; None if the extracted parts cannot be inserted again."""
    return (_small_shape if len(text) <= _SMALL else _large_shape)(text, varying_count)


def _make_shape(text: str, varying_count: int) -> Shape | None:
    if not varying_count:
        return Shape(*_record(text), 0)
    match = _NAME.match(text, 1)
    if match is None:
        return None
    payload_or_none, is_in_order = _parse(text[match.end() :])
    if payload_or_none is None or not is_in_order:
        return None
    shape = Shape(match[1], payload_or_none, varying_count)
    # A string may contain a mark of its own.
    return shape if _count_marks(payload_or_none) == varying_count else None


_small_shape = functools.lru_cache(maxsize=2048)(_make_shape)
_large_shape = functools.lru_cache(maxsize=256)(_make_shape)


def _record(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the payload of a record.

    A malformed result becomes an error, so that the sender of the command gets an answer.
    """
    if "script={" in text:
        text = _SCRIPT.sub(_with_brackets, text)
    match = _NAME.match(text, 1)
    if match is not None:
        payload, _ = _parse(text[match.end() :])
        if payload is not None:
            return match[1], payload
    if text[0] == "^":
        start = text[1:].partition("\n")[0][:_SHOWN]
        return "error", {"msg": f"cannot parse the answer of GDB: {start}"}
    return (match[1] if match is not None else ""), {}


def _with_brackets(match: re.Match[str]) -> str:
    commands = match["commands"]
    return match[0] if commands is None else f"script=[{commands}]"


def _parse(text: str) -> tuple[dict[str, Any] | None, bool]:
    """Return the payload in *text*, and whether its order is that of the text."""
    root: dict[str, Any] = {}
    if not text:
        return root, True
    node: dict[str, Any] | list[Any] = root
    outer: list[dict[str, Any] | list[Any]] = []
    is_in_order = True
    is_whole = False
    end = len(text)
    for match in _ITEM.finditer(text):
        name, string, opening, closing, comma, foreign = match.groups()
        if foreign is not None:
            return None, False
        value: Any
        if opening is None:
            try:
                value = unescape(string) if "\\" in string else string
            except ValueError:
                return None, False
        else:
            value = {} if opening == "{" else []
        if isinstance(node, list):
            node.append(value)
        elif name is None:
            return None, False
        elif name not in node:
            node[name] = value
        else:
            # GDB repeats fields, as for two watchpoints at once (bug 22217).
            is_in_order = False
            known = node[name]
            if isinstance(known, list):
                known.append(value)
            else:
                node[name] = [known, value]
        if opening is not None:
            outer.append(node)
            node = value
            if not closing:
                if comma:
                    return None, False
                continue
        for bracket in closing:
            if not outer or (bracket == "}") is isinstance(node, list):
                return None, False
            node = outer.pop()
        if not comma:
            is_whole = match.end() == end
            break
    return (root, is_in_order) if is_whole and not outer else (None, False)


def _unquote(text: str) -> str:
    text = text.strip()
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    body = text[1:-1]
    if "\\" not in body:
        return body
    try:
        return unescape(body)
    except ValueError:
        return body


def unescape(text: str) -> str:
    """Return a c-string's text.

    :raises ValueError: if it has an escape that GDB does not write.
    """
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    octal, letter = match.groups()
    if octal is None:
        try:
            return _ESCAPED[letter]
        except KeyError:
            raise ValueError(f"no escape of GDB's: {match[0]!r}") from None
    # GDB escapes the bytes of a character one by one.
    data = bytes([int(each, 8) for each in octal.split("\\")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return match[0]


# -- extracted parts, and their insertion -------------------------------------------------------

# A plan describes the parts of a payload that hold marks: a string's pieces between the marks, or a
# container with the plans of its items that have marks; None is a mark alone.
_Plan = Any


def _plan(node: Any) -> _Plan:
    if isinstance(node, str):
        return node.split(MARK) if node != MARK else None
    items: Iterator[tuple[Any, Any]] = iter(
        node.items() if isinstance(node, dict) else enumerate(node)
    )
    return node, [(key, _plan(item)) for key, item in items if _count_marks(item)]


def _fill(plan: _Plan, take: Callable[[], str]) -> Any:
    if isinstance(plan, list):
        text: str = plan[0]
        for piece in plan[1:]:
            text += take() + piece
        return text
    node, parts = plan
    filled = node.copy()
    for key, part in parts:
        filled[key] = take() if part is None else _fill(part, take)
    return filled


def _count_marks(node: Any) -> int:
    if isinstance(node, str):
        return node.count(MARK)
    return sum(map(_count_marks, node.values() if isinstance(node, dict) else node))
