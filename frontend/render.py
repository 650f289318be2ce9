"""Records and equivalence classes to text. No I/O, no session.

Every class is shown; where there are too many for a screen the biggest and the smallest are, and
it is said how many are folded and how to unfold them. Rank sets stand in brackets before what
they said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from pgdb.frontend.answers import Answer
from pgdb.merge.answer import EquivalenceClass, Merger
from pgdb.merge.masking import DIFFERENT
from pgdb.ranks import RankSet
from pgdb.records import (
    FATAL_SIGNALS,
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
    Text,
    Value,
    Variables,
    parse_number,
)

MOST_CLASSES = 12
"""Classes that are shown in full; of more, the biggest and the smallest."""
_SHOWN_OF_MANY = 4
_BARS = "▁▂▃▄▅▆▇█"
_SPARKLINE_WIDTH = 32


class ReadSource(Protocol):
    """Gives a line of a source file, or None where it cannot be read."""

    def __call__(self, path: str, line: int, /) -> str | None:
        """Return line *line* (from 1) of the file *path*."""


def no_source(path: str, line: int, /) -> str | None:
    """Read nothing: where sources are not to be shown."""
    del path, line
    return None


def brackets(ranks: RankSet) -> str:
    """Return a rank set as it is shown: ``[0-3,8]``."""
    return f"[{ranks}]"


def answer(
    said: Answer, *, number: int = 0, whole: bool = False, read_source: ReadSource = no_source
) -> str:
    """Return the text of an answer, every class and every missing rank.

    *number* is what ``expand`` would call it; with *whole* nothing is folded. The line of a
    frame that was selected is read with *read_source*.
    """
    if said.told:
        classes = tuple(each for each in said.classes if not _is_told(each))
        said = replace(said, classes=classes)
    blocks = [*_variable_lines(said, whole)] if _is_variables(said) else _blocks(said, whole)
    lines = [line for line in blocks if line]
    lines += _selected_lines(said, read_source)
    if not whole and _is_folded(said):
        lines.append(_folded_note(said, number))
    lines += missing(said)
    return "\n".join(lines)


def missing(said: Answer) -> list[str]:
    """Return one line for each way in which ranks have not answered."""
    lines = []
    if said.missing.running:
        lines.append(f"{brackets(said.missing.running)} running")
    if said.missing.late:
        lines.append(
            f"{brackets(said.missing.late)} no answer yet after {said.elapsed_s:.0f} s; "
            "it is shown when it comes"
        )
    if said.missing.lost:
        lines.append(f"{brackets(said.missing.lost)} not there: ended, detached or lost")
    return lines


def record(each: EquivalenceClass[Record], command: str = "") -> str:
    """Return the text of one class's record, without its ranks."""
    said = each.filled
    match said:
        case Value(text=text):
            name = _expression(command)
            return f"{name} = {text}" if name else text
        case Text(text=text):
            return text
        case Failure(message=message):
            return f"error: {message}"
        case Variables(items=items, empty=empty):
            return "\n".join(f"{item.name} = {item.value}" for item in items) or empty
        case Stack():
            return stack(said)
        case BreakpointsMade(breakpoints=breakpoints):
            return "\n".join(breakpoint_made(made) for made in breakpoints)
        case BreakpointList(breakpoints=breakpoints):
            return breakpoint_table(breakpoints)
        case Stop() | Exit() | Running():
            return event(said)
        case Done():
            return ""


def stack(said: Stack) -> str:
    """Return a stack as GDB prints it."""
    hidden = int(said.hidden) if said.hidden.isdigit() else 0
    unknown = bool(said.hidden) and not said.hidden.isdigit()
    lines = []
    for offset, each in enumerate(said.frames):
        level = "#*" if unknown else f"#{offset + hidden}"
        lines.append(f"{level:<3} {frame(each)}")
    if said.more:
        lines.append("(more frames follow)")
    return "\n".join(lines) or "No stack."


def frame(each: Frame) -> str:
    """Return a frame as GDB prints it, without level and address."""
    arguments = ", ".join(f"{item.name}={item.value}" for item in each.arguments)
    text = f"{each.function} ({arguments})"
    if each.line:
        return f"{text} at {each.file}:{each.line}"
    return f"{text} from {each.library}" if each.library else text


