"""The text of MI commands, and the lines that come back, from bytes to their parts.

Lines of all ranks of a host are alike but for addresses and thread numbers. Those are taken out
first; what is left, the line's *shape*, is parsed once for the whole host, and addresses are put
in where somebody looks at them. No byte is looked at again because further ones have come.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pgdb.patterns import pattern

BIG_LINE_BYTES = 256 * 1024
"""A longer line is handed on in pieces, for a thread to parse."""
MAX_LINE_BYTES = 512 << 20
"""Of a longer line only the start is kept: it is more than the largest block that is read."""
_LARGEST_SHARED = 64 * 1024
_SMALL = 4096
_RESULT = pattern(rb"(\d*)\^")

_RECORD = pattern(r"(\d*)([\^*+=])(.*)", re.S)
_NAME = pattern(r"([\w-]+)(?:,|\Z)")
# GDB before version 14 writes the commands of a breakpoint as a tuple without names
# (sourceware bug 24285), which no MI parser accepts.
# Other strings are passed over, those without an end as well: no part is looked at twice.
_SCRIPT = pattern(
    r"""script=\{(?P<commands>(?:"(?:[^"\\]|\\.)*+",?)*+)\}|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)""", re.S
)
# An item of a tuple or list: perhaps a name, a string or what opens a container, what it closes.
_ITEM = pattern(
    r'(?:([^\s"{}\[\],=\\]+)=)?(?:"([^"\\]*(?:\\.[^"\\]*)*)"|([{\[]))([}\]]*)(,?)|(.)', re.S
)
_ADDRESS = pattern(r"(0x[0-9a-f]+)")
_ADDRESS_OR_THREAD = pattern(r"(0x[0-9a-f]+|(?<=LWP )\d+)")
_ESCAPE = pattern(r"\\(?:([0-7]{3}(?:\\[0-7]{3})*)|(.))", re.S)
_ESCAPED = {**{each: each for each in "'\\\""}, "a": "\a", "b": "\b", "e": "\033", "f": "\f"}
_ESCAPED |= {"n": "\n", "r": "\r", "t": "\t"}
_SHOWN = 80
MARK = "\x01"
"""Stands in a shape for an address or a thread's number."""
_GIANT = "\x02"
"""Encloses the number of a long string that was taken out."""
_GIANTS = pattern(f"{_GIANT}(\\d+){_GIANT}")

Pieces = list[bytes]
"""A big line, as it has come."""


