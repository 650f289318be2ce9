"""Iterators and views of dictionaries: what they go through, and how far they have come.

An iterator that has come to its end does not keep what it went through. The layouts are those of
CPython 3.8 to 3.15 for 64-bit processors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pgdb.backend.python.objects import Objects

Parts = Iterable[tuple[str, Sequence[int]]]
"""Formats, each with the addresses of the objects in it."""
_FIELDS_AT = 16
_OF_SEQUENCES = frozenset(
    {
        "list_iterator",
        "list_reverseiterator",
        "tuple_iterator",
        "str_iterator",
        "str_ascii_iterator",
        "bytes_iterator",
        "bytearray_iterator",
        "iterator",
        "reversed",
    }
)
_OF_DICTIONARIES = frozenset(
    f"dict_{direction}{kind}iterator"
    for direction in ("", "reverse")
    for kind in ("key", "value", "item")
)
_VIEWS = {"keys": "{0}", "values": "{1}", "items": "({0}, {1})"}


def form_of(objects: Objects, address: int, name: str) -> tuple[str, Parts, str] | None:
    """Return what stands before the parts of an iterator or a view, the parts, and what stands
    behind them; None for an object of another type.

    :param name: the name of its type.
    :raises UnknownError: if the memory cannot be read.
    """
    kind = name.removeprefix("o").removeprefix("dict_")
    if kind in _VIEWS and name in (f"dict_{kind}", f"odict_{kind}"):
        return f"{name}([", _of_view(objects, address, _VIEWS[kind]), "])"
    parts = _parts(objects, address, name)
    if parts is None:
        return None
    short = name.rpartition(".")[2]
    return (f"<{short} ", parts, ">") if parts else (f"<{short}, ended>", (), "")


def _of_view(objects: Objects, address: int, form: str) -> Iterator[tuple[str, Sequence[int]]]:
    for key, held in objects.items(objects.word(address + _FIELDS_AT)):
        if form.count("{") > 1:
            yield "({}, {})", (key, held)
        else:
            yield "{}", (key if form == "{0}" else held,)


def _parts(objects: Objects, address: int, name: str) -> list[tuple[str, Sequence[int]]] | None:
    """Return the parts of an iterator, none for one that has ended, None for another object."""
    if name not in _KNOWN:
        return None
    count = (objects.base_bytes(address) - _FIELDS_AT) // 8
    words = objects.words(address + _FIELDS_AT, count)
    match name:
        case _ if name in _OF_SEQUENCES:
            return [_number("next", words[0]), ("over={}", words[1:2])] if words[1] else []
        case _ if name in _OF_DICTIONARIES:
            return [_number("left", words[4]), ("over={}", words[:1])] if words[0] else []
        case "set_iterator":
            return [_number("left", words[3]), ("over={}", words[:1])] if words[0] else []
        case "range_iterator":
            return _of_range(objects, words)
        case "enumerate":
            number = _number("next", words[0])
            return [("next={}", words[3:4]) if words[3] else number, ("over={}", words[1:2])]
        case "zip":
            return [("over={}", words[1:2])]
        case "map":
            return [("function={}", words[1:2]), ("over={}", words[:1])]
        case "filter":
            return [("function={}", words[:1]), ("over={}", words[1:2])]
        case "callable_iterator":
            return [("function={}", words[:1]), ("until={}", words[1:2])] if words[0] else []
        case "itertools.chain":
            now = [("now={}", words[1:2])] if words[1] else []
            return [*now, ("over={}", words[:1])] if words[0] or words[1] else []
        case "itertools.count":
            number = _number("next", words[0])
            return [("next={}", words[1:2]) if words[1] else number, ("step={}", words[2:3])]
        case "itertools.repeat":
            # A negative number stands for no end.
            left = [] if _signed(words[1]) < 0 else [_number("left", words[1])]
            return [("value={}", words[:1]), *left]
        case "itertools.islice":
            places = [
                _number(*each) for each in zip(("next", "stop", "step"), words[1:], strict=False)
            ]
            return [*places, ("over={}", words[:1])] if words[0] else []
        case "itertools.cycle":
            over = [("over={}", words[:1])] if words[0] else []
            return [*over, ("saved={}", words[1:2])]
    return None


_KNOWN = (
    _OF_SEQUENCES
    | _OF_DICTIONARIES
    | {"set_iterator", "range_iterator", "enumerate", "zip", "map", "filter", "callable_iterator"}
    | {f"itertools.{each}" for each in ("chain", "count", "repeat", "islice", "cycle")}
)


def _of_range(objects: Objects, words: Sequence[int]) -> list[tuple[str, Sequence[int]]]:
    numbers = [_signed(each) for each in words]
    if objects.minor < 12:
        index, start, step, count = numbers[:4]
        start, count = start + index * step, count - index
    else:
        start, step, count = numbers[:3]
    if count <= 0:
        return []
    left = range(start, start + count * step, step)
    return [(f"left={left!r}", ())]


def _number(name: str, number: int) -> tuple[str, Sequence[int]]:
    return f"{name}={_signed(number)}", ()


def _signed(word: int) -> int:
    """Return a word as a number with a sign.

    >>> _signed((1 << 64) - 1)
    -1
    """
    return word - (1 << 64) if word >> 63 else word
