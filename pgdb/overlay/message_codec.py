"""Encoding of messages: MessagePack, decoded strictly.

The bytes of a peer are data: :func:`decode` either returns a message or raises
:class:`~pgdb.errors.ProtocolError`.
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from pgdb.errors import ProtocolError, RankSetError, one_line
from pgdb.merge.rankset_codec import pack, unpack
from pgdb.overlay.messages import AnyMessage, Setup
from pgdb.ranks import RankSet

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Largest message that is sent or accepted."""
MAX_SETS_BYTES = 1 << 30
"""Most memory in bytes for the rank sets of one message: some bytes can stand for megabytes."""


def _encode_hook(value: Any) -> Any:
    if isinstance(value, RankSet):
        return pack(value)
    raise TypeError(f"no wire form for {type(value).__name__}")


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is not RankSet:
        raise TypeError(f"no wire form for {kind.__name__}")
    ranks = unpack(value)
    if isinstance(value, str) and len(value) < _FEW_LETTERS and "-" not in value:
        return ranks  # one rank or a few: such sets come by the thousand
    _ROOM.left_bytes -= ranks.size_bytes
    if _ROOM.left_bytes < 0:
        raise ProtocolError("its rank sets are too large")
    return ranks


_FEW_LETTERS = 12


class _Room(threading.local):
    """The memory left for the rank sets of the message that is being decoded."""

    left_bytes = 0


_ROOM = _Room()
_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_hook)
_DECODER: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(
    AnyMessage, dec_hook=_decode_hook, strict=True
)


def encode(message: AnyMessage) -> bytes:
    """Return the encoded *message*.

    :raises ProtocolError: if it would be larger than :data:`MAX_MESSAGE_BYTES`.
    """
    data = _ENCODER.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a {type(message).__name__} of {len(data)} bytes is too large to send")
    return data


def decode(data: bytes | bytearray) -> AnyMessage:
    """Return the message in *data*.

    :raises ProtocolError: if *data* is not a valid message; the error quotes its start.
    """
    _ROOM.left_bytes = MAX_SETS_BYTES
    try:
        message = _DECODER.decode(data)
        if isinstance(message, Setup):
            for share in message.shares:
                _decode_hook(RankSet, msgspec.msgpack.decode(share.packed_ranks))
        return message
    except (
        msgspec.DecodeError,
        ProtocolError,
        RankSetError,
        ValueError,
        RecursionError,
    ) as error:
        why = one_line(error)
        raise ProtocolError(f"no valid message ({why}): {bytes(data[:40])!r}") from None
