"""What ``--json`` prints: one JSON object per line for every answer and every event.

All objects are declared here, so that the encoder, the tests and ``docs/json-schema.json``
(``python -m pgdb.frontend.jsonlines > docs/json-schema.json``) cannot disagree;
``docs/json.md`` says what the fields mean. Within one :data:`SCHEMA_VERSION` types, fields and
words are added, never taken away, renamed or given another meaning.
"""

from __future__ import annotations

import json
import platform
import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from pgdb.frontend.answers import Answer
from pgdb.frontend.session import Session, Told
from pgdb.merge.answer import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointList,
    BreakpointsMade,
    Done,
    Event,
    Exit,
    Failure,
    Frame,
    Gone,
    Output,
    Progress,
    Record,
    Running,
    Stack,
    Stop,
    StopReason,
    Text,
    Value,
    Variables,
)
from pgdb.version import __version__

SCHEMA_VERSION = 1
"""Said in the first line; a larger one means that old fields have changed."""

_RANGE = r"\d+(-\d+(/\d+)?)?"
RankText = Annotated[
    str,
    Meta(
        description="Set of MPI ranks, folded: '0-3,8', '0-30/2'; empty for none.",
        pattern=rf"^({_RANGE}(,{_RANGE})*)?$",
    ),
]
Time = Annotated[float, Meta(description="Seconds since 1970-01-01 00:00 UTC.")]
ClassText = Callable[[EquivalenceClass[Record]], str]
"""Writes what a class says for people, without its ranks."""
T = TypeVar("T", bound=Event)

# An __int128 of the program's is a number still; beyond that, a reader's integers and Python's
# own limit of 4300 digits for decimal output would be the next to break.
_MAX_NUMBER_BITS = 128
# Valid inside JSON strings as they are, but terminals obey the C1 controls, and Python's
# str.splitlines() ends a line at U+0085, U+2028 and U+2029.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


# -- records -------------------------------------------------------------------------------------
# The overlay tags records with "type", which in a line is the line's own type.


class StackRecord(Stack, frozen=True, tag_field="kind", tag="stack"):
    """Frames of the selected thread, innermost first."""


class ValueRecord(Value, frozen=True, tag_field="kind", tag="value"):
    """The value of an expression, as GDB prints it."""


class VariablesRecord(Variables, frozen=True, tag_field="kind", tag="variables"):
    """Variables of the selected frame."""


class TextRecord(Text, frozen=True, tag_field="kind", tag="text"):
    """What a GDB command printed."""


class ErrorRecord(Failure, frozen=True, tag_field="kind", tag="error"):
    """The command failed on these ranks."""


class DoneRecord(Done, frozen=True, tag_field="kind", tag="done"):
    """The command worked and has nothing to say."""


class BreakpointsRecord(BreakpointsMade, frozen=True, tag_field="kind", tag="breakpoints"):
    """Breakpoints that the command made."""


class BreakpointListRecord(BreakpointList, frozen=True, tag_field="kind", tag="breakpoint-list"):
    """All breakpoints of these ranks."""


class StopRecord(Stop, frozen=True, tag_field="kind", tag="stop"):
    """The ranks have stopped."""


class ExitRecord(Exit, frozen=True, tag_field="kind", tag="exit"):
    """The processes of the ranks have ended."""


class RunningRecord(Running, frozen=True, tag_field="kind", tag="running"):
    """The ranks have been set running."""


RecordObject = (
    StackRecord
    | ValueRecord
    | VariablesRecord
    | TextRecord
    | ErrorRecord
    | DoneRecord
    | BreakpointsRecord
    | BreakpointListRecord
    | StopRecord
    | ExitRecord
    | RunningRecord
)
"""A record as it stands in a line, its tag as ``kind``."""

_RECORD_OBJECTS: Mapping[type, type[RecordObject]] = {
    kind.__base__: kind for kind in get_args(RecordObject)
}


# -- parts of lines ------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all objects inside lines; what has its default is left out."""


class HostRanks(Part, frozen=True, kw_only=True):
    """The ranks of one host."""

    host: str
    ranks: RankText


class AnswerClass(Part, frozen=True, kw_only=True):
    """Ranks that have answered the same."""

    ranks: RankText
    text: str
    """The answer for people, without the ranks."""
    record: RecordObject
    """The answer for programs."""
    error: bool = False
    """Whether the command failed on these ranks."""
    value: int | float | UnsetType = UNSET
    """The value, where the record is one and its text is a finite number."""


class MissingRanks(Part, frozen=True, kw_only=True):
    """Ranks that were asked and have not answered, by the reason."""

    late: RankText
    lost: RankText
    running: RankText


