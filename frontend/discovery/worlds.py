"""The worlds of a launcher: its own ranks, and those that MPI_Comm_spawn has started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.errors import DiscoveryError
from pgdb.jobs import environment_scan, world_keys
from pgdb.jobs.environment_scan import RankGroup
from pgdb.jobs.processes import Processes
from pgdb.proctable import RankProcess, World
from pgdb.ranks import RankSet

ALL_WORLDS = "all"
"""Word for the ranks of a job and of all further ones that MPI_Comm_spawn has started."""


class HostPart(msgspec.Struct, frozen=True):
    """The ranks of one world on one host."""

    key: str
    """Selector of the ranks, on this host."""
    size: int
    """Number of ranks in MPI_COMM_WORLD, 0 if unknown."""
    processes: tuple[RankProcess, ...]

    @property
    def ranks(self) -> RankSet:
        """The ranks."""
        return RankSet(each.rank for each in self.processes)


def parts_of(groups: Iterable[RankGroup]) -> tuple[HostPart, ...]:
    """Return the ranks of one host, as a scan has found them."""
    return tuple(HostPart(each.key, each.size or 0, each.processes) for each in groups)


def assemble(hosts: Sequence[Sequence[HostPart]]) -> tuple[World, ...]:
    """Return the worlds of which *hosts* have parts, each host's in the order of their start.

    Open MPI numbers its worlds. Hydra does not: of its worlds each host has an order only. All
    hosts have the worlds in the same order, so the next world is one whose parts are all next on
    their hosts and make it whole; if there is none, ranks have ended or were not found.
    """
    numbered: dict[int, list[HostPart]] = {}
    pending: list[list[HostPart]] = []
    for parts in hosts:
        pending.append([])
        for each in parts:
            number = world_keys.number_of(each.key)
            if number is None:
                pending[-1].append(each)
            else:
                numbered.setdefault(number, []).append(each)
    next_number = max(numbered, default=0) + 1
    while any(pending):
        heads = [parts[0] for parts in pending if parts]
        chosen = next(filter(_is_whole, _unions(heads)), None) or next(_unions(heads))
        numbered[next_number] = chosen
        next_number += 1
        for parts in pending:
            if parts and any(parts[0] is each for each in chosen):
                del parts[0]
    return tuple(_joined(number, numbered[number]) for number in sorted(numbered))


def worlds_of(
    launcher: int, in_session: Mapping[int, int], processes: Processes | None = None
) -> tuple[World, ...]:
    """Return the worlds of a launcher's ranks on this host; empty if there is only one.

    :param in_session: the ranks of a session, by the process.
    """
    if not launcher:
        return ()
    below = environment_scan.scan_below(launcher, processes or Processes())
    groups = [each for each in below if not each.torch]
    if len(groups) < 2:
        return ()
    return tuple(
        replace(world, ranks=RankSet(in_session[pid] for pid in world.pids if pid in in_session))
        for world in assemble([parts_of(groups)])
    )


def chosen(worlds: Sequence[World], word: str, who: str) -> tuple[World, ...]:
    """Return the world of a number, or all of them, with the numbers of their ranks in a session.

    The ranks of a further world are numbered on behind those of the worlds before. *who* names the
    launcher.

    :raises DiscoveryError: if there is no such world.
    """
    wanted = [each for each in worlds if word in (ALL_WORLDS, str(each.number))]
    if not wanted:
        numbers = RankSet(each.number for each in worlds)
        has = "no ranks"
        if numbers:
            has = f"worlds {numbers.first} to {max(numbers)}"
            if len(numbers) <= max(numbers) - numbers.first:
                has = f"worlds {numbers}"
            has += ", and 'all' is all of them"
        raise DiscoveryError(f"{who} has no world {word!r}; it has {has}")
    found: list[World] = []
    first = 0
    for each in wanted:
        found.append(each.numbered_from(first))
        first += each.span
    return tuple(found)


def processes_of(worlds: Iterable[World]) -> tuple[RankProcess, ...]:
    """Return the processes of worlds by the numbers of their ranks in the session."""
    return tuple(process for world in worlds for process in world.in_session)


def _unions(heads: Sequence[HostPart]) -> Iterator[list[HostPart]]:
    """Yield for each head the parts that can be of one world with it, of equal size."""
    for first in heads:
        found, ranks = [first], first.ranks
        for each in heads:
            if each is not first and each.size == first.size and ranks.isdisjoint(each.ranks):
                found.append(each)
                ranks = ranks | each.ranks
        yield found


def _is_whole(parts: Sequence[HostPart]) -> bool:
    return parts[0].size > 0 and sum(len(each.processes) for each in parts) == parts[0].size


def _joined(number: int, parts: Sequence[HostPart]) -> World:
    processes = {each.rank: each for part in parts for each in part.processes}
    return World(
        number=number,
        size=max(each.size for each in parts),
        processes=tuple(processes[rank] for rank in sorted(processes)),
    )
