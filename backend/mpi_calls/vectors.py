"""Integer instructions on vector registers of 16 bytes, as functions of numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable

_LANES = {"b": 8, "w": 16, "d": 32, "q": 64}
_WHOLE = (1 << 128) - 1
_HALF = (1 << 64) - 1


def _split(value: int, bits: int) -> list[int]:
    mask = (1 << bits) - 1
    return [value >> at & mask for at in range(0, 128, bits)]


def _joined(lanes: list[int], bits: int) -> int:
    mask = (1 << bits) - 1
    return sum((lane & mask) << at * bits for at, lane in enumerate(lanes))


def _by_lane(combine: Callable[[int, int], int], a: int, b: int, bits: int) -> int:
    lanes = zip(_split(a, bits), _split(b, bits), strict=True)
    return _joined([combine(one, other) for one, other in lanes], bits)


def _interleaved(a: int, b: int, bits: int, *, is_high: bool) -> int:
    one, other = _split(a, bits), _split(b, bits)
    half = len(one) // 2
    part = slice(half, None) if is_high else slice(None, half)
    lanes = [each for pair in zip(one[part], other[part], strict=True) for each in pair]
    return _joined(lanes, bits)


_BITWISE: dict[str, Callable[[int, int], int]] = {
    "pxor": operator.xor,
    "xorps": operator.xor,
    "xorpd": operator.xor,
    "por": operator.or_,
    "orps": operator.or_,
    "orpd": operator.or_,
    "pand": operator.and_,
    "andps": operator.and_,
    "andpd": operator.and_,
    "pandn": lambda a, b: ~a & b & _WHOLE,
    "andnps": lambda a, b: ~a & b & _WHOLE,
    "movlhps": lambda a, b: a & _HALF | (b & _HALF) << 64,
    "movhlps": lambda a, b: a >> 64 << 64 | b >> 64,
    "unpcklpd": lambda a, b: a & _HALF | (b & _HALF) << 64,
}
_SPREAD = {"unpcklps": 32, "punpckldq": 32, "punpcklqdq": 64, "punpcklwd": 16, "punpcklbw": 8}
_SPREAD_HIGH = {"unpckhps": 32, "punpckhdq": 32, "punpckhqdq": 64, "punpckhwd": 16, "punpckhbw": 8}


def combined(name: str, a: int, b: int) -> int | None:
    """Return the result of an instruction on two vectors, None for an unknown one."""
    if name in _BITWISE:
        return _BITWISE[name](a, b)
    if name in _SPREAD:
        return _interleaved(a, b, _SPREAD[name], is_high=False)
    if name in _SPREAD_HIGH:
        return _interleaved(a, b, _SPREAD_HIGH[name], is_high=True)
    bits = _LANES.get(name[-1:], 0)
    match name[:-1]:
        case "padd" if bits:
            return _by_lane(operator.add, a, b, bits)
        case "psub" if bits:
            return _by_lane(operator.sub, a, b, bits)
        case "pcmpeq" if bits:
            return _by_lane(lambda one, other: -int(one == other), a, b, bits)
        case "pminu" if bits:
            return _by_lane(min, a, b, bits)
        case _:
            return None


def shuffled(value: int, order: int) -> int:
    """Return the result of pshufd."""
    lanes = _split(value, 32)
    return _joined([lanes[order >> 2 * at & 3] for at in range(4)], 32)


def inserted(value: int, number: int, at: int, bits: int) -> int:
    """Return a vector with one lane replaced."""
    lanes = _split(value, bits)
    lanes[at % len(lanes)] = number
    return _joined(lanes, bits)


def extracted(value: int, at: int, bits: int) -> int:
    """Return one lane of a vector."""
    lanes = _split(value, bits)
    return lanes[at % len(lanes)]


def shifted(name: str, value: int, by: int) -> int | None:
    """Return the result of a shift by a constant, None for an unknown one."""
    if name == "psrldq":
        return value >> 8 * by
    if name == "pslldq":
        return value << 8 * by & _WHOLE
    bits = _LANES.get(name[-1:], 0)
    if name[:-1] == "psrl" and bits:
        return _joined([lane >> by for lane in _split(value, bits)], bits)
    if name[:-1] == "psll" and bits:
        return _joined([lane << by for lane in _split(value, bits)], bits)
    return None