def event(told: Event | Stop | Exit | Running) -> str:
    """Return what one event says, without its ranks."""
    match told:
        case Stop():
            return _stop(told)
        case Exit(code=code, signal=name):
            if name:
                return f"ended by {name}"
            return "exited normally" if not code else f"exited with code {code}"
        case Running():
            return "running"
        case Output(text=text):
            return text
        case Gone(why=why):
            return f"lost: {why}; the rank runs on free"
        case Progress(stage=stage):
            return stage


def events(classes: Sequence[EquivalenceClass[Event]], read_source: ReadSource = no_source) -> str:
    """Return the lines for events that came together, least rank first."""
    lines = []
    shown = [each for each in classes if isinstance(each.record, Stop | Exit | Output | Gone)]
    width = max((len(brackets(each.ranks)) for each in shown), default=0)
    few = len(shown) <= 3
    for each in shown:
        told = each.filled
        text = event(told)
        lines += _prefixed(each.ranks, text, width)
        if not isinstance(told, Stop) or told.frame is None:
            continue
        if few or told.signal in FATAL_SIGNALS:
            source = read_source(told.frame.fullname, told.frame.line)
            if source is not None:
                lines.append(f"{told.frame.line}\t{source}")
    return "\n".join(lines)


def breakpoint_made(made: Breakpoint) -> str:
    """Return what is said when a breakpoint has been made."""
    if made.kind.endswith("watchpoint"):
        return f"{made.kind[:1].upper()}{made.kind[1:]} {made.number}: {made.what}".replace(
            "Hw ", "Hardware "
        )
    if made.kind == "catchpoint":
        return f"Catchpoint {made.number} {made.what}".rstrip()
    word = "Temporary breakpoint" if made.disposition == "del" else "Breakpoint"
    if not made.location_count:
        return f"{word} {made.number} ({made.original}) pending."
    place = f"file {made.file}, line {made.line}." if made.line else f"{made.original}."
    if made.location_count > 1 and not made.line:
        place = f"{made.original} ({made.location_count} locations)."
    return f"{word} {made.number}: {place}"


def breakpoint_table(breakpoints: Sequence[Breakpoint]) -> str:
    """Return the table of ``info breakpoints``."""
    if not breakpoints:
        return "No breakpoints or watchpoints."
    lines = [f"{'Num':<7} {'Type':<14} {'Disp':<4} {'Enb':<3} What"]
    for each in breakpoints:
        what = each.what
        if each.line:
            inside = f"in {each.function} " if each.function else ""
            what = f"{inside}at {each.file}:{each.line}"
        elif not what:
            what = each.original
        enabled = "y" if each.enabled else "n"
        lines.append(
            f"{each.number:<7} {each.kind:<14} {each.disposition:<4} {enabled:<3} {what}".rstrip()
        )
        if each.condition:
            lines.append(f"\tstop only if {each.condition}")
        if each.times:
            lines.append(f"\tbreakpoint already hit {each.times} time{'s'[: each.times != 1]}")
        if each.ignore:
            lines.append(f"\tignore next {each.ignore} hits")
    return "\n".join(lines)


def numbers(values: dict[int, int | float]) -> str:
    """Return a summary of numbers by rank: range, extremes with their ranks, mean, shape."""
    usual = {rank: value for rank, value in values.items() if math.isfinite(value)}
    parts = []
    if usual:
        low, high = min(usual.values()), max(usual.values())
        mean = math.fsum(usual.values()) / len(usual)
        at_low = RankSet(rank for rank, value in usual.items() if value == low)
        at_high = RankSet(rank for rank, value in usual.items() if value == high)
        parts.append(f"{low:g} … {high:g}, {len(set(usual.values()))} values")
        parts.append(f"min {low:g} {_few(at_low)}  max {high:g} {_few(at_high)}  mean {mean:g}")
        parts.append(_sparkline([usual[rank] for rank in sorted(usual)]))
    strange = RankSet(values.keys() - usual.keys())
    if strange:
        parts.append(f"not finite on {brackets(strange)}")
    return "  ".join(parts)


# -- inside ------------------------------------------------------------------------------------


