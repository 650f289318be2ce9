#!/usr/bin/env python3
"""Objects of all kinds in one frame; a test reads them from outside."""

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


def numbers():
    straight = np.arange(6.0).reshape(2, 3)
    turned = straight.T
    backwards = np.arange(10)[::-2]
    single = np.float32(1.5)
    truths = np.array([True, False])
    empty = np.zeros((0, 3))
    texts = np.array(["a"])
    swapped = np.array([1, 2], dtype=">i4")
    wait()
    return straight, turned, backwards, single, truths, empty, texts, swapped


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
    if np:
        numbers()
    wait()
    return plain, derived, opened, mixed, zero, least, long_list


def wait():
    os.write(1, b"ready\n")
    os.read(0, 1)


if torch:
    tensors()
objects("given")
