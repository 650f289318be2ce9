"""The lines of ``--json``: one JSON object per line for every answer and every event.

:mod:`pgdb.frontend.show.json.json_shapes` declares the lines; this module makes and encodes them.
"""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from pgdb.controls import harmless_json
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.analysis.comparing import Comparison
from pgdb.frontend.analysis.decompose import GlobalArray
from pgdb.frontend.analysis.prominence import most_prominent_changes_first
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.json.json_classes import (
    ClassText,
    answer_classes,
    classes_of,
    different_places,
    events_of,
    exit_class,
    marked_lines,
    missing_ranks,
    record_object,
    still_running,
    stop_class,
)
from pgdb.frontend.show.json.json_parts import (
    ArrayFailure,
    ArrayForm,
    ComparedPart,
    ComparedRanks,
    FailingRanks,
    HeldRanks,
    HistogramBin,
    HostProcesses,
    HostRanks,
    LeftOutRanks,
    PlacedRanks,
    TreeFailure,
    TreeFrame,
    TreeNode,
    TreeSource,
    WorldRanks,
)
from pgdb.frontend.show.json.json_shapes import (
    SCHEMA_VERSION,
    AnswerLine,
    ArraysLine,
    AssertLine,
    BreakpointLine,
    CompareLine,
    EndLine,
    ErrorLine,
    HeldLine,
    HelloLine,
    Line,
    RanksLine,
    StatLine,
    TreeLine,
    WorldsLine,
    schema,
)
from pgdb.frontend.show.text.places_text import Place
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.summary import Summary, iterate_bins
from pgdb.patterns import pattern
from pgdb.proctable import World
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointsMade,
    Event,
    Exit,
    Failure,
    Stop,
)
from pgdb.version import __version__

_SURROGATE = pattern("[\ud800-\udfff]")


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
        recorded=session.is_recorded,
    )


def answer(answer: Answer, text: ClassText, now_s: float) -> AnswerLine:
    """Return the line of an answer; *text* returns the text of a class for people."""
    return AnswerLine(
        time=now_s,
        command=answer.command,
        request=answer.request_id,
        ranks=str(answer.ranks),
        classes=answer_classes(answer, text),
        missing=missing_ranks(answer.missing),
        elapsed_s=round(answer.elapsed_s, 6),
        places=different_places(answer),
        marks=marked_lines(answer),
        still_running=still_running(answer),
    )


def breakpoints(answer: Answer, now_s: float) -> list[BreakpointLine]:
    """Return a line for each breakpoint in *answer*, ordered by number.

    A breakpoint with different locations on different ranks (several programs in one job) has a
    line for each location.
    """
    found: dict[Breakpoint, list[RankSet]] = {}
    for each in answer.classes:
        record = each.filled
        if isinstance(record, BreakpointsMade):
            for made in record.breakpoints:
                # The hit count does not distinguish breakpoints.
                key = replace(made, times=0)
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


def arrays(
    found: Arrays, command: str, now_s: float, *, text: str, file: str, whole: GlobalArray | None
) -> ArraysLine:
    """Return the line of arrays, and of the global array *whole* assembled from them."""
    return ArraysLine(
        time=now_s,
        command=command,
        expression=found.expression,
        ranks=str(found.ranks),
        forms=tuple(
            ArrayForm(ranks=str(ranks), dtype=dtype, shape=shape)
            for (dtype, shape), ranks in found.forms.items()
        ),
        missing=missing_ranks(found.missing),
        errors=tuple(
            ArrayFailure(ranks=str(each.ranks), message=each.record.message)
            for each in found.errors
            if isinstance(each.record, Failure)
        ),
        size_bytes=found.size_bytes,
        text=text,
        file=file,
        shape=whole.values.shape if whole is not None else (),
        absent=whole.missing_count if whole is not None else 0,
        conflicts=whole.conflict_count if whole is not None else 0,
    )


def tree(tree: CallTree, command: str, now_s: float, files: Iterable[str] = ()) -> TreeLine:
    """Return the line of a call tree; *files* are the files written from it."""
    odd = tree.odd
    several = tree.samples > 1
    nodes = [
        TreeNode(
            number=each.number,
            ranks=str(each.ranks),
            parent=each.parent,
            frames=tuple(
                TreeFrame(
                    function=place.function,
                    file=place.file,
                    line=place.line,
                    offset=place.offset,
                    dying=place.dying,
                    language=place.language,
                )
                for place in each.frames
            ),
            sources=tuple(TreeSource(file=file, line=line) for file, line in each.sources),
            leaf=each.is_leaf,
            odd=odd is not None and odd.number == each.number,
            threads=each.threads if tree.has_threads else UNSET,
            samples=tuple(map(str, each.seen)) if several else (),
        )
        for each in tree.nodes
    ]
    return TreeLine(
        time=now_s,
        command=command,
        by=tree.by,
        ranks=str(tree.ranks),
        nodes=tuple(nodes),
        missing=missing_ranks(tree.missing),
        errors=tuple(
            TreeFailure(ranks=str(ranks), message=message)
            for message, ranks in tree.failures.items()
        ),
        times_s=tree.times_s if several else (),
        stayed=str(tree.stayed),
        moved=str(tree.moved),
        stopped=str(tree.idle),
        files=tuple(files),
    )


