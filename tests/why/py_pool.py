# why: missing-from-collective ranks=2 victims=0-1,3
import multiprocessing
import threading

from why import rank, world


def convert(item):
    if item == 5:
        threading.Event().wait()
    return item * 2


if rank == 2:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(convert, range(8), chunksize=1)
world.Barrier()
