#!/usr/bin/env python3
"""Python and C in turn, in two threads: bench/python_stacks.py stops it at random moments.

Only ``by_c_sort`` calls the C library's ``qsort``, and only ``compare`` is called by that.
"""

import ctypes
import functools
import json
import re
import threading
import time

SIZE = 8
LIBC = ctypes.CDLL(None)
KIND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))


class Item:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return by_regex(self.value) < by_regex(other.value)


def compare(one, other):
    if one[0] % 3 == 0:
        by_sorted()
    elif one[0] % 3 == 1:
        by_json()
    else:
        by_reduce()
    return one[0] - other[0]


CALLBACK = KIND(compare)


def by_c_sort(depth=0):
    values = (ctypes.c_int * SIZE)(*[each * 7 % SIZE for each in range(SIZE)])
    LIBC.qsort(values, SIZE, ctypes.sizeof(ctypes.c_int), CALLBACK)


def by_sorted():
    return sorted(map(Item, range(4)))


def replaced(match):
    return str(sum(yielded(int(match.group(0)))))


def by_regex(number):
    return re.sub(r"\d+", replaced, f"a{number}b")


def yielded(count):
    for each in range(count):
        yield from inner(each)


def inner(each):
    yield each
    yield each + 1


def encoded(value):
    by_reduce()
    return value.value


def by_json():
    return json.dumps([Item(1), {"x": Item(2)}], default=encoded)


def added(one, other):
    return one + other if other % 4 else nested(other)


def nested(other, depth=6):
    return nested(other, depth - 1) if depth else other


def by_reduce():
    return functools.reduce(added, range(9))


def waits():
    time.sleep(0.0005)


def work():
    while True:
        by_c_sort()
        by_sorted()
        waits()


threading.Thread(target=work, name="second", daemon=True).start()
print("ready", flush=True)
work()
