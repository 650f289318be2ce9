#!/usr/bin/env python3
"""Objects of all kinds in one frame; a test reads them from outside."""

import argparse
import array
import collections
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import os
import pathlib
import random
import re
import sys
import types
import uuid
import weakref

try:
    import numpy as np
except ImportError:
    np = None
pd = None
if sys.argv[1:] == ["pandas"]:
    import pandas as pd
try:
    torch = None
    if sys.argv[1:] == ["torch"]:
        import torch
except ImportError:
    torch = None

TABLE = {"a": [1, 2.5, None, True, "h\u00e9", "x" * 3], 3: (1,)}
BIG = -12345678901234567890
EMPTY = {}


class Slotted:
    __slots__ = ("first", "second")

    def __init__(self):
        self.first = 9


class Plain:
    shared = "class value"

    def __init__(self):
        self.number = 1
        self.items = [1, 2]
        self.slotted = Slotted()

    @property
    def computed(self):
        return 1


class Derived(Plain):
    pass


Pair = collections.namedtuple("Pair", "x y")


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 2


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


class Named(list):
    pass


class Chosen(collections.deque):
    pass


class Failed(Exception):
    pass


class Day(datetime.date):
    pass


class Empty:
    pass


class Chance(random.Random):
    pass


class Whole(int):
    pass


class Half(float):
    pass


class Label(str):
    pass


class Sized(int):
    def __init__(self, value):
        self.unit = "K"


def counting(number):
    while number:
        yield number
        number -= 1


class Corner(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_int)]


class Head(ctypes.Structure):
    _fields_ = [("step", ctypes.c_int)]


class Record(Head):
    _fields_ = [("values", ctypes.c_double * 2), ("corner", Corner), ("name", ctypes.c_char * 8)]


class Flags(ctypes.Structure):
    _fields_ = [("lead", ctypes.c_ubyte), ("low", ctypes.c_uint, 3), ("signed", ctypes.c_int, 5)]


@types.coroutine
def pausing(seconds):
    yield seconds


async def sleeping(seconds):
    await pausing(seconds)


@dataclasses.dataclass
class Settings:
    rate: float
    name: str


def numbers():
    straight = np.arange(6.0).reshape(2, 3)
    turned = straight.T
    backwards = np.arange(10)[::-2]
    single = np.float32(1.5)
    truths = np.array([True, False])
    empty = np.zeros((0, 3))
    texts = np.array(["a"])
    swapped = np.array([1, 2], dtype=">i4")
    things = np.array([[1, "x"], [None, (2,)]], dtype=object)
    days = np.array(["2026-01-01", "NaT"], dtype="datetime64[D]")
    spans = np.array([1, 2], dtype="timedelta64[30s]")
    rows = np.array([(1, 2.5, "ab")], dtype=[("id", "i4"), ("at", "f8"), ("name", "U4")])
    in_field = np.array([(1, [[2, 3]])], dtype=[("a", "u1"), ("m", "f4", (1, 2))])
    inner = np.array([(1, (2, 3))], dtype=[("a", "u1"), ("b", [("c", "i2"), ("d", "i8")])])
    row, one, cells = inner[0], rows.view(np.recarray)[0], [rows[0]]
    hidden = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    shown = np.ma.masked_array([1.0, 2.0])
    held = {"w": np.arange(3.0), "g": np.float64(0.5), "n": [np.int32(4)], "t": np.array(["x"])}
    wait()
    return locals()


def tables():
    series = pd.Series([1.0, 2.0, 4.0])
    named = pd.Series([1, 2], index=["r", "s"])
    texts = pd.Series(["a", "b"])
    dates = pd.Series(pd.date_range("2026-01-01", periods=2))
    missing = pd.Series([True, None], dtype="boolean")
    table = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": ["x", "y"], "d": [3, 4]})
    numbered = pd.DataFrame([[1, 2], [3, 4]])
    nothing = pd.DataFrame()
    inside = [table["a"]]
    stamp, span = pd.Timestamp("2026-01-02 03:04:05.000006007"), pd.Timedelta(days=-1, seconds=61)
    epoch, second, missing_time = pd.Timestamp(0), pd.Timestamp(7, unit="s"), pd.NaT
    precise, no_span = pd.Timedelta(nanoseconds=1_000_002), pd.Timedelta(0)
    zoned = pd.Timestamp("2026-06-01 03:04", tz=datetime.timezone(datetime.timedelta(hours=2)))
    kinds = pd.Categorical(["x", "y", None, "x"], categories=["y", "x"])
    partly = pd.DataFrame({"a": [1, 2], "c": kinds[:2], "i": pd.interval_range(0, 2)})
    by_kind = pd.Series(kinds)
    index, by_name = pd.Index([3, 1]), pd.Index(["r", "s"])
    counted, days = pd.RangeIndex(1, 9, 3), pd.DatetimeIndex(["2026-01-01", None])
    pairs = pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("a", 2)])
    sorts, sparse = pd.CategoricalIndex(["b", "a"]), pd.arrays.SparseArray([0, 1])
    whole, spans = pd.array([1, None], dtype="Int64"), pd.to_timedelta([1], unit="h")
    wait()
    return locals()