def quote(text: str) -> str:
    """Return *text* as an MI c-string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def console(command: str) -> str:
    """Return the MI command that runs a GDB command line."""
    return f"-interpreter-exec console {quote(command)}"


class Lines:
    """Makes lines of what comes; what is there of the last one is kept as it is."""

    def __init__(self) -> None:
        self._pieces: Pieces = []
        self._size_bytes = 0

    def feed(self, data: bytes) -> Sequence[bytes | Pieces]:
        """Take some bytes; return the lines that are whole now, a big one in its pieces."""
        if not self._pieces:
            lines: list[bytes | Pieces] = [*data.split(b"\n")]
        else:
            first, end, rest = data.partition(b"\n")
            self._size_bytes += len(first)
            if self._size_bytes <= MAX_LINE_BYTES:
                self._pieces.append(first)
            else:
                del self._pieces[1:]
            if not end:
                return ()
            pieces, self._pieces = self._pieces, []
            if self._size_bytes > MAX_LINE_BYTES:
                lines = [_too_long(pieces[0])]
            elif self._size_bytes > BIG_LINE_BYTES:
                lines = [pieces]
            else:
                lines = [b"".join(pieces)]
            lines += rest.split(b"\n")
        if last := lines.pop():
            assert isinstance(last, bytes)
            self._pieces.append(last)
            self._size_bytes = len(last)
        return lines


def _too_long(start: bytes) -> bytes:
    """Return what stands for a line that was not kept: its command has failed."""
    match = _RESULT.match(start)
    why = f"GDB's answer is longer than {MAX_LINE_BYTES >> 20} MiB"
    return b'%s^error,msg="%s"' % (match[1], why.encode()) if match is not None else b""


class Shape:
    """A record without its addresses and thread numbers, parsed once for all ranks of a host.

    Nobody may change its payload, which is shared.
    """

    __slots__ = ("_plan", "arguments", "frames", "name", "payload", "varying_count")

    def __init__(self, name: str, payload: dict[str, Any], varying_count: int) -> None:
        self.name = name
        self.payload = payload
        """With marks in place of what was taken out."""
        self.varying_count = varying_count
        self.frames: Any = None
        """What :mod:`.decode` has made of the payload as a list of frames, once for all ranks."""
        self.arguments: Any = None
        """The same as a list of arguments: nobody says that GDB answers with what was asked for."""
        self._plan = _plan(payload) if varying_count else None

    def fill(self, varying: Sequence[str]) -> dict[str, Any]:
        """Return the payload of a record that has *varying* at the marks."""
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
        """What it has in common with the lines of other ranks, if that was looked for."""
        self.varying = varying
        """What was taken out of it, in the order of the text."""
        self._payload = payload

    @property
    def payload(self) -> dict[str, Any]:
        """What follows the name; shared with equal lines, so that nobody may change it."""
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
    """How GDB answered one MI command."""

    __slots__ = ("kind", "line", "log", "notices", "text")

    def __init__(
        self, kind: str, payload: dict[str, Any] | None = None, text: str = "", log: str = ""
    ) -> None:
        self.kind = kind
        """``done``, ``running``, ``error`` or ``exit``."""
        self.line = Line("^", name=kind, payload=payload) if payload else _NO_LINE
        """The line that ended it."""
        self.text = text
        """What it printed on its console meanwhile."""
        self.log = log
        """What it printed as errors and warnings meanwhile."""
        self.notices: list[tuple[str, dict[str, Any]]] = []
        """``=…`` records that came meanwhile: name and payload."""

    @property
    def payload(self) -> dict[str, Any]:
        """What GDB told."""
        return self.line.payload

    @property
    def message(self) -> str:
        """The error message, empty if it is none."""
        return str(self.payload.get("msg", "")) if self.kind == "error" else ""

    def __repr__(self) -> str:
        return f"Result({self.kind!r}, {self.payload!r}, {self.text!r}, {self.log!r})"


def cut(line: str | bytes) -> Line:
    """Return the parts of an MI output line; prompts and foreign text have an empty kind."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    try:
        return _cut(text)
    except (ValueError, RecursionError):
        # What runs inside GDB can print past MI: a token of thousands of digits, a thousand
        # brackets. One odd line must not take the results behind it with it.
        return Line(kind="", text=text)


def cut_pieces(pieces: Pieces, rename: Callable[[bytes], bytes] = bytes) -> Line:
    """Return the parts of a big line; for a thread, since it takes its time.

    Not one step of it is long: other threads get on meanwhile. The ``contents`` that
    -data-read-memory-bytes has found are bytes already if they are long.
    """
    small, giants = _without_giants(pieces)
    text = rename(small).decode("utf-8", "replace")
    if giants:
        line = cut(text)
        if line.kind and text.count(_GIANT) == 2 * len(giants):
            try:
                values = [each if isinstance(each, bytes) else _unescape(each) for each in giants]
            except ValueError:
                return cut(rename(b"".join(pieces)))
            line.text = _put_back(line.text, values)
            line._payload = _put_back(line.payload, values)
            return line
    return cut(rename(b"".join(pieces)))


def parse(text: str) -> dict[str, Any] | None:
    """Return the payload in *text*, ``name=value,name=value…``; None if it is not well formed."""
    return _parse(text)[0]


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


