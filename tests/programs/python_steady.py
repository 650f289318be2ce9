"""Loops of Python that write nothing.

"count" counts. "poll" asks MPI for a message that nobody sends. "sleep" does so with pauses.
"""

import sys
import time


def main() -> None:
    kind = sys.argv[1]
    if kind == "count":
        for _ in range(10**12):
            pass
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    while not world.iprobe(tag=7):
        if kind == "sleep":
            time.sleep(0.01)


main()
