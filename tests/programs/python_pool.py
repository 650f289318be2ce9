"""A pool of two processes, of which one waits for ever in its job; a further child has ended."""

import multiprocessing
import os
import threading

CONTEXT = multiprocessing.get_context("fork")


def convert(item: int) -> int:
    if item == 1:
        print("ready", flush=True)
        threading.Event().wait()
    return 2 * item


if os.fork() == 0:
    os._exit(3)
with CONTEXT.Pool(2) as pool:
    pool.map(convert, range(8), chunksize=1)