# The results are shared, so that nobody may change them. Lines of a megabyte in all are kept of the
# small ones, and of the others: each takes some times its size.
def _shape(text: str, varying_count: int) -> Shape | None:
    """Return the shape of a record; None if what was taken out of it cannot be put back."""
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
    # A string may have held a mark of its own.
    return shape if _count_marks(payload_or_none) == varying_count else None


_small_shape = functools.lru_cache(maxsize=2048)(_make_shape)
_large_shape = functools.lru_cache(maxsize=256)(_make_shape)


def _record(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the payload of a record.

    A result that is not well formed is an error, so that who waits for it learns of it.
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
        return "error", {"msg": f"what GDB has answered cannot be read: {start}"}
    return (match[1] if match is not None else ""), {}


def _with_brackets(match: re.Match[str]) -> str:
    commands = match["commands"]
    return match[0] if commands is None else f"script=[{commands}]"


def _parse(text: str) -> tuple[dict[str, Any] | None, bool]:
    """Return the payload in *text*, and whether all stands in it in the order of the text."""
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
                value = _unescape(string) if "\\" in string else string
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
            # GDB names fields several times, as for two watchpoints at once (bug 22217).
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
        return _unescape(body)
    except ValueError:
        return body


def _unescape(text: str) -> str:
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
    # The bytes of one character are escaped one by one.
    data = bytes([int(each, 8) for each in octal.split("\\")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return match[0]


# -- what was taken out, and how it is put back ------------------------------------------------

# A plan says what of a payload to make anew: a string's pieces between the marks, or a container
# with the plans of those of its items that have marks; None stands for a mark alone.
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


def _without_giants(pieces: Pieces) -> tuple[bytes, list[str | bytes]]:
    """Take the strings out of a big line that fill pieces of it; return the rest, and them."""
    small = bytearray()
    giants: list[str | bytes] = []
    run: Pieces = []
    for piece in pieces:
        if _GIANT.encode() in piece:
            return b"".join(pieces), []
        if b'"' not in piece:
            run.append(piece)
            continue
        if run:
            head, quotation, rest = piece.partition(b'"')
            run.append(head)
            _take_giant(small, run, giants)
            small += quotation + rest
            run = []
        else:
            small += piece
    for piece in run:
        small += piece
    return bytes(small), giants


def _take_giant(small: bytearray, run: Pieces, giants: list[str | bytes]) -> None:
    """Replace the string that *run* is the end of by its number; no escape is cut in two."""
    start = small.rfind(b'"') + 1
    run.insert(0, bytes(small[start:]))
    del small[start:]
    if small.endswith(b'contents="') and (data := _from_hex(run)) is not None:
        giants.append(data)
        left = b""
    else:
        text = b"".join(run)
        whole = text.rstrip(b"\\")
        left = text[len(whole) :]
        giants.append(whole.decode("utf-8", "replace"))
    small += f"{_GIANT}{len(giants) - 1}{_GIANT}".encode() + left


def _from_hex(pieces: Pieces) -> bytes | None:
    data = []
    odd = b""
    for piece in pieces:
        piece = odd + piece
        even = len(piece) & ~1
        odd = piece[even:]
        try:
            data.append(bytes.fromhex(piece[:even].decode("ascii")))
        except ValueError:
            return None
    return None if odd else b"".join(data)


def _put_back(node: Any, giants: Sequence[str | bytes]) -> Any:
    if isinstance(node, dict):
        return {name: _put_back(item, giants) for name, item in node.items()}
    if isinstance(node, list):
        return [_put_back(item, giants) for item in node]
    if not isinstance(node, str) or _GIANT not in node:
        return node
    parts = _GIANTS.split(node)
    values = [giants[int(each)] for each in parts[1::2]]
    if len(values) == 1 and parts[0] == parts[2] == "":
        return values[0]
    parts[1::2] = [each if isinstance(each, str) else each.hex() for each in values]
    return "".join(parts)