class StopClass(Part, frozen=True, kw_only=True):
    """Ranks that have stopped at the same place for the same reason."""

    ranks: RankText
    reason: StopReason
    text: str
    signal: str = ""
    meaning: str = ""
    breakpoint: int = 0
    frame: Frame | UnsetType = UNSET
    inside: str = ""
    detail: str = ""


class ExitClass(Part, frozen=True, kw_only=True):
    """Ranks whose processes have ended the same way."""

    ranks: RankText
    text: str
    code: int | UnsetType = UNSET
    """Exit status, where they ended by themselves."""
    signal: str = ""


class LauncherEnd(Part, frozen=True, kw_only=True):
    """How the job's launcher has ended."""

    code: int | UnsetType = UNSET
    signal: str = ""


# -- lines ---------------------------------------------------------------------------------------


class LineBase(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Base of all lines; what has its default is left out."""

    time: Time


class HelloLine(LineBase, frozen=True, kw_only=True, tag="hello"):
    """The first line: what is debugged, and with what."""

    schema: int
    pgdb: str
    python: str
    gdb: str
    mpi: str
    mode: Literal["attach", "launch"]
    job: str
    ranks: RankText
    hosts: tuple[HostRanks, ...]


class AnswerLine(LineBase, frozen=True, kw_only=True, tag="answer"):
    """The answer to a command; every rank asked is in one class or in one set of missing."""

    command: str
    request: int = 0
    ranks: RankText
    classes: tuple[AnswerClass, ...]
    missing: MissingRanks
    elapsed_s: float


class LateLine(LineBase, frozen=True, kw_only=True, tag="late"):
    """Further answers to an earlier command, from ranks that its answer named as late."""

    command: str
    request: int = 0
    ranks: RankText
    classes: tuple[AnswerClass, ...]


class BreakpointLine(LineBase, frozen=True, kw_only=True, tag="breakpoint"):
    """A breakpoint, watchpoint or catchpoint that a command has made."""

    number: int
    """Job-wide number."""
    ranks: RankText
    kind: str
    location: str
    """As the user gave it, or what is watched or caught."""
    function: str = ""
    file: str = ""
    line: int = 0
    location_count: int = 1
    condition: str = ""
    temporary: bool = False
    request: int = 0


class StopLine(LineBase, frozen=True, kw_only=True, tag="stop"):
    """Ranks have stopped and can be looked at."""

    request: int = 0
    classes: tuple[StopClass, ...]


class RunningLine(LineBase, frozen=True, kw_only=True, tag="running"):
    """Ranks run again."""

    request: int = 0
    ranks: RankText


class ExitLine(LineBase, frozen=True, kw_only=True, tag="exit"):
    """Processes of ranks, or the job's launcher, have ended."""

    request: int = 0
    classes: tuple[ExitClass, ...] = ()
    launcher: LauncherEnd | UnsetType = UNSET


class OutputLine(LineBase, frozen=True, kw_only=True, tag="output"):
    """What the job, GDB unasked or PGDB itself has printed."""

    stream: Literal["stdout", "stderr", "gdb", "pgdb"]
    text: str
    ranks: RankText = ""
    data: bytes = b""
    """The same as it was, in base64, where it is no valid UTF-8."""


class ProgressLine(LineBase, frozen=True, kw_only=True, tag="progress"):
    """Ranks have got on with the start of the session, or are back after a loss."""

    stage: Literal["held", "gdb", "attached", "joined"]
    ranks: RankText


class LostLine(LineBase, frozen=True, kw_only=True, tag="lost"):
    """Ranks can no longer be debugged."""

    ranks: RankText
    why: str


class ErrorLine(LineBase, frozen=True, kw_only=True, tag="error"):
    """Something could not be done at all."""

    message: str
    command: str = ""


class EndLine(LineBase, frozen=True, kw_only=True, tag="end"):
    """The last line: the session is over."""

    status: int


Line = (
    HelloLine
    | AnswerLine
    | LateLine
    | BreakpointLine
    | StopLine
    | RunningLine
    | ExitLine
    | OutputLine
    | ProgressLine
    | LostLine
    | ErrorLine
    | EndLine
)
"""Any line."""


# -- making lines --------------------------------------------------------------------------------


def hello(session: Session, now_s: float) -> HelloLine:
    """Return the first line of a session that has started."""
    members: dict[str, list[int]] = {}
    for process in session.table.processes:
        members.setdefault(process.host, []).append(process.rank)
    return HelloLine(
        time=now_s,
        schema=SCHEMA_VERSION,
        pgdb=__version__,
        python=platform.python_version(),
        gdb=session.gdb_version,
        mpi=session.mpi_version,
        mode=session.mode,
        job=session.description,
        ranks=str(session.table.ranks),
        hosts=tuple(
            HostRanks(host=host, ranks=str(RankSet(ranks))) for host, ranks in members.items()
        ),
    )


def answer(answer: Answer, text: ClassText, now_s: float) -> AnswerLine:
    """Return the line of an answer; *text* writes a class for people."""
    return AnswerLine(
        time=now_s,
        command=answer.command,
        request=answer.request_id,
        ranks=str(answer.ranks),
        classes=_answer_classes(answer, text),
        missing=_missing(answer.missing),
        elapsed_s=round(answer.elapsed_s, 6),
    )


def breakpoints(answer: Answer, now_s: float) -> list[BreakpointLine]:
    """Return a line for each breakpoint that *answer* tells of, by number.

    A breakpoint that lies at different places on different ranks (several programs in one job)
    has a line for each place.
    """
    found: dict[Breakpoint, list[RankSet]] = {}
    for each in answer.classes:
        record = each.filled
        if isinstance(record, BreakpointsMade):
            for made in record.breakpoints:
                # How often it was hit is no part of what it is.
                key = msgspec.structs.replace(made, times=0)
                found.setdefault(key, []).append(each.ranks)
    merged = [(made, RankSet.union(ranks)) for made, ranks in found.items()]
    return [
        BreakpointLine(
            time=now_s,
            number=made.number,
            ranks=str(ranks),
            kind=made.kind,
            location=_location(made),
            function=made.function,
            file=made.file,
            line=made.line,
            location_count=made.location_count,
            condition=made.condition,
            temporary=made.disposition == "del",
            request=answer.request_id,
        )
        for made, ranks in sorted(merged, key=lambda pair: (pair[0].number, pair[1].first))
    ]


def told(told: Told, text: ClassText, now_s: float) -> list[Line]:
    """Return the lines of what the session has told; *text* writes a class for people."""
    match told.kind:
        case "event":
            return _events(told.classes, text, now_s)
        case "late":
            return _late(told.answer, text, now_s)
        case "lost":
            return [LostLine(time=now_s, ranks=str(told.ranks), why=told.text)]
        case "joined":
            return [ProgressLine(time=now_s, stage="joined", ranks=str(told.ranks))]
        case "output":
            is_exact = told.text.encode("utf-8", "surrogatepass") == told.data
            return [
                OutputLine(
                    time=now_s,
                    stream=told.stream,
                    text=told.text,
                    data=b"" if is_exact else told.data,
                )
            ]
        case "ended":
            return [ExitLine(time=now_s, launcher=_launcher_end(told.code))]


def error(message: str, now_s: float, command: str = "") -> ErrorLine:
    """Return the line of an error; *command* is what could not be done, if it was one."""
    return ErrorLine(time=now_s, message=message, command=command)


def end(status: int, now_s: float) -> EndLine:
    """Return the last line; *status* is the exit status of ``pgdb``."""
    return EndLine(time=now_s, status=status)


def encode(line: Line) -> str:
    """Return the JSON text of *line*: one line, without a line end, fit to be written as UTF-8."""
    try:
        text = msgspec.json.encode(line).decode()
    except UnicodeEncodeError:
        # Arguments and file names that are no UTF-8 come with lone surrogates (PEP 383), which
        # neither UTF-8 nor most readers of JSON accept.
        plain = json.dumps(msgspec.to_builtins(line), ensure_ascii=False, separators=(",", ":"))
        text = _SURROGATE.sub("\ufffd", plain)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def schema() -> dict[str, object]:
    """Return the JSON Schema of a line."""
    declared = msgspec.json.schema(Line)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"PGDB JSON lines, schema version {SCHEMA_VERSION}",
        "description": "One line of the output of pgdb --json; docs/json.md explains the fields.",
        **{key: _opened(value) for key, value in declared.items()},
    }


