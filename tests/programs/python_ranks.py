#!/usr/bin/env python3
"""Python ranks without MPI: each waits for ever in a callback of the C library."""

import ctypes
import os
import sys
import threading

RANK = int(sys.argv[1])
LIMIT = 7.5
OPTIONS = {"name": "heat", "steps": [1, 2, 3]}
HELD = [property(len), {"inner": property(lambda self: RANK)}]
SIZES = (1, (RANK, "text"))
MARKS = {1, 10 + RANK}
BY_PAIR = {(1, "x"): [RANK], None: 2}
never = threading.Event()
started = threading.Event()
reached = threading.Event()


class Solver:
    """An object with attributes."""

    def __init__(self, size):
        self.size = size
        self.tolerance = 1e-6
        self.history = [0.5, RANK]
        self.samples = [*range(250), RANK]

    def compare(self, first, second):
        if RANK == 2:
            wait_for_input(3)
        reached.set()
        os.read(silent, 1)
        return 0


def wait_for_input(left):
    if left:
        return wait_for_input(left - 1)
    reached.set()
    return os.read(silent, 1)


def receive():
    started.set()
    never.wait()


def sort(solver, label="x", scale=2.5):
    values = (ctypes.c_int * 2)(2, 1)
    count = solver.size + RANK
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    ctypes.CDLL(None).qsort(values, 2, ctypes.sizeof(ctypes.c_int), kind(solver.compare))
    return count


def report():
    reached.wait()
    os.write(1, b"ready\n")
    never.wait()


def main():
    solver = Solver(2)
    threading.Thread(target=receive, name="receiver", daemon=True).start()
    threading.Thread(target=report, name="reporter", daemon=True).start()
    started.wait()
    sort(solver, label="first")


silent, _ = os.pipe()
main()