def tensors():
    layer = torch.nn.Linear(3, 2)
    layer.bias.data.fill_(0.5)
    many = torch.ones(2, 1, 2, 1, 2, 1)
    part = torch.arange(10)[3:8:2]
    half = torch.tensor([1.5, 2], dtype=torch.bfloat16)
    conjugated = torch.tensor([1 + 2j]).conj()
    negated = conjugated.imag
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    wait()
    return layer, many, part, half, conjugated, negated, nested


def objects(argument):
    plain, derived = Plain(), Derived()
    derived.later = 5
    opened = Plain()
    opened.__dict__["dynamic"] = 6
    mixed = (1, "\u20acuro", b"by", 3 - 2j, float("nan"))
    zero, least = 0, -1
    long_list = list(range(1000))
    pair = Pair(1, "b")
    color, settings = Color.RED, Settings(0.5, "n")
    spaces = argparse.Namespace(steps=3)
    ordered = collections.OrderedDict(a=1)
    grouped = collections.defaultdict(list, k=[1])
    queue = collections.deque(range(70))
    queue.popleft()
    short_queue = collections.deque([1, "b"])
    members, no_members, frozen = {3, 1, 2}, set(), frozenset(["b", "a"])
    members.add(9)
    members.remove(9)
    buffer, steps, slices = bytearray(b"xy"), range(0, 9, 2), slice(1, None)
    buffer.extend(b"z")
    error = ValueError("bad", 3)
    day, moment = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
    span = datetime.timedelta(1, 2, 3)
    clock = datetime.time(1, 2, 3, 4)
    own_day = Day(2026, 1, 2)
    zone = datetime.timezone(datetime.timedelta(0, 3600))
    zoned = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=zone)
    level, access = Level.HIGH, Access.READ
    whole, half, label, sized = Whole(-5), Half(0.5), Label("h\u00e9\u20ac"), Sized(1 << 70)
    plain_label = Label("ab")
    price, tiny, odd_price = (
        decimal.Decimal("-1.50"),
        decimal.Decimal("1E-9"),
        decimal.Decimal("NaN"),
    )
    long_price = decimal.Decimal("123456789012345678901234567890.125")
    fraction, number = fractions.Fraction(1, 3), uuid.UUID(int=5)
    folder, here = pathlib.Path("/tmp") / "x", pathlib.Path("a/b")
    proxy, bound = types.MappingProxyType({"a": 1}), functools.partial(int, base=2)
    expression, chained = re.compile("a+"), collections.ChainMap({"a": 1}, {})
    numbers_of_c, view = array.array("d", [1.0, 2.0]), memoryview(b"ab")
    waiting, ended, fresh = counting(3), counting(0), counting(1)
    next(waiting)
    list(ended)
    awaiting = sleeping(3)
    awaiting.send(None)
    through, backwards, letters = iter([5, 6]), reversed([5, 6]), iter((5, "a"))
    by_key, by_item, views = iter({"a": 1}), iter({"a": 1}.items()), {"a": 1, "b": 2}
    keys, items, held_values = views.keys(), views.items(), views.values()
    # Python 3.8 has no 'strict'.
    zipped, mapped, counted = zip([1], (2,)), map(len, ["x"]), enumerate([7], 3)  # noqa: B905
    filtered, few, some = filter(None, [0]), iter(range(2, 9, 3)), iter({4})
    linked, from_three = itertools.chain([1], [2]), itertools.count(3)
    twice, cut, until = itertools.repeat(5, 2), itertools.islice([1, 2], 1), iter(int, 1)
    exhausted, none_left = iter([]), iter(range(0))
    record, whole_of_c = Record(7, (1.5, 2.5), Corner(1, 2)), ctypes.c_int(-3)
    text_of_c, many_of_c = ctypes.c_char_p(b"abc"), (ctypes.c_short * 2 * 3)()
    many_of_c[2][1], record.name, pointer_of_c = 9, b"xy", ctypes.pointer(whole_of_c)
    flags, corners = Flags(1, 5, -3), (Corner * 2)(Corner(1, 2), Corner(3, 4))
    to_record, to_nothing = ctypes.pointer(record), ctypes.POINTER(Corner)()
    to_many = ctypes.cast(many_of_c, ctypes.POINTER(ctypes.c_short))
    for each in (through, backwards, letters, counted, few, linked, from_three, twice):
        next(each)
    list(exhausted)
    method, builtin, function, module, kind = plain.__init__, len, counting, enum, Plain
    dots, nothing = ..., NotImplemented
    keyed = {(1, "x"): 1, None: 2, 2.5: 3, b"k": 4, (-1, (True, "y")): [5, 6]}
    unsorted = {(1, "x"), (0, "y"), 2.5, -1.5, None}
    held_list, chosen, failed = Named([1]), Chosen([2]), Failed("text")
    held_list.unit, failed.code = "K", 7
    bare, chance, appending, newer = Empty(), Chance(1), [8].append, dict.fromkeys
    chance.a = 1
    weak, dead = weakref.ref(plain), weakref.ref(Plain())
    deep = [[[[[[[[1]]]]]]]]
    table_of_numbers = {each: each for each in range(3000)}
    circle = [1]
    circle.append(circle)
    cube = [[[0] * 100 for _ in range(100)] for _ in range(100)]
    if np:
        numbers()
    wait()
    return locals()


def wait():
    os.write(1, b"ready\n")
    os.read(0, 1)


if pd:
    tables()
if torch:
    tensors()
objects("given")
