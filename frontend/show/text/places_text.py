"""Hosts, processes and states of ranks, as data and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.frontend.api.job_state import BY_USER
from pgdb.frontend.show.text.event_text import event
from pgdb.frontend.show.text.layout import Layout, brackets, table
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.proctable import RankProcess, World
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Stop

_MOST_PIDS_TEXT = 40


class Place(msgspec.Struct, frozen=True):
    """Ranks on one host in one state."""

    ranks: RankSet
    host: str
    pids: tuple[int, ...]
    """Process id of each rank, in order of ranks."""
    state: str
    """``stopped``, ``running``, ``exited``, ``detached`` or ``lost``."""


def places(processes: Sequence[RankProcess], states: Mapping[str, RankSet]) -> tuple[Place, ...]:
    """Return ranks by host and state, least rank first."""
    members: dict[tuple[str, str], list[RankProcess]] = {}
    for process in processes:
        state = next((name for name, ranks in states.items() if process.rank in ranks), "")
        members.setdefault((process.host, state), []).append(process)
    return tuple(
        Place(RankSet(each.rank for each in found), host, tuple(each.pid for each in found), state)
        for (host, state), found in members.items()
    )


def place_lines(
    found: Sequence[Place],
    latest: Sequence[EquivalenceClass[Event]],
    sets: Mapping[str, RankSet],
    held_for: Mapping[str, RankSet],
) -> str:
    """Return the lines of hosts and states, of last stops and exits, of held ranks, and of named
    sets."""
    rows = [
        (brackets(each.ranks), f"{each.state} on {each.host}, {_pids(each.pids)}") for each in found
    ]
    merger: Merger[Event] = Merger()
    for each in latest:  # events of different moments and commands may be the same but for that
        record = each.record
        plain = replace(record, run=0) if isinstance(record, Stop | Exit) else record
        merger.add(each.ranks, plain, each.slots)
    rows += [(brackets(each.ranks), event(each.filled)) for each in merger.classes]
    rows += [(brackets(ranks), held_text(why)) for why, ranks in held_for.items()]
    lines = [f"@{name} = {brackets(ranks)}" for name, ranks in sets.items()]
    return "\n".join((*(table(rows, Layout()) or ["no ranks"]), *lines))


def held_text(why: str) -> str:
    """Return the state of ranks that are held for a reason."""
    return "held" if why == BY_USER else f"held for {why}"


def joined(world: World) -> str:
    """Return the text about ranks that have joined the session."""
    number = world.number
    origin = f"those of job {world.job}" if world.job else "which MPI_Comm_spawn has started"
    return f"are in the session now: {number}.0-{world.span - 1} (@world{number}), {origin}"


def world_lines(worlds: Sequence[World]) -> str:
    """Return a line for each world: its ranks in the session, its size, its processes."""
    lines = []
    for world in worlds:
        hosts: dict[str, list[int]] = {}
        for each in world.processes:
            hosts.setdefault(each.host, []).append(each.pid)
        where = "; ".join(f"{host}, {_pids(pids)}" for host, pids in hosts.items())
        found, size = len(world.processes), world.size
        ranks = f"{found} of {size} ranks" if found < size else f"{found} rank{'s' * (found != 1)}"
        state = brackets(world.ranks) if world.ranks else "not in the session"
        lines.append(f"world {world.number}  {state}  {ranks} on {where}")
    return "\n".join(lines)


def _pids(pids: Sequence[int]) -> str:
    """Return process ids in order of ranks, with runs folded."""
    parts: list[str] = []
    at = 0
    while at < len(pids):
        end = at
        while end + 1 < len(pids) and pids[end + 1] == pids[end] + 1:
            end += 1
        parts.append(str(pids[at]) if end == at else f"{pids[at]}-{pids[end]}")
        at = end + 1
    text = ",".join(parts)
    if len(text) > _MOST_PIDS_TEXT:
        text = f"{parts[0]},… {len(pids)} processes"
    return f"pid {text}"
