"""A part of PyTorch's module of this name: its tables of process groups, and calls that wait.

PGDB reads the tables and the frames of the real one in the same way.
"""

import mmap
import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    # PGDB knows a process of PyTorch by this file.
    with open(os.path.join(folder, "libtorch_python.so"), "w+b") as file:
        file.write(b"\0" * mmap.PAGESIZE)
        file.flush()
        library = mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC)


class ProcessGroup:
    pass


class _World:
    def __init__(self):
        self._default_pg = None


_world = _World()
_pg_names = {}
_pg_group_ranks = {}


def init_process_group(backend, world_size=-1):
    if world_size < 0:
        _wait()
    _world._default_pg = _made(range(world_size))


def new_group(ranks=None, waits=False):
    if waits:
        _wait()
    return _made(ranks)


def _made(ranks):
    group = ProcessGroup()
    _pg_names[group] = str(len(_pg_names))
    _pg_group_ranks[group] = {rank: number for number, rank in enumerate(ranks)}
    return group


def _wait():
    print("ready", flush=True)
    os.read(0, 1)


def all_reduce(tensor, op=None, group=None, async_op=False):
    _wait()


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    _wait()


def reduce(tensor, dst=None, op=None, group=None, async_op=False, group_dst=None):
    _wait()


def all_gather(tensor_list, tensor, group=None, async_op=False):
    _wait()


def all_gather_object(object_list, obj, group=None):
    all_gather([], obj, group=group)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    _wait()


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    _wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    _wait()
