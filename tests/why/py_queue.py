# why: missing-from-collective ranks=0 victims=1-3
import queue
import threading

from why import rank, world

tasks = queue.Queue()


def produce():
    if rank:
        tasks.put(rank)


threading.Thread(target=produce).start()
print(tasks.get())
world.allreduce(1)