def _stop(told: Stop) -> str:
    where = frame(told.frame) if told.frame is not None else "??"
    if told.inside:
        where = f"{told.inside} <- {where}"
    detail = f"\n    {told.detail}" if told.detail else ""
    if told.reason == "function-finished" and told.detail.endswith(DIFFERENT):
        detail += " ('print $' shows it)"
    match told.reason:
        case "breakpoint-hit":
            name = f"Breakpoint {told.breakpoint}, " if told.breakpoint else "stopped in "
            return f"{name}{where}{detail}"
        case "watchpoint-trigger":
            return f"Watchpoint {told.breakpoint}, {where}{detail}"
        case "watchpoint-scope":
            return f"Watchpoint {told.breakpoint} deleted: its frame has gone; {where}"
        case "signal-received":
            return f"{told.signal}, {told.meaning}: {where}"
        case "interrupted":
            return f"interrupted in {where}"
        case "function-finished":
            return f"returned to {where}{detail}"
        case "entry":
            return f"stopped at the program's entry point, for it has no main: {where}"
        case "other" if told.meaning:
            return f"stopped ({told.meaning}) in {where}"
        case _:
            return f"stopped in {where}{detail}"


def _blocks(said: Answer, whole: bool) -> list[str]:
    classes = said.classes if whole or not _is_folded(said) else _chosen(said)
    if not whole and (summary := _number_summary(said)):
        return [summary, *(_block(each, said, 0) for each in said.classes if each.is_error)]
    lines = [(each, record(each, said.command)) for each in classes]
    width = max((len(brackets(each.ranks)) for each, text in lines if "\n" not in text), default=0)
    return [_block(each, said, width) for each in classes]


def _block(each: EquivalenceClass[Record], said: Answer, width: int) -> str:
    text = record(each, said.command)
    if not text:
        return ""
    is_stack = isinstance(each.record, Stack) and said.command.startswith("backtrace")
    if is_stack or isinstance(each.record, BreakpointList) or "\n" in text:
        heading = brackets(each.ranks)
        if is_stack and len(said.classes) > 1:
            sizes = [len(other.ranks) for other in said.classes]
            heading += f"  {len(each.ranks)} of {len(said.ranks)}"
            # Only where most are alike is there one that differs.
            if sizes.count(min(sizes)) == 1 and len(each.ranks) == min(sizes) < max(sizes):
                heading += "  <-- differs"
        return f"{heading}\n{text}"
    return "\n".join(_prefixed(each.ranks, text, width))


def _prefixed(ranks: RankSet, text: str, width: int) -> list[str]:
    first, *rest = text.split("\n")
    return [f"{brackets(ranks):<{width}} {first}", *(f"{'':<{width}} {line}" for line in rest)]


def _selected_lines(said: Answer, read_source: ReadSource) -> list[str]:
    """Return the source lines of the frames that frame, up or down has selected."""
    if said.command.partition(" ")[0] not in ("frame", "up", "down"):
        return []
    places = {
        (each.record.frames[0].fullname, each.record.frames[0].line)
        for each in said.classes
        if isinstance(each.record, Stack) and each.record.frames
    }
    found = [(line, read_source(path, line)) for path, line in sorted(places)]
    return [f"{line}\t{source}" for line, source in found if source is not None]


def _is_told(each: EquivalenceClass[Record]) -> bool:
    return isinstance(each.record, Stop | Exit | Running)


def _is_variables(said: Answer) -> bool:
    return any(isinstance(each.record, Variables) for each in said.classes)


