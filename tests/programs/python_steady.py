"""Loops of Python that write nothing.

"count" counts, and "turns" does so in two threads. "flag" waits for a variable that nobody
changes, "pass" for nothing. "poll" asks MPI for a message that nobody sends. "sleep" does so with
pauses.
"""

import sys
import threading
import time

flag = [False]


def count() -> None:
    for _ in range(10**12):
        pass


def main() -> None:
    kind = sys.argv[1]
    if kind == "turns":
        threading.Thread(target=count).start()
    if kind in ("count", "turns"):
        count()
    if kind == "pass":
        while True:
            pass
    while kind == "flag" and not flag[0]:
        pass
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    while not world.iprobe(tag=7):
        if kind == "sleep":
            time.sleep(0.01)


main()
