"""Inputs made from others: bytes, words and MessagePack trees, changed at random.

The code is quick rather than clever: a thousand inputs take some ten milliseconds. Everything
follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

Mutate = Callable[[random.Random], bytes]

MAX_BYTES = 1 << 16
"""Longest input in bytes; :func:`repeated` finds readers that are slow on longer ones."""
_BYTES = (0, 1, 2, 0x20, 0x22, 0x2C, 0x5C, 0x7B, 0x7D, 0x7F, 0x80, 0x90, 0xC0, 0xDD, 0xFF)
_NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 256, 4095, 4096, 65535, 65536, 1 << 24, (1 << 24) + 1)
_NUMBERS += (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**48, 2**63 - 1, -(2**63), 2**64 - 1)
_FIELDS = tuple(
    (number & (1 << 8 * size) - 1).to_bytes(size, order)
    for number in _NUMBERS
    for size in (2, 4, 8)
    for order in ("little", "big")
)
_MOST_DEEP = 12


def bytes_mutator(corpus: Sequence[bytes], words: Sequence[bytes]) -> Mutate:
    """Return a function that makes an input from one of the *corpus*, by changes of bytes and
    *words*."""

    def mutate(rng: random.Random) -> bytes:
        data = bytearray(rng.choice(corpus))
        for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
            _change(rng, data, corpus, words)
        return bytes(data[:MAX_BYTES])

    return mutate


def _change(
    rng: random.Random, data: bytearray, corpus: Sequence[bytes], words: Sequence[bytes]
) -> None:
    size = len(data)
    at = int(rng.random() * (size + 1))
    kind = rng.random()
    if kind < 0.25 and words:
        data[at:at] = rng.choice(words)
    elif not size:
        data += rng.randbytes(3)
    elif kind < 0.40:
        data[at % size] = rng.choice(_BYTES)
    elif kind < 0.50:
        data[at % size] ^= 1 << int(rng.random() * 8)
    elif kind < 0.60:
        field = rng.choice(_FIELDS)
        data[at : at + len(field)] = field
    elif kind < 0.70:
        del data[at : at + rng.choice((1, 1, 2, 4, 16, 64))]
    elif kind < 0.76:
        del data[at:]
    elif kind < 0.86:
        end = at + rng.choice((1, 2, 4, 8, 32, 128))
        data[at:at] = data[at:end]
    elif kind < 0.94 or not words:
        other = rng.choice(corpus)
        begin = int(rng.random() * len(other))
        data[at : at + rng.choice((0, 4, 16))] = other[begin : begin + rng.choice((4, 16, 64))]
    elif kind < 0.999:
        word = rng.choice(words)
        end = at + len(word)
        data[at:end] = word
    else:
        data[at:at] = rng.choice(words) * rng.choice((10, 100, 1000))


def tree_mutator(corpus: Sequence[bytes], words: Sequence[bytes]) -> Mutate:
    """Return a function that changes messages in MessagePack as trees, and sometimes as bytes."""
    trees = []
    for each in corpus:
        try:
            trees.append(msgspec.msgpack.decode(each))
        except (msgspec.DecodeError, RecursionError):
            pass  # for changes of bytes alone
    pool: list[Any] = [*_NUMBERS, None, True, 0.5, float("nan"), float("inf"), -1e308, "", [], {}]
    pool += [word.decode("utf-8", "replace") for word in words]
    pool += [bytes(word) for word in words]
    for tree in trees:
        _collect(tree, pool)
    by_bytes = bytes_mutator(corpus, words)
    encode = msgspec.msgpack.encode

    def mutate(rng: random.Random) -> bytes:
        if rng.random() < 0.15:
            return by_bytes(rng)
        tree = rng.choice(trees)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            tree = _replaced(rng, tree, pool, 0)
        try:
            return encode(tree)
        except (OverflowError, RecursionError):  # keys of maps are such; they are tried as bytes
            return by_bytes(rng)

    return mutate


def _collect(tree: Any, pool: list[Any]) -> None:
    pool.append(tree)
    if isinstance(tree, dict):
        for each in tree.values():
            _collect(each, pool)
    elif isinstance(tree, list):
        for each in tree[:8]:
            _collect(each, pool)


def _replaced(rng: random.Random, tree: Any, pool: Sequence[Any], depth: int) -> Any:
    """Return *tree* with one place changed; everything outside the path to that place is shared."""
    if not isinstance(tree, dict | list) or not tree or depth > _MOST_DEEP or rng.random() < 0.1:
        return _other(rng, tree, pool)
    if isinstance(tree, dict):
        key = rng.choice(list(tree))
        copy = dict(tree)
        if rng.random() < 0.03:
            del copy[key]
        else:
            copy[key] = _replaced(rng, tree[key], pool, depth + 1)
        return copy
    items = list(tree)
    at = int(rng.random() * len(items))
    kind = rng.random()
    if kind < 0.06:
        del items[at]
    elif kind < 0.14:
        items.insert(at, rng.choice(items))
    elif kind < 0.18:
        items[at] = rng.choice(items)
    elif kind < 0.181:
        items *= 200
    else:
        items[at] = _replaced(rng, items[at], pool, depth + 1)
    return items


def _other(rng: random.Random, tree: Any, pool: Sequence[Any]) -> Any:
    kind = rng.random()
    if isinstance(tree, int) and kind < 0.5:
        return rng.choice(_NUMBERS) if kind < 0.25 else tree + rng.choice((-1, 1))
    if isinstance(tree, str | bytes) and tree and kind < 0.5:
        at = int(rng.random() * len(tree))
        if kind < 0.2:
            return tree[:at] + tree[at + 1 :]
        if kind < 0.35 and isinstance(tree, bytes):
            return tree[:at] + bytes([rng.choice(_BYTES)]) + tree[at + 1 :]
        if kind < 0.499:
            return tree[:at] + tree[at : at + 8] + tree[at:]
        return tree * 300
    return rng.choice(pool)


def repeated(words: Sequence[bytes], size: int) -> list[tuple[bytes, bytes]]:
    """Return inputs of about *size* bytes and of half that, each of one word or two repeated.

    A reader that takes more than about twice as long for the first as for the second is not linear.
    """
    found = []
    for one in words:
        for other in (b"", *words):
            whole = one + other
            if whole:
                count = max(2, size // len(whole))
                found.append((whole * count, whole * (count // 2)))
    return found