def _opened(node: object) -> object:
    """Return a schema that allows further fields: later releases may add some.

    Our own decoding refuses them, so that a test sees a misspelt one.
    """
    if isinstance(node, dict):
        return {
            # msgspec 0.18.6 and 0.22 order an anyOf differently; its order has no meaning.
            key: sorted(map(_opened, value), key=json.dumps) if key == "anyOf" else _opened(value)
            for key, value in node.items()
            if not (key == "additionalProperties" and value is False)
        }
    return [_opened(each) for each in node] if isinstance(node, list | tuple) else node


def _answer_classes(answer: Answer, text: ClassText) -> tuple[AnswerClass, ...]:
    made = []
    for each in answer.classes:
        record = each.filled
        made.append(
            AnswerClass(
                ranks=str(each.ranks),
                text=text(each),
                record=_record_object(record),
                error=each.is_error,
                value=_number(record),
            )
        )
    return tuple(made)


def _record_object(record: Record) -> RecordObject:
    kind = _RECORD_OBJECTS[type(record)]
    return msgspec.convert(record, kind, from_attributes=True)


def _number(record: Record) -> int | float | UnsetType:
    number = record.number if isinstance(record, Value) else None
    if isinstance(number, int) and number.bit_length() <= _MAX_NUMBER_BITS:
        return number
    # JSON has no word for NaN and infinity; their text says which it is.
    if isinstance(number, float) and abs(number) < float("inf"):
        return number
    return UNSET


