"""Stacks of one aggregator's ranks, merged before they reach the router."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pgdb.backend.node.answer_cache import AnswerCache, pack
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import Normalized, join_slots, normalize_record
from pgdb.ranks import RankSet
from pgdb.records import (
    BreakpointsChanged,
    Event,
    Exit,
    Gone,
    Output,
    Progress,
    Record,
    Running,
    Stack,
    Stop,
)

_EVENTS = (Stop, Exit, Running, Output, Progress, BreakpointsChanged, Gone)
_ONLY_EVENTS = (Output, Progress, BreakpointsChanged, Gone)

FRAMES_AT_ONCE = 5000
"""Stacks of so many frames are merged before the loop goes on with others."""
_MOST_MADE = 256

OnAnswer = Callable[[int, EquivalenceClass[Record]], None]


def record_of(record: Record | Event) -> Record:
    """Narrow a normalized record to an answer."""
    assert not isinstance(record, _ONLY_EVENTS)
    return record


def event_of(record: Record | Event) -> Event:
    """Narrow a normalized record to an event."""
    assert isinstance(record, _EVENTS)
    return record


class StackAnswers:
    """Merger of the stacks that come at one time before they are reported.

    Ranks of a host share their stacks (see :mod:`pgdb.backend.gdb.stacks`), so that the result for
    a stack is found by the stack's identity.
    """

    def __init__(self, memory: AnswerCache, on_answer: OnAnswer) -> None:
        self._memory = memory
        self._on_answer = on_answer
        self._flush: asyncio.Handle | None = None
        # Ranks that gave a stack, by request and by the stack's identity.
        self._new: dict[tuple[int, bool], dict[int, tuple[Stack, list[int]]]] = {}
        # By identity, too; an entry keeps its stack, so that no other stack gets that identity.
        self._made: dict[tuple[int, bool], tuple[Stack, bytes, Normalized]] = {}
        self._shared: dict[Record | Event, Record | Event] = {}

    def add(self, request_id: int, rank: int, stack: Stack, *, split: bool) -> None:
        """Take the stack of a rank; it is reported before the loop waits for anything else."""
        said = self._new.setdefault((request_id, split), {})
        said.setdefault(id(stack), (stack, []))[1].append(rank)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        self._flush = None
        new, self._new = self._new, {}
        frames = 0
        for (request_id, split), said in new.items():
            classes: dict[int, tuple[Normalized, list[int], tuple[str, ...]]] = {}
            for identity, (stack, ranks) in list(said.items()):
                if frames > FRAMES_AT_ONCE:
                    self._new[request_id, split] = said
                    break
                del said[identity]
                frames += len(stack.frames)
                packed, normalized = self._make(stack, split)
                self._memory.keep_packed(request_id, RankSet(ranks), packed)
                one = classes.get(id(normalized.record))
                if one is None:
                    classes[id(normalized.record)] = (normalized, [*ranks], normalized.slots)
                else:
                    one[1].extend(ranks)
                    slots = join_slots(one[2], normalized.slots)
                    classes[id(normalized.record)] = (one[0], one[1], slots)
            for normalized, ranks, slots in classes.values():
                record = record_of(normalized.record)
                self._on_answer(
                    request_id, EquivalenceClass(ranks=RankSet(ranks), record=record, slots=slots)
                )
        if self._new:
            # The remaining stacks follow in the next round of the loop.
            self._flush = asyncio.get_running_loop().call_soon(self._report)

    def _make(self, stack: Stack, split: bool) -> tuple[bytes, Normalized]:
        known = self._made.get((id(stack), split))
        if known is None:
            normalized = normalize_record(stack, join_arguments=not split)
            # Stacks that are equal once normalized share one record.
            if len(self._shared) >= _MOST_MADE:
                self._shared.clear()
            shared = self._shared.setdefault(normalized.record, normalized.record)
            normalized = Normalized(record=shared, slots=normalized.slots)
            while len(self._made) >= _MOST_MADE:
                del self._made[next(iter(self._made))]
            known = self._made[id(stack), split] = (stack, pack(stack), normalized)
        return known[1:]
