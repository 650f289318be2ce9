#!/usr/bin/env python3
"""Waits in one call of a stand-in for torch.distributed: CALL, or 'sleep' for none of them."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "stand_in"))

from torch.distributed import distributed_c10d as dist

RANKS = 4


def gradients(name):
    group = dist.new_group([1, 3])
    calls = {
        "all_reduce": lambda: dist.all_reduce(None),
        "barrier": dist.barrier,
        "barrier of group": lambda: dist.barrier(group=group),
        "broadcast": lambda: dist.broadcast(None, src=2),
        "broadcast of group": lambda: dist.broadcast(None, group=group, group_src=1),
        "reduce": lambda: dist.reduce(None, 3),
        "all_gather_object": lambda: dist.all_gather_object([], None, group),
        "send": lambda: dist.send(None, 1, tag=7),
        "recv": lambda: dist.recv(None, src=0, tag=9),
        "recv of any": lambda: dist.recv(None),
        "new_group": lambda: dist.new_group([0], waits=True),
        "init_process_group": lambda: dist.init_process_group("gloo"),
        "sleep": sleeps,
    }
    calls[name]()


def sleeps():
    print("ready", flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    dist.init_process_group("gloo", world_size=RANKS)
    gradients(sys.argv[1])
