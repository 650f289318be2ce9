"""Hashes of values in full, which differ if the values do, at no cost in traffic."""

from __future__ import annotations

import hashlib
import sys

from msgspec.structs import replace

from pgdb.merge.normalize import normalize_values
from pgdb.overlay.messages import Evaluate, ListVariables
from pgdb.records import Block, Stop, Value, Variables

_DIGEST_BYTES = 16


def digested(value: Value, operation: Evaluate) -> Value:
    """Return a value with the hash of its whole, and its whole as far as *operation* wants it.

    Addresses, and the bits of a NaN, do not count in the hash.
    """
    whole = value.whole
    if whole is None:
        return value
    if isinstance(whole, str):
        text = whole if operation.asks_for_numbers else normalize_values(whole, [])
        digest = _hash(b"text", text.encode(errors="surrogateescape"))
        return replace(value, digest=digest, whole=whole if operation.whole else None)
    form = f"{whole.dtype} {whole.shape} {whole.order}".encode()
    digest = _hash(form, _canonical(whole))
    header = replace(whole, data=b"") if operation.whole else None
    return replace(value, digest=digest, whole=header)


def digested_variables(listed: Variables, operation: ListVariables) -> Variables:
    """Return variables with the hashes of their wholes in place of these."""
    asked = Evaluate(expression="", raw_pointers=operation.raw_pointers)
    return replace(
        listed,
        items=tuple(
            item
            if item.whole is None
            else replace(
                item,
                digest=digested(Value(text="", whole=item.whole), asked).digest,
                whole=None,
            )
            for item in listed.items
        ),
    )


def digested_stop(stop: Stop) -> Stop:
    """Return a stop with the hashes of its values, and with the wholes of those that are text."""
    if not stop.values:
        return stop
    operation = Evaluate(expression="", whole=True)
    found = []
    for each in stop.values:
        value = digested(each, operation)
        found.append(replace(value, whole=value.whole if isinstance(value.whole, str) else None))
    return replace(stop, values=tuple(found))


def _hash(*parts: bytes) -> str:
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        found.update(part)
    return f"0x{found.hexdigest()}"


def _canonical(block: Block) -> bytes:
    """Return the numbers with the same bits for every NaN, and without the padding of long doubles.

    The padding holds whatever was in memory before.
    """
    if block.dtype[1] not in "fc":
        return block.data
    # Imported only here: it takes 0.1 s and 20 MB, and most sessions read no array.
    import numpy

    parts = numpy.frombuffer(block.data, block.dtype)
    if parts.dtype.kind == "c":
        parts = parts.view(parts.real.dtype)
    strange = numpy.isnan(parts)
    is_padded = parts.dtype.itemsize in (12, 16) and numpy.finfo(parts.dtype).nmant == 63
    if not is_padded and not strange.any():
        return block.data
    parts = parts.copy()
    parts[strange] = numpy.nan
    if is_padded:
        bytes_of = parts.view(numpy.uint8).reshape(-1, parts.dtype.itemsize)
        padding = slice(10, None) if sys.byteorder == "little" else slice(0, -10)
        bytes_of[:, padding] = 0
    return parts.tobytes()
