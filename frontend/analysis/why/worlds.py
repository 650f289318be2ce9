"""Calls of several worlds in the ranks of one session.

Each world of MPI numbers its ranks from 0: the one that the launcher has started, those of
MPI_Comm_spawn, and those of other jobs that have connected. A session numbers all of them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import msgspec
from msgspec.structs import replace

from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import (
    ELSEWHERE,
    ArrivedMessage,
    Communicator,
    Group,
    MpiCall,
    MpiCallStatus,
    Peer,
    Request,
)
from pgdb.ranks import RankSet
from pgdb.records import Record

Classes = tuple[EquivalenceClass[Record], ...]


def in_session(classes: Classes, worlds: Mapping[int, RankSet]) -> Classes:
    """Return calls with the ranks that the session gives to the ranks of each world.

    A communicator whose members are in two worlds gets the members of both, where ranks of both
    have it in their calls.

    :param worlds: the ranks of each world in the session; empty for a session of one world.
    """
    if not worlds:
        return classes
    moved = tuple(_of_worlds(classes, worlds))
    linked = _links(moved, worlds)
    return tuple(_linked(each, linked) for each in moved) if linked else moved


def _of_worlds(
    classes: Classes, worlds: Mapping[int, RankSet]
) -> Iterator[EquivalenceClass[Record]]:
    for each in classes:
        for number, ranks in worlds.items():
            if here := each.ranks & ranks:
                part = each.part(here)
                if isinstance(part.record, MpiCallStatus):
                    part = replace(part, record=_World(number, ranks.first).status(part.record))
                yield part


class _World(msgspec.Struct, frozen=True):
    """The numbers of one world."""

    number: int
    first: int
    """The rank in the session of the world's rank 0."""

    def status(self, status: MpiCallStatus) -> MpiCallStatus:
        return replace(
            status,
            calls=tuple(map(self.call, status.calls)),
            recent=tuple(replace(each, call=self.call(each.call)) for each in status.recent),
            callback_of=None if status.callback_of is None else self.call(status.callback_of),
            arrived=tuple(map(self._message, status.arrived)),
        )

    def call(self, call: MpiCall) -> MpiCall:
        return replace(
            call,
            communicator=self._communicator(call.communicator),
            dest=self._peer(call.dest),
            source=self._peer(call.source),
            root=self._peer(call.root),
            window=self._group(call.window),
            file_handle=self._group(call.file_handle),
            group=self._group(call.group),
            requests=tuple(map(self._request, call.requests)),
            neighbours=self._ranks(call.neighbours),
            awaits=self._ranks(call.awaits),
            came=self._ranks(call.came),
        )

    def _request(self, request: Request) -> Request:
        return replace(
            request,
            communicator=self._communicator(request.communicator),
            peer=self._peer(request.peer),
            neighbours=self._ranks(request.neighbours),
        )

    def _message(self, message: ArrivedMessage) -> ArrivedMessage:
        return replace(
            message,
            source=self._peer(message.source),
            communicator=self._communicator(message.communicator),
        )

    def _communicator(self, communicator: Communicator | None) -> Communicator | None:
        if communicator is None:
            return None
        identity = communicator.identity
        if identity and communicator.remote != ELSEWHERE:
            # It is unique in its world alone: MPI_COMM_WORLD has the same one in each.
            identity = f"{identity} of world {self.number}"
        return replace(
            communicator,
            members=self._ranks(communicator.members),
            remote=cast(str, self._ranks(communicator.remote)),
            identity=identity,
        )

    def _group(self, group: Group | None) -> Group | None:
        return None if group is None else replace(group, members=self._ranks(group.members))

    def _peer(self, peer: Peer | None) -> Peer | None:
        return peer + self.first if isinstance(peer, int) else peer

    def _ranks(self, text: str | None) -> str | None:
        if not text or text == ELSEWHERE or not self.first:
            return text
        return str(RankSet(rank + self.first for rank in RankSet.parse(text)))


def _links(classes: Classes, worlds: Mapping[int, RankSet]) -> dict[tuple[str, str], str]:
    """Return the remote members of communicators in two worlds, by identity and own members."""
    found: dict[str, dict[int, str]] = {}
    for each in classes:
        if not isinstance(each.record, MpiCallStatus):
            continue
        number = next(world for world, ranks in worlds.items() if each.ranks <= ranks)
        for one in _communicators(each.record):
            if one.remote == ELSEWHERE and one.identity and one.members:
                found.setdefault(one.identity, {})[number] = one.members
    links = {}
    for identity, members in found.items():
        # With more than two, it is unknown which two belong together.
        if len(members) == 2:
            first, second = members.values()
            links[identity, first], links[identity, second] = second, first
    return links


def _communicators(status: MpiCallStatus) -> Iterator[Communicator]:
    for call in status.calls:
        for each in (call.communicator, *(request.communicator for request in call.requests)):
            if each is not None:
                yield each


def _linked(
    each: EquivalenceClass[Record], links: Mapping[tuple[str, str], str]
) -> EquivalenceClass[Record]:
    record = each.record
    if not isinstance(record, MpiCallStatus):
        return each

    def with_remote(one: Communicator | None) -> Communicator | None:
        if one is None or one.remote != ELSEWHERE:
            return one
        return replace(one, remote=links.get((one.identity, one.members or ""), ELSEWHERE))

    calls: Iterable[MpiCall] = (
        replace(
            call,
            communicator=with_remote(call.communicator),
            requests=tuple(
                replace(request, communicator=with_remote(request.communicator))
                for request in call.requests
            ),
        )
        for call in record.calls
    )
    return replace(each, record=replace(record, calls=tuple(calls)))