def comparison(
    found: Comparison, expression: str, *, before: str, after: str, text: ClassText
) -> CompareLine:
    """Return the line of a comparison."""
    return CompareLine(
        time=0.0,
        expression=expression,
        before=before,
        after=after,
        by=found.by,
        same=found.same,
        equal=str(found.equal),
        equal_others=str(found.equal_others),
        differences=tuple(
            ComparedRanks(
                ranks=str(each.ranks),
                others=str(each.others),
                before=record_object(each.before),
                after=record_object(each.after),
                parts=tuple(
                    ComparedPart(
                        path=part.path,
                        before=part.before,
                        after=part.after,
                        absolute=UNSET if part.absolute is None else part.absolute,
                        relative=UNSET if part.relative is None else part.relative,
                    )
                    for part in most_prominent_changes_first(each.parts)
                ),
            )
            for each in found.differences
        ),
        only_before=classes_of(found.only_before, text),
        only_after=classes_of(found.only_after, text),
        left_out=tuple(
            LeftOutRanks(ranks=str(each.ranks), side=each.side, why=each.why)
            for each in found.left_out
        ),
    )


def checked(found: Check) -> AssertLine:
    """Return the line of a check."""
    return AssertLine(
        time=0.0,
        condition=found.requirement.title,
        expression=found.requirement.expression,
        ok=found.ok,
        ranks=str(found.ranks),
        passed=str(found.passed),
        failing=tuple(
            FailingRanks(ranks=str(each.ranks), value=each.value, why=each.why, error=each.is_error)
            for each in found.failing
        ),
        missing=missing_ranks(found.missing),
        common=found.common,
    )


def statistics(
    expression: str, found: Summary | None, ranks: RankSet, answer: Answer, text: ClassText
) -> StatLine:
    """Return the line of statistics of numbers."""
    errors = classes_of(answer.errors, text)
    missing = missing_ranks(answer.missing)
    if found is None:
        return StatLine(
            time=0.0, expression=expression, ranks="", count=0, errors=errors, missing=missing
        )
    block, lows, highs = found.profile
    bins = iterate_bins(found.bins) if found.bins is not None else ()
    return StatLine(
        time=0.0,
        expression=expression,
        ranks=str(ranks),
        count=found.count,
        low=UNSET if found.low is None else found.low,
        high=UNSET if found.high is None else found.high,
        at_low=str(found.at_low),
        at_high=str(found.at_high),
        mean=found.mean if math.isfinite(found.mean) else UNSET,
        deviation=found.deviation if math.isfinite(found.deviation) else UNSET,
        distinct=found.distinct,
        nan=str(found.nan),
        above=str(found.above),
        below=str(found.below),
        others=str(found.others),
        rounded=found.is_rounded,
        bins=tuple(HistogramBin(low=low, high=high, count=count) for low, high, count in bins),
        block=block,
        lows=lows,
        highs=highs,
        errors=errors,
        missing=missing,
    )


def places(
    found: Sequence[Place],
    latest: Sequence[EquivalenceClass[Event]],
    sets: Mapping[str, RankSet],
    text: ClassText,
    held_for: Mapping[str, RankSet],
) -> RanksLine:
    """Return the line of hosts, states, last stops and exits of ranks, and of held ranks."""
    return RanksLine(
        time=0.0,
        places=tuple(
            PlacedRanks(ranks=str(each.ranks), host=each.host, pids=each.pids, state=each.state)
            for each in found
        ),
        stops=tuple(stop_class(each, text) for each in events_of(Stop, latest)),
        exits=tuple(exit_class(each, text) for each in events_of(Exit, latest)),
        sets={name: str(ranks) for name, ranks in sets.items()},
        held=_held_ranks(held_for),
    )


def held(ranks: RankSet, held_for: Mapping[str, RankSet], *, released: bool) -> HeldLine:
    """Return the line of ranks that are held or free since now, and of all that are held."""
    return HeldLine(time=0.0, ranks=str(ranks), released=released, held=_held_ranks(held_for))


def _held_ranks(held_for: Mapping[str, RankSet]) -> tuple[HeldRanks, ...]:
    return tuple(HeldRanks(ranks=str(ranks), why=why) for why, ranks in held_for.items())


def worlds(found: Iterable[World]) -> WorldsLine:
    """Return the line of worlds."""
    return WorldsLine(time=0.0, worlds=tuple(map(world_ranks, found)))


def world_ranks(world: World) -> WorldRanks:
    """Return the hosts and processes of a world."""
    hosts: dict[str, list[int]] = {}
    for each in world.processes:
        hosts.setdefault(each.host, []).append(each.pid)
    return WorldRanks(
        world=world.number,
        size=world.size,
        hosts=tuple(HostProcesses(host=host, pids=tuple(pids)) for host, pids in hosts.items()),
        ranks=str(world.ranks),
        job=world.job,
    )


def error(message: str, now_s: float, command: str = "") -> ErrorLine:
    """Return the line of an error; *command* is the failed command, if there was one."""
    return ErrorLine(time=now_s, message=message, command=command)


def end(status: int, now_s: float) -> EndLine:
    """Return the last line; *status* is the exit status of ``pgdb``."""
    return EndLine(time=now_s, status=status)


def encode(line: Line) -> str:
    """Return the JSON text of *line*: one line without a line end, valid as UTF-8."""
    try:
        text = msgspec.json.encode(line).decode()
    except UnicodeEncodeError:
        # Arguments and file names that are not UTF-8 arrive with lone surrogates (PEP 383). Neither
        # UTF-8 nor most JSON readers accept them.
        plain = json.dumps(msgspec.to_builtins(line), ensure_ascii=False, separators=(",", ":"))
        text = _SURROGATE.sub("\ufffd", plain)
    return harmless_json(text)


def _location(made: Breakpoint) -> str:
    at = f"{made.file}:{made.line}" if made.file else made.function
    if made.original.startswith("*"):
        return made.at or made.original
    return made.original or made.what or at


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2, sort_keys=True) + "\n")
