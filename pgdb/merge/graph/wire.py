"""The structs of an answer graph as they travel, and their encoding."""

import zlib
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from pgdb.errors import ProtocolError, one_line
from pgdb.merge.rankset_codec import Partition
from pgdb.merge.summary import Summary
from pgdb.records import Frame, Record, Stack, Struct, Variable


class Line(Struct, frozen=True, tag="line"):
    """A line of text."""

    text: str


class Call(Struct, frozen=True, tag="call"):
    """A frame on a call path; the path gives its level."""

    frame: Frame


class ThreadEnd(Struct, frozen=True, tag="thread"):
    """The end of the stack of *count* threads; the next stack follows it."""

    shape: Stack
    """The stack without its frames."""
    count: int


class Binding(Struct, frozen=True, tag="binding"):
    """A variable and its value."""

    variable: Variable


class Whole(Struct, frozen=True, tag="whole"):
    """A record that is an item by itself."""

    record: Record


Item = Line | Call | ThreadEnd | Binding | Whole
Column = str | tuple[str, ...]
"""One text for each class, or a single text that all classes have."""


# The children of a node mostly send equal items and shapes. They stay encoded until a lookup shows
# that they are new.


class Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An item behind the node *parent*; -1 is the root."""

    parent: int
    item: msgspec.Raw

    @classmethod
    def of(cls, parent: int, item: Item) -> "Node":
        """Return the node of *item*."""
        return cls(parent, msgspec.Raw(ENCODER.encode(item)))


class End(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The node where the answers of one class end, or of several classes of one template."""

    node: int
    shape: msgspec.Raw
    """The record without its items; these are the path to *node*."""
    count: int
    """Number of classes."""
    parts: msgspec.Raw
    """Columns of the parts for the placeholders of the template, where there are several classes.
    """
    slots: msgspec.Raw
    """Columns of the slots."""
    columns: tuple[Summary, ...] = ()

    @classmethod
    def of(
        cls,
        node: int,
        shape: Record,
        *,
        count: int = 1,
        parts: tuple[Column, ...] = (),
        slots: tuple[Column, ...] = (),
        columns: tuple[Summary, ...] = (),
    ) -> "End":
        """Return the end of *count* classes."""
        raw = (msgspec.Raw(ENCODER.encode(each)) for each in (shape, parts, slots))
        return cls(node, next(raw), count, next(raw), next(raw), columns)


def plain_text(value: object) -> str:
    """Return the text that is stored for one with more to it, such as a value looked at in parts.

    :raises TypeError: if the value is no text.
    """
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"no form for {type(value).__name__}")


ENCODER = msgspec.msgpack.Encoder(enc_hook=plain_text)
ITEMS: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(Item)
SHAPES: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
COLUMNS: msgspec.msgpack.Decoder[tuple[Column, ...]] = msgspec.msgpack.Decoder(tuple[Column, ...])
_T = TypeVar("_T")


def decode_with(decoder: msgspec.msgpack.Decoder[_T], data: bytes) -> _T:
    """Return what *decoder* reads in *data*.

    :raises ProtocolError: if *data* is invalid.
    """
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        why = one_line(error)
        raise ProtocolError(f"answer graph: {why}") from None


class AnswerGraph(msgspec.Struct, frozen=True, omit_defaults=True):
    """Merged answers as they travel; parents stand before their children."""

    nodes: tuple[Node, ...]
    ends: tuple[End, ...]
    partition: Partition
    """The ranks of each class in the order of the ends, then the ranks of each set of missing ones.
    """
    missing: tuple[str, ...] = ()
    """The sets of :class:`Missing` that are not empty."""
    deflated: bytes = b""
    """Deflated nodes and ends, in place of *nodes* and *ends*."""

    def deflate(self) -> "AnswerGraph":
        """Return a copy whose nodes and ends are deflated, if the graph is long.

        Items that differ only in a line number are as many as the classes, and repeat the same file
        names.
        """
        if self.deflated or any(end.columns for end in self.ends):
            return self
        data = ENCODER.encode((self.nodes, self.ends))
        if len(data) < _LONG_BYTES:
            return self
        deflated = zlib.compress(data, 1, -15)
        if len(data) > _most_inflated(len(deflated)):
            return self
        return replace(self, nodes=(), ends=(), deflated=deflated)

    def inflate(self) -> "AnswerGraph":
        """Return a copy with plain nodes and ends.

        :raises ProtocolError: if the deflated bytes are invalid, or inflate to more than they may.
        """
        if not self.deflated:
            return self
        most = _most_inflated(len(self.deflated))
        unpacker = zlib.decompressobj(-15)
        try:
            data = unpacker.decompress(self.deflated, most + 1)
        except zlib.error as error:
            raise ProtocolError(f"answer graph: {error}") from None
        if len(data) > most or not unpacker.eof:
            raise ProtocolError("answer graph: its nodes are not as long as they may be")
        nodes, ends = decode_with(_BODIES, data)
        return replace(self, nodes=nodes, ends=ends, deflated=b"")


_BODIES: msgspec.msgpack.Decoder[tuple[tuple[Node, ...], tuple[End, ...]]] = (
    msgspec.msgpack.Decoder(tuple[tuple[Node, ...], tuple[End, ...]])
)
_LONG_BYTES = 4096
# Limits of the inflated size: without them a few bytes could stand for hundreds of megabytes.
_MOST_INFLATED_BYTES = 1 << 20
_MOST_RATIO = 64


def _most_inflated(size: int) -> int:
    return _MOST_INFLATED_BYTES + _MOST_RATIO * size


MISSING_KINDS = ("late", "lost", "running", "held")
"""The sets of :class:`~pgdb.merge.classes.Missing`."""
MAX_ITEMS = 1 << 25
"""Most items and texts that the answers of one message may have once they are joined.

A message holds each of them once, so it could stand for the square of its size.
"""
