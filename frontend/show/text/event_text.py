"""Events as text: stops, exits, losses, output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from pgdb.frontend.analysis.function_names import shown_name
from pgdb.frontend.show.text.layout import Layout, brackets
from pgdb.frontend.show.text.stack_text import frame
from pgdb.frontend.show.text.stop_details import split_details
from pgdb.frontend.show.text.text_blocks import notes_on_displays, text_blocks
from pgdb.function_names import bare_name
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT, join_slots
from pgdb.ranks import RankSet
from pgdb.records import (
    BreakpointsChanged,
    Event,
    Exit,
    Frame,
    Gone,
    Output,
    Progress,
    Running,
    Stop,
    Variable,
    is_error,
)

INDENT = "    "
"""Indentation of the details of a stop."""
_SHORT_ARGUMENT = 8


class ReadSource(Protocol):
    """A function that returns a line of a source file, or None if the file cannot be read."""

    def __call__(self, path: str, line: int, /) -> str | None:
        """Return line *line* (from 1) of the file *path*."""


def no_source(path: str, line: int, /) -> str | None:
    """Return no line, for interfaces that show no sources."""
    del path, line
    return None


def event(record: Event | Stop | Exit | Running) -> str:
    """Return the text of one event, without its ranks."""
    match record:
        case Stop():
            return _stop(record)
        case Exit(code=code, signal=name, after=after):
            if name:
                return f"ended by {name}" + (f", after [{after}]" if after else "")
            if code is None:
                return "ended in an unknown way"
            return f"exited with code {code}" if code else "exited normally"
        case Running():
            return "running"
        case Output(text=text):
            return text
        case Gone(why=why, has_ended=True):
            return f"lost: {why}; the rank has ended"
        case Gone(why=why):
            return f"lost: {why}; the rank runs without a debugger; 'reattach' attaches to it again"
        case Progress(stage=stage):
            return stage
        case BreakpointsChanged():
            return ""


def events(
    classes: Sequence[EquivalenceClass[Event]],
    read_source: ReadSource = no_source,
    width: int = 0,
    is_missing: Callable[[str], bool] = lambda path: False,
) -> str:
    """Return the lines of events that arrived together, least rank first.

    A stop wider than *width* is shown without its long arguments; 0 means no limit. *is_missing*
    returns whether a source file, of which a line was read, does not exist.
    """
    lines = []
    layout = Layout(width=width)
    blocks = text_blocks(classes, layout)
    merged = {number for block in blocks for number in block.members}
    shown = [
        each
        for number, each in enumerate(classes)
        if isinstance(each.record, Stop | Exit | Output | Gone) and number not in merged
    ]
    shown = _of_several_runs(shown)
    column = max((len(brackets(each.ranks)) for each in shown), default=0)
    few = len(shown) <= 3
    for each in shown:
        record, details = split_details(each, layout)
        text = event(record)
        if width and isinstance(record, Stop) and len(text.partition("\n")[0]) > width - column - 1:
            text = event(_with_short_arguments(record))
        text = "\n".join((text, *(f"{INDENT}{line}" for line in details)))
        lines += _prefixed(each.ranks, text, column)
        if not isinstance(record, Stop) or record.frame is None:
            continue
        if few or is_error(record):
            source = read_source(record.frame.fullname, record.frame.line)
            if source is not None:
                lines.append(f"{record.frame.line}\t{source}")
            elif record.frame.line and is_missing(record.frame.fullname):
                # In GDB's words.
                lines.append(
                    f"{record.frame.line}\t{record.frame.file}: No such file or directory."
                )
    lines += [line for block in blocks for line in block.lines]
    lines += notes_on_displays(classes)
    return "\n".join(lines)


# -- inside ------------------------------------------------------------------------------------


def _of_several_runs(
    classes: Sequence[EquivalenceClass[Event]],
) -> list[EquivalenceClass[Event]]:
    """Return classes with stops and ends that differ in nothing but their runs as one."""
    kept: list[EquivalenceClass[Event]] = []
    places: dict[tuple[Stop | str, int], int] = {}
    for each in classes:
        record = each.record
        if isinstance(record, Stop):
            key: Stop | str = replace(record, run=0)
        elif isinstance(record, Exit):
            key = event(record)
        else:
            kept.append(each)
            continue
        if (place := places.setdefault((key, len(each.slots)), len(kept))) == len(kept):
            kept.append(each)
            continue
        first = kept[place]
        slots = join_slots(first.slots, each.slots)
        kept[place] = EquivalenceClass(first.ranks | each.ranks, first.record, slots)
    return kept


def _stop(record: Stop) -> str:
    where = "??"
    if record.frame is not None:
        where = frame(record.frame, shown_name(record.frame.function) + record.frame.offset)
    if record.reason == "death" and record.frame is not None:
        where = f"{record.dying} <- {frame(replace(record.frame, dying=''))}"
        after = f", after [{record.after}]" if record.after else ""
        return f"about to die{after}: {where}" + (f"\n    {record.detail}" if record.detail else "")
    if record.reason == "sanitizer-report":
        detail = f"\n{INDENT}{record.detail}" if record.detail else ""
        return f"{_thread(record, 'has a')}sanitizer report: {record.event} <- {where}{detail}"
    is_said = record.frame is not None and bool(record.frame.dying)
    dying = f", {record.dying}" if record.dying and not is_said else ""
    if record.inside:
        where = f"{shown_name(record.inside)}{dying} <- {where}"
    elif dying:
        where = f"{where}{dying}"
    if record.frame is not None and record.frame.level:
        where += f" ({_selected(record.frame)})"
    if record.program:
        where += f", {record.program}"
    shown = record.detail
    if shown.startswith("cause: "):
        # The caller of a function that faulted has a line of its own.
        shown = shown.replace("; ", f"\n{INDENT}", 1)
    detail = f"\n{INDENT}{shown}" if shown else ""
    if record.reason == "function-finished" and record.detail.endswith(DIFFERENT):
        detail += " ('print $' shows it)"
    match record.reason:
        case "exec" if record.breakpoint:
            return f"{_thread(record, 'hit')}{_hit(record, 'Catchpoint')}, {where}{detail}"
        case "breakpoint-hit":
            name = f"{_hit(record, 'Breakpoint')}, " if record.breakpoint else "stopped in "
            if record.event and not record.breakpoint:
                name = f"{record.event}, "
            return f"{_thread(record, 'hit')}{name}{where}{detail}"
        case "watchpoint-trigger":
            return f"{_thread(record, 'hit')}{_hit(record, 'Watchpoint')}, {where}{detail}"
        case "watchpoint-scope":
            return f"Watchpoint {record.breakpoint} deleted: its frame has gone; {where}{detail}"
        case "signal-received":
            received = _thread(record, "received")
            after = f", after [{record.after}]" if record.after else ""
            return f"{received}{record.signal}, {record.meaning}{after}: {where}{detail}"
        case "interrupted":
            if record.stopped_with:
                first = brackets(RankSet.parse(record.stopped_with))
                return f"stopped with {first} in {where}{detail}"
            return f"interrupted in {where}{detail}"
        case "function-finished":
            return f"returned to {where}{detail}"
        case "core":
            return f"living, as its core was written, in {where}{detail}"
        case "entry":
            return f"stopped at the program's entry point, for it has no main: {where}{detail}"
        case "other" if record.meaning:
            return f"stopped ({record.meaning}) in {where}{detail}"
        case _:
            return f"stopped in {where}{detail}"


def _hit(record: Stop, word: str) -> str:
    """Return what was hit, as GDB names it, and what else; *word* is for ordinary ones."""
    event = f" ({record.event})" if record.event else ""
    location = f".{record.location}" if record.location else ""
    others = [str(each) for each in record.breakpoints if each != record.breakpoint]
    also = f" (also {', '.join(others)})" if others else ""
    return f"{record.hit or word} {record.breakpoint}{location}{event}{also}"


def _thread(record: Stop, verb: str) -> str:
    """Return the thread that has stopped the rank as the subject of *verb*; nothing for the first.

    Its number and its name can differ between the ranks.
    """
    if not record.thread:
        return ""
    name = f' "{record.thread_name}"' if record.thread_name else ""
    return f"Thread {record.thread}{name} {verb} "


def _selected(frame: Frame) -> str:
    """Return the words for an outer frame that the stop has selected; its level may differ."""
    level = f"#{frame.level} " if frame.level > 0 else ""
    return f"selected {level}{shown_name(bare_name(frame.function))}"


def _with_short_arguments(record: Stop) -> Stop:
    """Return a stop without its long arguments; ``bt`` shows all arguments."""
    if record.frame is None:
        return record
    arguments = tuple(
        each if len(each.value) <= _SHORT_ARGUMENT else Variable(each.name, DIFFERENT)
        for each in record.frame.arguments
    )
    return replace(record, frame=replace(record.frame, arguments=arguments))


def _prefixed(ranks: RankSet, text: str, width: int) -> list[str]:
    first, *rest = text.split("\n")
    return [f"{brackets(ranks):<{width}} {first}", *(f"{'':<{width}} {line}" for line in rest)]
