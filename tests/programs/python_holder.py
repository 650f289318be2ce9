"""Rank 2 needs a lock that its thread "saver" holds, which waits for work that nobody queues."""

import queue
import sys
import threading

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
WORK = queue.Queue()
GUARD = threading.Lock()
TAKEN = threading.Event()


def save() -> None:
    with GUARD:
        TAKEN.set()
        WORK.get()


def step(rank: int) -> None:
    if rank == 2:
        threading.Thread(target=save, name="saver", daemon=True).start()
        TAKEN.wait()
        say_ready()
        GUARD.acquire()
    else:
        say_ready()
    WORLD.Barrier()


def say_ready() -> None:
    # One write, which no other rank's can part.
    sys.stdout.write("ready\n")
    sys.stdout.flush()


step(WORLD.rank)
