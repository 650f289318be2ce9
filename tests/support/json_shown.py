"""Answers and notifications, and their lines of JSON as they were decoded."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import (
    RankEvents,
)
from pgdb.frontend.show.json import json_notifications
from pgdb.frontend.show.json.json_lines import Line, encode
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.normalize import normalize_record
from pgdb.merge.summary import Summary
from pgdb.merge.totals import summarize
from pgdb.mpi_calls import CallSite, Communicator, MpiCall, MpiCallStatus
from pgdb.rank_sample import RankSample, SampledThread
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    Block,
    Breakpoint,
    BreakpointList,
    BreakpointsMade,
    Done,
    Event,
    Exit,
    Failure,
    FileWritten,
    Frame,
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

NOW_S = 1690000000.123456
DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line, strict=True)

FRAME = Frame(
    level=1,
    function="hang",
    arguments=(Variable(name="rank", value="3", is_argument=True),),
    file="ring.c",
    fullname="/home/user/ring.c",
    line=11,
)
MADE = Breakpoint(
    number=4, kind="breakpoint", function="main", file="ring.c", line=12, original="ring.c:12"
)
RECORDS: tuple[Record, ...] = (
    Stack(
        frames=(FRAME, Frame(level=2, function="??", library="libmpi.so")), hidden="3", more=True
    ),
    Threads(
        stacks=(
            ThreadStack(stack=Stack(frames=(FRAME,), hidden="3")),
            ThreadStack(stack=Stack(frames=(), more=True), count=3),
        ),
        hidden="2",
    ),
    Value(text="{1, 2}"),
    Block(dtype="<f8", shape=(4, 2), data=bytes(range(16)), start=6, order="F"),
    Various(template=Value(text=f"{{{PLACEHOLDER}, {PLACEHOLDER}}}")),
    Various(template=Threads(stacks=(ThreadStack(stack=Stack(frames=(FRAME,))),))),
    Variables(items=(Variable(name="x", value="1"),)),
    Variables(items=(), empty="No locals."),
    Text(text="line 1\nline 2"),
    FileWritten(path="/tmp/core.{rank}.{pid}", host="node1", process="7", text="a warning"),
    MpiCallStatus(
        state="in_call",
        where=CallSite(function="main", file="ring.c", line=22, fullname="/home/user/ring.c"),
        calls=(
            MpiCall(
                function="MPI_Recv",
                kind="recv",
                blocking=True,
                communicator=Communicator(name="MPI_COMM_WORLD", members="0-3"),
                source=3,
                tag=7,
            ),
        ),
    ),
    RankSample(
        stacks="main:ring.c:22:1f",
        threads=(SampledThread(thread="1", own="0a", cpu_s=2.5),),
        children_s=1.5,
        time_s=20.25,
    ),
    Failure(message="No symbol table is loaded."),
    Done(),
    BreakpointsMade(breakpoints=(MADE,), text="made"),
    BreakpointList(breakpoints=(MADE,)),
    Stop(reason="signal-received", run=5, signal="SIGSEGV", meaning="Fault", frame=FRAME),
    Exit(code=0, run=5),
    Exit(signal="SIGKILL"),
    Running(run=5),
)


def said(ranks: str, record: Record, slots: tuple[str, ...] = ()) -> EquivalenceClass[Record]:
    return EquivalenceClass(ranks=RankSet.parse(ranks), record=record, slots=slots)


def happened(ranks: str, event: Event) -> EquivalenceClass[Event]:
    return EquivalenceClass(ranks=RankSet.parse(ranks), record=event)


def answered(*classes: EquivalenceClass[Record], missing: Missing | None = None) -> Answer:
    return Answer(
        command="bt",
        ranks=RankSet.union(each.ranks for each in classes),
        classes=classes,
        missing=missing or Missing(),
        request_id=7,
        elapsed_s=0.02,
    )


def text_of(each: EquivalenceClass[Record]) -> str:
    return f"<{type(each.record).__name__}>"


def events(*classes: EquivalenceClass[Event]) -> list[Line]:
    return json_notifications.notification(RankEvents(classes=classes), text_of, NOW_S)


def shown(line: Line) -> dict[str, Any]:
    """Return *line* as a reader decodes it, after a check that it is one line and decodes to
    itself."""
    text = encode(line)
    assert len(text.splitlines()) == 1
    assert DECODER.decode(text) == line
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return found


def one_shown(lines: list[Line]) -> dict[str, Any]:
    assert len(lines) == 1
    return shown(lines[0])


def summed_up() -> Summary:
    """Return the summary of 0, 1.5, NaN, infinity, 4.5 and a text on the ranks 0 to 5."""
    texts = ["0", "1.5", "nan(0x8000000000000)", "inf", "4.5", '"a"']
    return summarize((RankSet([rank]), text) for rank, text in enumerate(texts))


COLUMN = {
    "count": 3,
    "low": 0,
    "high": 4.5,
    "at_low": "0",
    "at_high": "4",
    "mean": 2.0,
    "deviation": 1.8708286933869707,
    "distinct": 3,
    "nan": "2",
    "above": "3",
    "others": "5",
}


def merged(*records: Record) -> Answer:
    """Return the answer of ranks 0, 1 … with *records*, merged as in the overlay."""
    merger: Merger[Record] = Merger()
    for rank, record in enumerate(records):
        normalized = normalize_record(record)
        assert isinstance(normalized.record, Record)
        merger.add(RankSet([rank]), normalized.record, normalized.slots)
    return answered(*merger.classes)
