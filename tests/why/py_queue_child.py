# why: missing-from-collective ranks=0 victims=1-3
import multiprocessing
import socket

from why import rank, world


def serve(todo, done):
    """Answer each job; one of them asks a server that never answers."""
    near, _far = socket.socketpair()
    while True:
        job = todo.get()
        if job == 4:
            near.recv(1)
        done.put(job)


if rank == 0:
    context = multiprocessing.get_context("fork")
    todo, done = context.Queue(), context.Queue()
    workers = [context.Process(target=serve, args=(todo, done), daemon=True) for _ in range(2)]
    for each in workers:
        each.start()
    for job in range(6):
        todo.put(job)
    for _ in range(6):
        done.get()
world.bcast(3, root=0)
