#!/usr/bin/env python3
"""Two threads of rank 1 have a lock each and want that of the other; its kind is the argument."""

import os
import sys
import threading

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
FIRST, SECOND = (getattr(threading, sys.argv[1])() for _ in range(2))
BOTH = threading.Barrier(2)


def work():
    with FIRST:
        BOTH.wait()
        with SECOND:
            pass


def main():
    os.write(1, b"ready\n")
    if WORLD.rank == 1:
        helper = threading.Thread(target=work)
        helper.start()
        with SECOND:
            BOTH.wait()
            with FIRST:
                helper.join()
    WORLD.Barrier()


main()
