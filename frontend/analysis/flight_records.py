"""PyTorch's flight records: which collective call of each process group every rank is at.

PyTorch keeps the last calls of each rank where TORCH_FR_BUFFER_SIZE (TORCH_NCCL_TRACE_BUFFER_SIZE
before 2.7) is above 0, and writes them to a file per rank when a call times out. A file is a pickle
of plain values or JSON. This module reads neither classes nor code from it.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from pgdb.ranks import RankSet

_PYTORCH = ("/torch/distributed/", "/torch/nn/parallel/", "/torch/_")
"""Parts of the paths of PyTorch's own frames, which are above the user's in a record."""
_MOST_RANK = 1 << 22


class RecordError(ValueError):
    """Data that is no flight record."""


class GroupCall(msgspec.Struct, frozen=True):
    """The last collective call of one rank in a process group."""

    sequence: int
    """Number of the call in its group, from 1 on; 0 before the first."""
    name: str = ""
    """Such as ``all_reduce``."""
    sizes: str = ""
    """Sizes and types of the inputs, such as ``[4, 8] Float``."""
    where: str = ""
    """File and line of the innermost frame that is not PyTorch's."""
    is_done: bool = True
    """Whether the call is complete."""

    @property
    def text(self) -> str:
        """The call in words."""
        if not self.sequence:
            return "no call yet"
        parts = [f"{self.name} {self.sequence}", "complete" if self.is_done else "waits"]
        return ", ".join([*parts, *filter(None, (self.sizes, self.where))])


class RankRecord(msgspec.Struct, frozen=True):
    """The flight record of one rank."""

    calls: dict[str, GroupCall]
    """The last call in each process group, by its name."""
    descriptions: dict[str, str]
    """The description of each group."""
    members: dict[str, RankSet]
    """The ranks of each group, where the record has them."""


class Place(msgspec.Struct, frozen=True):
    """Ranks of a group with one last call."""

    ranks: RankSet
    call: GroupCall
    state: Literal["waits", "missing", "differs", "done"]
    """``waits`` in the furthest call; ``missing`` from it; ``differs``: in a call with its number
    and another name or size; ``done``: the furthest call is complete."""


class GroupState(msgspec.Struct, frozen=True):
    """The ranks of a process group by their last call."""

    name: str
    description: str
    members: RankSet
    """The ranks of the group; those with a record if the group's ranks are not recorded."""
    places: tuple[Place, ...]
    unknown: RankSet
    """Members without a record."""

    @property
    def missing(self) -> RankSet:
        """The ranks that others wait for."""
        return RankSet.union(each.ranks for each in self.places if each.state == "missing")


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise RecordError(f"it names {module}.{name}: a record has plain values only")


def read_record(data: bytes) -> RankRecord:
    """Read the flight record of one rank.

    :raises RecordError: if the data is none.
    """
    try:
        if data.lstrip()[:1] == b"{":
            content = json.loads(data)
        else:
            content = _PlainUnpickler(io.BytesIO(data)).load()
        return _record(content)
    except RecordError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged pickles raise nearly any exception
        raise RecordError(f"it is no flight record ({type(error).__name__}: {error})") from None


def _record(content: Any) -> RankRecord:
    if not isinstance(content, dict) or not isinstance(content.get("entries", []), list):
        raise RecordError("it is no flight record: it has no list of entries")
    if "entries" not in content and "pg_config" not in content:
        raise RecordError("it is no flight record: it has neither entries nor pg_config")
    calls: dict[str, GroupCall] = {}
    descriptions: dict[str, str] = {}
    for entry in content.get("entries", []):
        name, description = (str(each) for each in entry["process_group"])
        descriptions[name] = "" if description == "undefined" else description
        if entry.get("is_p2p"):
            calls.setdefault(name, GroupCall(0))
            continue
        call = _call(entry)
        if call.sequence >= calls.get(name, GroupCall(0)).sequence:
            calls[name] = call
    members = {}
    for name, config in content.get("pg_config", {}).items():
        ranks = config.get("ranks", "") if isinstance(config, dict) else ""
        numbers = json.loads(ranks) if isinstance(ranks, str) and ranks else ranks or []
        if found := RankSet(_rank(each) for each in numbers):
            # gloo leaves the name of the default group empty here.
            members[name or "0"] = found
            if description := config.get("desc", ""):
                descriptions.setdefault(name or "0", description)
    return RankRecord(calls, descriptions, members)


