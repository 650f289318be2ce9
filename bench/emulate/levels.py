"""A tree too large for this machine, level by level: one real node of each, with real children.

The node is a process of its own (node.py). This process is its parent and all of its children. It
sends the messages of their subtrees on as many real links, all at once, which is the worst time of
arrival, and waits for the node's result. The longest path is the sum over the levels, plus the time
of the front end for the last reply.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.emulate.made_up import REQUEST_ID, Case
from bench.emulate.sessions import cpu_s, memory_bytes
from pgdb.overlay.channel import Channel, connect, listen
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import (
    PROTOCOL_VERSION,
    Backtrace,
    Events,
    Hello,
    Joined,
    Lost,
    Reply,
    Request,
    Setup,
    Share,
    Shutdown,
)
from pgdb.overlay.node import release
from pgdb.overlay.router import Gathering
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet

RANKS_PER_AGGREGATOR = 128
FAN_OUT = 32
TIMEOUT_S = 2.0
"""Timeout of requests with a late child, in seconds."""
DEADLINE_S = 600.0


@dataclass(frozen=True, slots=True)
class Level:
    """The measurement of one level's node with one case."""

    case: Case
    level: int
    """0 for the root of the aggregators, -1 for the front end."""
    children: int
    in_bytes: int
    out_bytes: int
    took_s: float
    """Seconds from the first byte of a child to the whole reply."""
    cpu_s: float
    blocked_s: float
    """Longest time for which the event loop stood still, in seconds."""
    busy_s: float
    """The same, without the time for which the loop waited for a processor."""
    peak_bytes: int


def shares_below(topology: Topology, node: int) -> tuple[Share, ...]:
    """Return the shares of a node and of all nodes below it."""
    return tuple(Share.of(each, ranks_of(each), _pids(each)) for each in topology.subtree(node))


def _pids(node: int) -> list[int]:
    """Return pids for a node's ranks, as if started in turn with threads in between."""
    chance = random.Random(node)
    steps = (chance.randint(1, 40) for _ in range(RANKS_PER_AGGREGATOR - 1))
    return [*itertools.accumulate(steps, initial=chance.randint(1000, 4_000_000))]


def ranks_of(node: int) -> RankSet:
    """Return the ranks of one aggregator."""
    return RankSet.range(node * RANKS_PER_AGGREGATOR, (node + 1) * RANKS_PER_AGGREGATOR)


def ranks_below(topology: Topology, node: int) -> RankSet:
    """Return the ranks of a node and of all nodes below it."""
    return RankSet.union(map(ranks_of, topology.subtree(node)))