def _variable_lines(said: Answer, whole: bool) -> list[str]:
    """Return variables one by one: what is equal once, what differs with its ranks."""
    order: dict[str, Merger[Record]] = {}
    others = []
    for each in said.classes:
        filled = each.filled
        if not isinstance(filled, Variables):
            others.append((each.ranks, record(each)))
            continue
        if not filled.items:
            others.append((each.ranks, filled.empty))
        # A name can stand for several variables, one in each block.
        seen: dict[str, int] = {}
        for item in filled.items:
            seen[item.name] = seen.get(item.name, 0) + 1
            key = item.name if seen[item.name] == 1 else f"{item.name} ({seen[item.name]})"
            order.setdefault(key, Merger()).add(each.ranks, Value(text=item.value))
    rows: list[tuple[RankSet, str]] = []
    for name, merger in order.items():
        one = Answer(command=f"print {name}", ranks=merger.ranks, classes=merger.classes)
        summary = "" if whole else _summary_of(one)
        if summary:
            rows.append((merger.ranks, f"{name} = {summary}"))
            continue
        classes = one.classes if whole or not _is_folded(one) else _chosen(one)
        for each_value in classes:
            if isinstance(each_value.record, Value):
                rows.append((each_value.ranks, f"{name} = {each_value.record.text}"))
        if len(classes) < len(one.classes):
            rows.append((merger.ranks, f"{name}: {len(one.classes)} values in all"))
    rows += others
    width = max((len(brackets(ranks)) for ranks, _ in rows), default=0)
    return [line for ranks, text in rows for line in _prefixed(ranks, text, width)]


def _is_folded(said: Answer) -> bool:
    return len(said.classes) > MOST_CLASSES


def _chosen(said: Answer) -> tuple[EquivalenceClass[Record], ...]:
    by_size = sorted(said.classes, key=lambda each: (len(each.ranks), each.ranks.first))
    chosen = {id(each) for each in (*by_size[:_SHOWN_OF_MANY], *by_size[-_SHOWN_OF_MANY:])}
    return tuple(each for each in said.classes if id(each) in chosen or each.is_error)


def _folded_note(said: Answer, number: int) -> str:
    if _summary_of(said) or _is_variables(said):
        return f"(expand {number} shows every value)" if number else ""
    shown = _chosen(said)
    left = [each for each in said.classes if all(each is not other for other in shown)]
    ranks = sum(len(each.ranks) for each in left)
    hint = f"; expand {number} shows them" if number else ""
    return f"({len(left)} more classes with {ranks} ranks are folded{hint})"


def _number_summary(said: Answer) -> str:
    if not (summary := _summary_of(said)):
        return ""
    ranks = RankSet.union(each.ranks for each in said.classes if not each.is_error)
    return f"{brackets(ranks)} {_expression(said.command)} = {summary}"


def _summary_of(said: Answer) -> str:
    """Return the summary of an answer that is many different numbers, else an empty text."""
    if not _is_folded(said):
        return ""
    values: dict[int, int | float] = {}
    for each in said.classes:
        if each.is_error:
            continue
        number = parse_number(each.record.text) if isinstance(each.record, Value) else None
        if number is None:
            return ""
        for rank in each.ranks:
            values[rank] = number
    return numbers(values) if values else ""


def _sparkline(values: Sequence[float]) -> str:
    """Return the values, in order of rank, as a line of bars."""
    cells = min(len(values), _SPARKLINE_WIDTH)
    low, high = min(values), max(values)
    if cells < 2 or low == high:
        return ""
    bars = []
    for cell in range(cells):
        part = values[cell * len(values) // cells : (cell + 1) * len(values) // cells]
        # The extreme of a cell is what must not be averaged away.
        peak = max(part, key=lambda value: abs(value - (low + high) / 2))
        bars.append(_BARS[min(len(_BARS) - 1, int((peak - low) / (high - low) * len(_BARS)))])
    return "".join(bars)


def _few(ranks: RankSet) -> str:
    text = str(ranks)
    return f"[{text}]" if len(text) <= 24 else f"[{ranks.first},… {len(ranks)} ranks]"


def _expression(command: str) -> str:
    """Return what was asked to be printed: ``x`` of ``print/x x``."""
    word, _, rest = command.partition(" ")
    return rest.strip() if word.partition("/")[0] == "print" else ""


def job_line(
    ranks: RankSet,
    hosts: dict[str, RankSet],
    *,
    aggregators: int,
    fan_out: int,
    gdb: str,
    mpi: str,
) -> str:
    """Return the line that says what the session has hold of."""
    places = ", ".join(f"{host}: {members}" for host, members in hosts.items())
    return (
        f"{_plural(len(ranks), 'rank')} on {_plural(len(hosts), 'host')} ({places}), "
        f"{_plural(aggregators, 'aggregator')}, fan-out {fan_out}, GDB {gdb}, {mpi}"
    )


def _plural(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