def _call(entry: Mapping[str, Any]) -> GroupCall:
    name = str(entry.get("profiling_name", "")).rpartition(":")[2]
    sizes = [json.dumps(each) for each in entry.get("input_sizes", [])]
    types = [str(each) for each in entry.get("input_dtypes", [])]
    pairs = [" ".join(each) for each in zip(sizes, types, strict=False)]
    return GroupCall(
        sequence=int(entry["collective_seq_id"]),
        name=name,
        sizes="; ".join(pairs[:2]) + ("; …" if len(pairs) > 2 else ""),
        where=_where(entry.get("frames") or []),
        # gloo retires a call without a new state.
        is_done=bool(entry.get("retired")) or entry.get("state") == "completed",
    )


def _where(frames: Iterable[Mapping[str, Any]]) -> str:
    for frame in frames:
        path = str(frame.get("filename", ""))
        if path and not any(each in path for each in _PYTORCH):
            return f"{path.rpartition('/')[2]}:{frame.get('line', '?')}"
    return ""


def _rank(number: Any) -> int:
    if not isinstance(number, int) or not 0 <= number < _MOST_RANK:
        raise RecordError(f"it is no flight record: {number!r} is no rank")
    return number


def group_states(records: Mapping[int, RankRecord]) -> tuple[GroupState, ...]:
    """Return the state of each process group, those in which ranks wait for others first."""
    names = dict.fromkeys(
        name for record in records.values() for name in (*record.calls, *record.members)
    )
    found = [_group(name, records) for name in names]
    return tuple(sorted(found, key=lambda each: (not each.missing, not _has_waits(each))))


def _has_waits(group: GroupState) -> bool:
    return any(each.state != "done" for each in group.places)


def _group(name: str, records: Mapping[int, RankRecord]) -> GroupState:
    listed = RankSet.union(record.members.get(name, RankSet()) for record in records.values())
    callers = RankSet(rank for rank, record in records.items() if name in record.calls)
    members = listed | callers
    calls = {
        rank: records[rank].calls.get(name, GroupCall(0)) for rank in members if rank in records
    }
    furthest = max((each.sequence for each in calls.values()), default=0)
    # Most ranks agree on the call; a tie goes to the one of the least rank.
    at = [each for each in calls.values() if each.sequence == furthest]
    usual = max(at, key=lambda each: sum(map(_is_same(each), at)), default=GroupCall(0))
    classes: dict[tuple[GroupCall, str], list[int]] = {}
    for rank, call in calls.items():
        classes.setdefault((call, _state(call, usual, at)), []).append(rank)
    places = [Place(RankSet(ranks), call, state) for (call, state), ranks in classes.items()]  # type: ignore[arg-type]
    description = next(
        filter(None, (record.descriptions.get(name, "") for record in records.values())), ""
    )
    return GroupState(
        name=name,
        description=description,
        members=members,
        places=tuple(sorted(places, key=lambda each: each.ranks.first)),
        unknown=members - RankSet(records),
    )


def _is_same(one: GroupCall) -> Any:
    return lambda other: (one.name, one.sizes) == (other.name, other.sizes)


def _state(call: GroupCall, usual: GroupCall, at: list[GroupCall]) -> str:
    if call.sequence < usual.sequence:
        return "missing" if call.is_done and not all(each.is_done for each in at) else "waits"
    # Ranks of a broadcast or a scatter have inputs of different sizes.
    if call.name != usual.name:
        return "differs"
    return "done" if call.is_done else "waits"


def lines(groups: Iterable[GroupState]) -> Iterator[str]:
    """Yield the states of groups as text."""
    for group in groups:
        title = f"process group {group.name}"
        if group.description and group.description != group.name:
            title += f" ({group.description})"
        yield f"{title}: [{group.members}]"
        for each in group.places:
            yield f"  [{each.ranks}] {each.call.text}{_remark(each, group)}"
        if group.unknown:
            yield f"  [{group.unknown}] no record"


def _remark(place: Place, group: GroupState) -> str:
    furthest = max(group.places, key=lambda each: each.call.sequence).call
    if place.state == "missing":
        return f"; missing from {furthest.name} {furthest.sequence}"
    return "; another call than the others'" if place.state == "differs" else ""
