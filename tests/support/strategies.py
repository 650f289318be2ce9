"""Hypothesis strategies for rank sets, records and the answers of many ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st

from pgdb.merge.classes import MOST_COLUMNS, EquivalenceClass, Merger
from pgdb.merge.normalize import DIFFERENT_SLOT, normalize_record
from pgdb.merge.summary import Summary
from pgdb.merge.templates import count_placeholders, extract_template
from pgdb.merge.totals import summarize
from pgdb.mpi_calls import ANY_SOURCE, CallSite, Communicator, MpiCall, MpiCallStatus
from pgdb.rank_sample import RankSample, SampledThread
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    SLOT,
    Block,
    Breakpoint,
    BreakpointList,
    BreakpointsChanged,
    BreakpointsMade,
    Done,
    Event,
    Exit,
    Failure,
    FileWritten,
    Frame,
    Gone,
    Output,
    Progress,
    Record,
    Running,
    Stack,
    Stop,
    Text,
    Threads,
    ThreadStack,
    Value,
    Variable,
    Variables,
    Various,
)

T = TypeVar("T", bound=Record | Event)

# Texts as ranks send them: addresses that are normalized, ones that are not, marks, empty lines.
# Parts that fill a form, and what looks nearly like one.
_PIECES = st.sampled_from(
    [
        *("", "a", "\n", "\n\n", " ", SLOT, "…", "0x", "0x0", "0x10"),
        *("0x5555555592a0", "0x7ffff7dd5000"),
        *(PLACEHOLDER, "1", "-2.5e3", "nan(0x8000000000000)", '"', '"b"', "'", "\\", "{", "x = "),
    ]
)
# Two marks alone stand for what differs; no text of GDB's is that.
texts = (
    st.lists(_PIECES | st.text(max_size=3), max_size=6)
    .map("".join)
    .filter(lambda text: text != DIFFERENT_SLOT)
)
small = st.integers(0, 3)
rank_sets = st.frozensets(st.integers(0, 60), min_size=1).map(RankSet)


def _struct(kind: Callable[..., T], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    return st.builds(kind, **fields)


variables = st.builds(Variable, name=texts, value=texts, is_argument=st.booleans())
variable_tuples = st.lists(variables, max_size=3).map(tuple)
frames = st.builds(
    Frame,
    level=st.just(0),
    function=st.sampled_from(["main", "advance", "exchange", "??", SLOT]),
    arguments=variable_tuples,
    file=st.sampled_from(["", "ring.c"]),
    line=small,
    library=st.sampled_from(["", "libmpi.so.40"]),
)


def numbered(shown: list[Frame]) -> tuple[Frame, ...]:
    return tuple(msgspec.structs.replace(each, level=n) for n, each in enumerate(shown))


stacks = st.builds(
    Stack,
    frames=st.lists(frames, max_size=5).map(numbered),
    hidden=st.sampled_from(["", "0", "7", SLOT]),
    more=st.booleans(),
)
threads = st.builds(
    Threads,
    stacks=st.lists(st.builds(ThreadStack, stack=stacks, count=st.integers(1, 3)), max_size=3).map(
        tuple
    ),
    hidden=st.sampled_from(["", "2", SLOT]),
)
stops = st.builds(
    Stop,
    reason=st.sampled_from(["breakpoint-hit", "signal-received", "main", "other"]),
    run=small,
    breakpoint=small,
    signal=st.sampled_from(["", "SIGSEGV"]),
    meaning=texts,
    frame=st.none()
    | st.builds(lambda each, level: msgspec.structs.replace(each, level=level), frames, small),
    inside=st.sampled_from(["", "MPI_Recv"]),
    detail=texts,
)
breakpoints = st.builds(
    Breakpoint, number=small, kind=st.just("breakpoint"), what=texts, condition=texts, times=small
)
breakpoint_tuples = st.lists(breakpoints, max_size=2).map(tuple)

_FORMED: dict[type, st.SearchStrategy[Any]] = {
    Stack: stacks,
    Threads: threads,
    Value: _struct(Value, text=texts),
    Variables: _struct(Variables, items=variable_tuples, empty=texts),
    Text: _struct(Text, text=texts),
    Failure: _struct(Failure, message=texts),
}
templated = st.one_of(list(_FORMED.values()))
"""Records that can have a form."""

RECORDS: dict[type, st.SearchStrategy[Any]] = {
    **_FORMED,
    Block: _struct(
        Block,
        dtype=st.sampled_from(["<f8", "<i4"]),
        shape=st.lists(small, max_size=2).map(tuple),
        data=st.binary(max_size=8),
        start=small,
        order=st.sampled_from("CF"),
    ),
    FileWritten: st.builds(
        FileWritten,
        path=st.sampled_from(["/tmp/core.{rank}", "/tmp/{rank}.{pid}"]),
        host=st.sampled_from(["n0", "n1"]),
        process=st.sampled_from(["", "7", "8", SLOT]),
        text=texts,
    ),
    MpiCallStatus: _struct(
        MpiCallStatus,
        state=st.sampled_from(["in_call", "outside"]),
        where=st.none() | st.builds(CallSite, file=st.sampled_from(["a.c", "b.c"]), line=small),
        calls=st.lists(
            st.builds(
                MpiCall,
                function=st.sampled_from(["MPI_Recv", "MPI_Barrier"]),
                communicator=st.none() | st.builds(Communicator, members=st.just("0-3")),
                source=st.none() | small | st.just(ANY_SOURCE),
            ),
            max_size=2,
        ).map(tuple),
    ),
    RankSample: _struct(
        RankSample,
        stacks=st.sampled_from(["main:a.c:3:1f", "main:a.c:4:1f"]),
        threads=st.lists(
            st.builds(SampledThread, thread=st.just("1"), own=st.sampled_from(["", "0a"])),
            max_size=2,
        ).map(tuple),
        children_s=st.sampled_from([0.0, 1.5]),
    ),
    Various: _struct(Various, template=templated.map(lambda record: extract_template(record)[0])),
    Done: st.just(Done()),
    BreakpointsMade: _struct(BreakpointsMade, breakpoints=breakpoint_tuples, text=texts),
    BreakpointList: _struct(BreakpointList, breakpoints=breakpoint_tuples),
    Stop: stops,
    Exit: _struct(Exit, code=st.none() | small, signal=st.sampled_from(["", "SIGKILL"]), run=small),
    Running: _struct(Running, run=small),
}
"""Strategy for each kind of record; a test checks that none is missing."""

EVENTS: dict[type, st.SearchStrategy[Any]] = {
    Stop: RECORDS[Stop],
    Exit: RECORDS[Exit],
    Running: RECORDS[Running],
    Output: _struct(Output, text=texts),
    BreakpointsChanged: _struct(
        BreakpointsChanged,
        made=breakpoint_tuples,
        deleted=st.lists(small, max_size=2).map(tuple),
        changed=breakpoint_tuples,
        last=small,
    ),
    Progress: _struct(Progress, stage=st.sampled_from(["held", "gdb", "attached"])),
    Gone: _struct(Gone, why=texts),
}

records = st.one_of(list(RECORDS.values()))
leaf_records = st.one_of([made for kind, made in RECORDS.items() if kind is not Various])
"""Records that one rank can answer; aggregators make Various."""
events = st.one_of(list(EVENTS.values()))


def merged(*answers: tuple[EquivalenceClass[T], ...]) -> tuple[EquivalenceClass[T], ...]:
    merger: Merger[T] = Merger()
    for each in answers:
        merger.add_classes(each)
    return merger.classes


def columns_of(record: Record, ranks: RankSet) -> tuple[Summary, ...]:
    """Return summaries that fit a record, of numbers made up; none if it is not Various."""
    if not isinstance(record, Various):
        return ()
    count = count_placeholders(record.template)
    if count > MOST_COLUMNS:
        return ()
    return tuple(summarize((RankSet([rank]), str(rank)) for rank in ranks) for _ in range(count))


def class_of(ranks: RankSet, record: Record) -> EquivalenceClass[Record]:
    """Return the class of *ranks* that said *record*, normalized, with columns that fit it."""
    normalized = normalize_record(record)
    return EquivalenceClass(
        ranks=ranks,
        record=normalized.record,  # type: ignore[arg-type]  # a record, as it was before
        slots=normalized.slots,
        columns=columns_of(record, ranks),
    )


@st.composite
def partitions(draw: st.DrawFn, *, largest: int = 60, most: int = 6) -> tuple[RankSet, ...]:
    """Draw sets without a rank in common, none of them empty."""
    label = st.integers(0, most)
    labels = draw(st.lists(label, max_size=largest))
    found: dict[int, list[int]] = {}
    for rank, number in enumerate(labels):
        if number:
            found.setdefault(number, []).append(rank)
    return tuple(RankSet(each) for each in found.values())


@st.composite
def class_tuples(draw: st.DrawFn) -> tuple[EquivalenceClass[Record], ...]:
    """Draw answers as they travel: classes of different ranks, least rank first."""
    return tuple(class_of(ranks, draw(records)) for ranks in draw(partitions()))
