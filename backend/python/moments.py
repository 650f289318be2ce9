"""Dates, times and spans of the standard library, of classes derived from them, and of pandas."""

from __future__ import annotations

import datetime
import struct

from pgdb.backend.python.objects import Objects

_KINDS = ("datetime.timedelta", "datetime.datetime", "datetime.date", "datetime.time")
_TIMESTAMP, _TIMEDELTA = "_Timestamp", "_Timedelta"
_FIELDS_AT = {_TIMESTAMP: 48, _TIMEDELTA: 40}
"""Offset of the fields that pandas adds, by the class in C that adds them."""
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_UNITS = (1, 1000, 10**6, 10**9)
"""Nanoseconds in the units in which pandas counts."""
_MOST_BYTES = 160
_QUARTER_NS, _DAY_NS = 900 * 10**9, 86400 * 10**9

Moment = datetime.timedelta | datetime.date | datetime.time


def text_of(objects: Objects, address: int, name: str) -> tuple[str, int] | None:
    """Return a date or a time without its zone, and the address of the zone, 0 for none.

    None for an object of another type, and for one that is being made.

    :param name: the name of its type.
    """
    bases = objects.bases(address)
    kind = next((each for each in _KINDS if each in bases), "")
    if not kind:
        return None
    if name == "NaTType":
        return "NaT", 0
    try:
        moment, zone = _moment(objects, address, kind)
    except (ValueError, OverflowError):
        return None
    if name == kind:
        return repr(moment), zone
    for each in bases:
        added = each.rpartition(".")[2]
        if added in _FIELDS_AT and each.startswith("pandas."):
            text = _of_pandas(objects, address, added, moment, has_zone=bool(zone))
            return None if text is None else (text, zone)
    if objects.own_attributes(address):
        return None
    return repr(moment).replace(kind, name.rpartition(".")[2], 1), zone


def _moment(objects: Objects, address: int, kind: str) -> tuple[Moment, int]:
    if kind == "datetime.timedelta":
        return datetime.timedelta(*struct.unpack("<3i", objects.read(address + 24, 12))), 0
    if kind == "datetime.date":
        _, high, low, month, day = objects.read(address + 24, 5)
        return datetime.date(high << 8 | low, month, day), 0
    if kind == "datetime.time":
        has_zone, hour, minute, second, *rest, fold = objects.read(address + 24, 8)
        time = datetime.time(hour, minute, second, _micros(rest), fold=fold)
        return time, objects.word(address + 32) if has_zone else 0
    has_zone, high, low, *fields = objects.read(address + 24, 12)
    month, day, hour, minute, second, *rest, fold = fields
    moment = datetime.datetime(
        high << 8 | low, month, day, hour, minute, second, _micros(rest), fold=fold
    )
    return moment, objects.word(address + 40) if has_zone else 0


def _micros(data: list[int]) -> int:
    return data[0] << 16 | data[1] << 8 | data[2]


def _of_pandas(
    objects: Objects, address: int, added: str, moment: Moment, *, has_zone: bool
) -> str | None:
    """Return the text of a Timestamp or a Timedelta, None if its nanoseconds are not found."""
    if isinstance(moment, datetime.timedelta):
        span = moment
    else:
        assert isinstance(moment, datetime.datetime), "a Timestamp is a datetime"
        span = moment.replace(fold=0) - _EPOCH
    plain_ns = span // _MICROSECOND * 1000
    nanos = _nanoseconds(objects, address, _FIELDS_AT[added], plain_ns, has_zone=has_zone)
    if nanos is None:
        return None
    if isinstance(moment, datetime.datetime):
        part = f"{moment.microsecond * 1000 + nanos:09}"
        shown = f"{moment:%Y-%m-%d %H:%M:%S}"
    else:
        part = f"{span.microseconds * 1000 + nanos:09}"
        minutes, seconds = divmod(span.seconds, 60)
        shown = f"{span.days} days {minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    part = part.removesuffix("000")
    return f"{added[1:]}('{shown}{f'.{part}' * bool(int(part))}')"


def _nanoseconds(
    objects: Objects, address: int, fields_at: int, plain_ns: int, *, has_zone: bool
) -> int | None:
    """Return the nanoseconds behind the microseconds of a moment, None if unknown.

    The fields of pandas move between its versions. Its count is the first field that says the
    moment in one of its units; with a time zone, up to an offset.
    """
    count = (min(objects.base_bytes(address), _MOST_BYTES) - fields_at) // 8
    data = objects.read(address + fields_at, 8 * count)
    fields: tuple[int, ...] = struct.unpack(f"<{count}q", data)
    for each in fields:
        for unit in _UNITS:
            behind = each * unit - plain_ns
            if has_zone and abs(behind) <= _DAY_NS:
                behind %= _QUARTER_NS
            if 0 <= behind < 1000:
                return behind
    return None
