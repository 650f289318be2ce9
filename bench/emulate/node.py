"""One real aggregator with made-up ranks: ``python -m bench.emulate.node``.

Its standard input gives its place as a line of JSON. Everything but the GDBs is real code, and the
answers of its own ranks reach the router as from the leaf. It prints its port, leaves on request,
and then prints the longest time for which its event loop was blocked: by the clock, and without
other work on the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import socket
import sys
import time
from typing import Any, NoReturn

from bench.emulate.made_up import Case
from pgdb.backend.node.aggregator import Aggregator, Place
from pgdb.backend.rank.protocol import FactoryContext
from pgdb.overlay.channel import listen_on
from pgdb.overlay.messages import Request, Setup
from pgdb.overlay.own_process import mark_own
from pgdb.overlay.router import LARGE_RANKS
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet

TICK_S = 0.005


def _no_debuggers(context: FactoryContext) -> NoReturn:
    raise AssertionError(f"nobody asks for the debuggers of {context.rank_count} ranks")


class EmulatedAggregator(Aggregator):
    """An aggregator that answers for its ranks by itself, at once."""

    def __init__(self, place: Place, case: Case) -> None:
        super().__init__(place, _no_debuggers)
        self.blocked_s = 0.0
        """Longest time for which the event loop stood still since the last request, in seconds."""
        self.busy_s = 0.0
        """The same without the time that other processes took, see :meth:`_tick`."""
        self._case = case
        self._ticked_at, self._cpu_at = self._loop.time(), time.process_time()
        self._waited_s: dict[str, float] = {}
        self._loop.call_later(TICK_S, self._tick)

    def ask_own(self, request: Request, ranks: RankSet) -> None:
        """Answer as the leaf would: one rank after the other."""
        self.blocked_s = self.busy_s = 0.0
        self._ticked_at, self._cpu_at = self._loop.time(), time.process_time()
        for rank in ranks:
            self._loop.call_soon(self._say, request.request_id, rank)

    def _take_setup(self, setup: Setup) -> None:
        # Without a leaf: there is no GDB.
        self.apply_setup(setup)
        if len(self.router.ranks) >= LARGE_RANKS:
            loading = self._loop.run_in_executor(None, importlib.import_module, "numpy")
            loading.add_done_callback(lambda _: _say("ready"))
        else:
            _say("ready")

    def _say(self, request_id: int, rank: int) -> None:
        for gathered in self.router.add_answer(request_id, self._case.said(rank)):
            self.answered(gathered)

    def _tick(self) -> None:
        """Record for how long the loop stood still.

        The time without other work on the machine is shorter: by the time for which the loop's
        thread or the thread that makes a reply waited for a processor, whichever is longer. It is
        at most the CPU time of both.
        """
        now_s, cpu_s = self._loop.time(), time.process_time()
        stood_s = now_s - self._ticked_at - TICK_S
        waited_s = waits()
        longest_s = max(each - self._waited_s.get(name, 0.0) for name, each in waited_s.items())
        self.blocked_s = max(self.blocked_s, stood_s)
        self.busy_s = max(self.busy_s, min(stood_s - longest_s, cpu_s - self._cpu_at))
        self._ticked_at, self._cpu_at, self._waited_s = now_s, cpu_s, waited_s
        self._loop.call_later(TICK_S, self._tick)


def waits() -> dict[str, float]:
    """Return the seconds for which each thread of this process has waited for a processor."""
    found = {}
    for each in os.scandir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"{each.path}/schedstat", "rb") as file:
            found[each.name] = int(file.read().split()[1]) / 1e9
    return found


async def serve(settings: dict[str, Any]) -> None:
    """Run the aggregator until it leaves."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the daemon does
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    credentials = settings["credentials"].encode("ascii")
    address = settings["parent"]
    place = Place(
        node=settings["node"],
        topology=Topology(count=settings["count"], fan_out=settings["fan_out"]),
        credentials=credentials,
        front_end=address,
        grace_s=60.0,
        own_address=f"127.0.0.1:{listening.getsockname()[1]}",
        addresses=(address,) * settings["count"],
    )
    aggregator = EmulatedAggregator(place, Case.read(settings["case"]))
    listener = await listen_on(listening, credentials, aggregator.serve_link)
    _say(listening.getsockname()[1])
    await aggregator.run()
    await listener.close()
    _say(f"{aggregator.blocked_s} {aggregator.busy_s}")


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    mark_own()
    asyncio.run(serve(json.loads(sys.stdin.readline())))