def _location(made: Breakpoint) -> str:
    at = f"{made.file}:{made.line}" if made.file else made.function
    return made.original or made.what or at


def _missing(missing: Missing) -> MissingRanks:
    return MissingRanks(
        late=str(missing.late), lost=str(missing.lost), running=str(missing.running)
    )


def _late(answer: Answer | None, text: ClassText, now_s: float) -> list[Line]:
    if answer is None:
        return []
    late = LateLine(
        time=now_s,
        command=answer.command,
        request=answer.request_id,
        ranks=str(answer.ranks),
        classes=_answer_classes(answer, text),
    )
    return [late, *breakpoints(answer, now_s)]


def _events(
    classes: Iterable[EquivalenceClass[Event]], text: ClassText, now_s: float
) -> list[Line]:
    """Return the lines of events, in their order; those of one kind and run share a line."""
    groups: dict[tuple[type, object], list[EquivalenceClass[Event]]] = {}
    for each in classes:
        event = each.record
        # A run's stops belong together; of other events each is a line of its own.
        key = event.run if isinstance(event, Stop | Exit | Running) else (event, each.slots)
        groups.setdefault((type(event), key), []).append(each)
    return [_event_line(group, text, now_s) for group in groups.values()]


def _event_line(group: list[EquivalenceClass[Event]], text: ClassText, now_s: float) -> Line:
    ranks = str(RankSet.union(each.ranks for each in group))
    match group[0].filled:
        case Stop(run=run):
            stops = tuple(_stop_class(each, text) for each in _only(Stop, group))
            return StopLine(time=now_s, request=run, classes=stops)
        case Exit(run=run):
            exits = tuple(_exit_class(each, text) for each in _only(Exit, group))
            return ExitLine(time=now_s, request=run, classes=exits)
        case Running(run=run):
            return RunningLine(time=now_s, request=run, ranks=ranks)
        case Output(text=printed):
            return OutputLine(time=now_s, stream="gdb", text=printed, ranks=ranks)
        case Progress(stage=stage):
            return ProgressLine(time=now_s, stage=stage, ranks=ranks)
        case Gone(why=why):
            return LostLine(time=now_s, ranks=ranks, why=why)


def _only(kind: type[T], group: list[EquivalenceClass[Event]]) -> list[EquivalenceClass[T]]:
    return [
        EquivalenceClass(ranks=each.ranks, record=each.record, slots=each.slots)
        for each in group
        if isinstance(each.record, kind)
    ]


def _stop_class(each: EquivalenceClass[Stop], text: ClassText) -> StopClass:
    stop = each.filled
    return StopClass(
        ranks=str(each.ranks),
        reason=stop.reason,
        text=text(EquivalenceClass(ranks=each.ranks, record=each.record, slots=each.slots)),
        signal=stop.signal,
        meaning=stop.meaning,
        breakpoint=stop.breakpoint,
        frame=UNSET if stop.frame is None else stop.frame,
        inside=stop.inside,
        detail=stop.detail,
    )


def _exit_class(each: EquivalenceClass[Exit], text: ClassText) -> ExitClass:
    return ExitClass(
        ranks=str(each.ranks),
        text=text(EquivalenceClass(ranks=each.ranks, record=each.record, slots=each.slots)),
        code=UNSET if each.record.code is None else each.record.code,
        signal=each.record.signal,
    )


def _launcher_end(code: int) -> LauncherEnd:
    if code >= 0:
        return LauncherEnd(code=code)
    try:
        return LauncherEnd(signal=signal.Signals(-code).name)
    except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX
        return LauncherEnd(signal=f"signal {-code}")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2, sort_keys=True) + "\n")
