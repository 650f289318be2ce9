#!/usr/bin/env python3
"""A Python rank that calls functions in a loop; asked on its input, it says what it has of PGDB."""

import gc
import os
import select
import sys

RANK = int(sys.argv[1])
LIMIT = 0
signal = RANK  # a function of the C library has the same name


class Grid:
    """An object with methods."""

    def __init__(self):
        self.level = 3

    def inner(self, value):
        doubled = value * 2
        return doubled + RANK

    def fails(self, level):
        if level:
            raise ValueError(f"no grid left on rank {RANK}")
        return level


def update(grid, count):
    first = count + 1
    second = grid.inner(first)
    return second


def has_of_pgdb():
    gc.collect()
    monitoring = getattr(sys, "monitoring", None)
    tools = [monitoring.get_tool(each) for each in range(6)] if monitoring else []
    frame, traces = sys._getframe(), []
    while frame is not None:
        traces.append(frame.f_trace)
        frame = frame.f_back
    agent = getattr(sys, "_pgdb_agent", None)
    found = [getattr(agent, "folder", None), *gc.callbacks, sys.gettrace(), *tools, *traces]
    found.append(None if sys.excepthook is sys.__excepthook__ else sys.excepthook)
    return [str(each) for each in found if each is not None]


def main():
    grid = Grid()
    count, is_to_fail = 0, False
    os.write(1, b"ready\n")
    while True:
        update(grid, count)
        count += 1
        if is_to_fail and sys.excepthook is not sys.__excepthook__:
            grid.fails(grid.level)
        if select.select([0], [], [], 0.01)[0]:
            words = os.read(0, 100).split()
            is_to_fail |= words[:1] == [b"fail"]
            if not words:
                break
            if words[0] == b"exec":
                os.execv(sys.executable, [sys.executable, "-u", *sys.argv])
            os.write(1, f"{count} {has_of_pgdb()}\n".encode())


main()
