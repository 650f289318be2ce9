#!/usr/bin/env python3
"""Objects of all kinds in one frame; a test reads them from outside."""

import argparse
import collections
import dataclasses
import datetime
import enum
import os
import sys

try:
    import numpy as np
except ImportError:
    np = None
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
    days = np.array(["2026-01-01"], dtype="datetime64[D]")
    wait()
    return straight, turned, backwards, single, truths, empty, texts, swapped, things, days


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


if torch:
    tensors()
objects("given")
