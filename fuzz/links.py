"""Readers of what comes over the links of the overlay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from fuzz.common import ALL_RANKS, run_coroutine
from pgdb.files.delivery import Delivery
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.show.text import render
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.merge.graph import from_graph, to_graph
from pgdb.merge.rankset_codec import pack, unpack
from pgdb.overlay import channel
from pgdb.overlay.message_codec import decode as decode_message
from pgdb.overlay.message_codec import encode
from pgdb.overlay.messages import (
    Announce,
    AnyMessage,
    Deliveries,
    Events,
    FilePart,
    FilesAre,
    Found,
    Hello,
    Joined,
    Reply,
    Setup,
    Table,
    WantFiles,
    WantPart,
)
from pgdb.overlay.rendezvous import Rendezvous
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Event


def run_wire(data: bytes) -> None:
    """Decode a message, and process it as a node does."""
    message = decode_message(data)
    match message:
        case Reply(graph=graph):
            classes, missing = from_graph(graph)
            merger: Merger[Any] = Merger()
            merger.add_classes(classes)
            merger.add_classes(each.part(ALL_RANKS) for each in classes)
            again = Reply(request_id=1, graph=to_graph(merger.classes, missing))
            encode(again)
            show(merger.classes, missing)
        case Events(classes=reported) | Announce(classes=reported):
            events: Merger[Event] = Merger()
            for each in reported:
                events.add(each.ranks, each.record, each.slots)
            encode(Events(classes=events.classes))
            for each in events.classes:
                each.filled  # noqa: B018  # is put together now
            run_state(reported)
        case Table(node=node, count=count, fan_out=fan_out):
            topology = Topology(count=count, fan_out=fan_out)
            topology.ancestors(node)
            topology.levels_below(node)
        case Setup(shares=shares):
            for share in shares:
                share.ranks, share.pids  # noqa: B018  # are unpacked now
            encode(message)
        case Found(jobs=jobs):
            for job in jobs:
                len(job.ranks)
            encode(message)
        case Hello(below=packed) | Joined(nodes=packed):
            for each in packed:
                Hello.unpack(each).pack()
            encode(message)
        case _:
            encode(message)


def show(classes: tuple[EquivalenceClass[Any], ...], missing: Any) -> None:
    """Render an answer as text and JSON, as the front end does."""
    if sum(len(each.ranks) for each in classes) > 1000 or len(classes) > 20:
        return
    ranks = RankSet.union(each.ranks for each in classes)
    answer = Answer(command="x", ranks=ranks | missing.ranks, classes=classes, missing=missing)
    render.answer(answer)
    json_lines.encode(json_lines.answer(answer, str, 0.0))


def run_state(reported: tuple[EquivalenceClass[Event], ...]) -> None:
    """Process events as the front end does."""
    state = JobState(ALL_RANKS)
    state.apply(reported)
    state.latest(ALL_RANKS)


WIRE_WORDS = tuple(
    b"0-3|0-16777216/2|0,5|0-1/9999999999|R|G|B|value|stack|text|various|error|block|lines|whole|"
    b"\xc2\xb2|\xef\xbf\xbc|\xef\xbf\xb9|\0\xef\xbf\xbc\0|0x5555555592a0|late|running|<f8|-1|nan|0f0f0f".split(
        b"|"
    )
)


def run_rankset(data: bytes) -> None:
    """Unpack a rank set in any encoding."""
    found = unpack(data if data[:1] in (b"R", b"G", b"B") else data.decode("utf-8", "replace"))
    if len(found) < 5000:
        assert unpack(pack(found)) == found


class _Writer:
    """The writing end of a link that discards everything."""

    class transport:  # asyncio's name
        @staticmethod
        def get_write_buffer_size() -> int:
            return 0

        @staticmethod
        def abort() -> None:
            return None

    @staticmethod
    def get_extra_info(name: str) -> None:
        return None

    @staticmethod
    def is_closing() -> bool:
        return False

    def write(self, data: bytes) -> None:
        return None

    def close(self) -> None:
        return None


def run_channel(data: bytes) -> None:
    """Receive messages from a link until it has an end."""

    async def receive() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        link = channel.Channel(reader, _Writer())  # type: ignore[arg-type]
        try:
            while True:
                await link.receive()
        finally:
            link.close()

    run_coroutine(receive())


def run_delivery(data: bytes) -> None:
    """Send messages to a node that delivers files, alternately from below and from above."""

    async def take() -> None:
        sent: list[AnyMessage] = []

        def no_cache() -> Any:
            raise OSError(28, "no room")

        def down(child: int, message: AnyMessage) -> None:
            sent.append(message)

        delivery = Delivery(
            1, "host", open_cache=no_cache, up=sent.append, down=down, notice=lambda text: None
        )
        try:
            for number, each in enumerate(framed(data)):
                message = decode_message(each)
                if not isinstance(message, WantFiles | FilesAre | WantPart | FilePart | Deliveries):
                    continue
                if number % 2:
                    delivery.from_above(message)
                else:
                    delivery.from_child(number % 5, message)
                await asyncio.sleep(0)
            delivery.new_parent()
            delivery.lose_child(2)
        finally:
            await delivery.close()
        for each in sent:
            encode(each)

    run_coroutine(take())


def framed(data: bytes) -> Iterator[bytes]:
    """Yield the pieces of *data*, each of which follows two bytes with its length."""
    at = 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        yield data[at + 2 : at + 2 + size]
        at += 2 + size


def run_rendezvous(data: bytes) -> None:
    """Read the rendezvous that an aggregator gets before it has a link."""
    Rendezvous.parse(data).dump()