def measure_levels(case: Case) -> list[Level]:
    """Return the cost of each level, from the front end to the innermost."""
    topology = Topology(count=case.ranks // RANKS_PER_AGGREGATOR, fan_out=FAN_OUT)
    found = []
    node, level = 0, 0
    while True:
        measured, reply = asyncio.run(_measure(case, topology, node, level))
        found.append(measured)
        if not level and case.command != "stop storm":
            found.insert(0, _front_end(case, reply))
        children = topology.children(node)
        if not children:
            return found
        node, level = children[0], level + 1


async def _measure(case: Case, topology: Topology, node: int, level: int) -> tuple[Level, bytes]:
    children = topology.children(node)
    # This comes before the links, because it would delay their heartbeats.
    messages = [case.message(ranks_below(topology, child)) for child in children]
    credentials = make_credentials()
    links: asyncio.Queue[Channel] = asyncio.Queue()
    is_over = asyncio.Event()

    async def on_link(channel: Channel) -> None:
        await links.put(channel)
        await is_over.wait()

    listener = await listen("127.0.0.1", credentials, on_link)
    settings = {
        "node": node,
        "count": topology.count,
        "fan_out": topology.fan_out,
        "credentials": credentials.decode("ascii"),
        "parent": f"127.0.0.1:{listener.port}",
        "case": case.write(),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.emulate.node"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(settings).encode() + b"\n")
    try:
        async with asyncio.timeout(DEADLINE_S):
            port = int(await process.stdout.readline())
            parent = await links.get()
            channels = [await connect(f"127.0.0.1:{port}", credentials) for _ in children]
            for child, channel in zip(children, channels, strict=True):
                channel.send(_hello(child, topology, topology.subtree(child)))
            await _joined(parent, {node, *children})
            everyone = ranks_below(topology, node)
            parent.send(Setup(shares=shares_below(topology, node), gdb="none"))
            for channel in channels:
                await _next(channel, Setup)
            # One-time work of a session, such as loading NumPy, is not part of the answer.
            assert await process.stdout.readline() == b"ready\n"
            before_s = cpu_s(process.pid)
            parent.send(
                Request(
                    request_id=REQUEST_ID,
                    ranks=everyone,
                    operation=Backtrace(),
                    timeout_s=TIMEOUT_S if case.lacks == "late child" else math.inf,
                )
            )
            for channel in channels:
                await _next(channel, Request)
            begun = time.perf_counter()
            speaking = channels[1:] if case.lacks else channels
            for channel, message in zip(speaking, messages[-len(speaking) :], strict=True):
                _write(channel, message)
            if case.lacks == "dead child" and channels:
                channels[0].close()
            reply = await _all_said(parent, everyone - ranks_of(node), case)
            took_s = time.perf_counter() - begun
            measured_s = cpu_s(process.pid) - before_s
            peak = memory_bytes(process.pid, "status", "VmHWM")
            parent.send(Shutdown())
            blocked_s, busy_s = map(float, (await process.stdout.readline()).split())
            await process.wait()
    finally:
        is_over.set()
        if process.returncode is None:
            process.kill()
            await process.wait()
        await listener.close()
    for channel in (*channels, parent):
        channel.close()
    measured = Level(
        case=case,
        level=level,
        children=len(children),
        in_bytes=sum(map(len, messages)),
        out_bytes=len(reply),
        took_s=took_s,
        cpu_s=measured_s,
        blocked_s=blocked_s,
        busy_s=busy_s,
        peak_bytes=peak,
    )
    return measured, reply


def _front_end(case: Case, message: bytes) -> Level:
    """Return the time of the front end, which is this process, for the reply of node 0."""
    begun, begun_cpu = time.perf_counter(), time.process_time()
    reply = decode(message)
    assert isinstance(reply, Reply)
    everyone = RankSet.range(0, case.ranks)
    request = Request(
        request_id=REQUEST_ID, ranks=everyone, operation=Backtrace(), timeout_s=math.inf
    )
    gathering = Gathering(request, math.inf)
    gathering.add_graph(reply.graph)
    assert gathering.is_complete or case.lacks
    assert gathering.gathered().classes
    return Level(
        case=case,
        level=-1,
        children=1,
        in_bytes=len(message),
        out_bytes=0,
        took_s=time.perf_counter() - begun,
        cpu_s=time.process_time() - begun_cpu,
        blocked_s=0.0,
        busy_s=0.0,
        peak_bytes=0,
    )


def _hello(node: int, topology: Topology, below: Sequence[int] = ()) -> Hello:
    return Hello(
        version=PROTOCOL_VERSION,
        release=release(),
        node=node,
        host=f"node{node}",
        # A host with two networks has two.
        names=(
            f"node{node}",
            f"node{node}.cluster.example",
            f"10.0.{node >> 8}.{node & 255}",
            f"10.1.{node >> 8}.{node & 255}",
            f"fe80::{node:x}",
        ),
        address=f"10.0.{node >> 8}.{node & 255}:40000",
        pid=os.getpid(),
        joins=1,
        parent=topology.parent(node),
        below=tuple(_hello(each, topology).pack() for each in below if each != node),
    )


async def _joined(parent: Channel, wanted: set[int]) -> None:
    """Wait for the node and its children, which report their whole subtrees."""
    nodes: set[int] = set()
    while not wanted <= nodes:
        message = await parent.receive()
        if isinstance(message, Hello):
            nodes.add(message.node)
        elif isinstance(message, Joined):
            nodes.update(Hello.unpack(data).node for data in message.nodes)


async def _next(channel: Channel, kind: type[Setup | Request]) -> None:
    while not isinstance(await channel.receive(), kind):
        pass


def _write(channel: Channel, message: bytes) -> None:
    # The messages are made beforehand: only the node is measured.
    channel._writer.write(len(message).to_bytes(4, "big") + message)


async def _all_said(parent: Channel, below: RankSet, case: Case) -> bytes:
    """Wait for the reply, or until all ranks *below* have stopped; return the last message."""
    said = RankSet()
    while True:
        message = await parent.receive()
        if isinstance(message, Reply) and (case.command != "stop storm" or not below):
            return encode(message)
        if isinstance(message, Events):
            said = RankSet.union((said, *(each.ranks for each in message.classes)))
            if below <= said:
                return encode(message)
        elif not isinstance(message, Lost | Reply):
            raise AssertionError(f"the node sent {msgspec.structs.asdict(message)}")
