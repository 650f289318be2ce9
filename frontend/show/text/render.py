"""Records and equivalence classes to text. No I/O, no session.

Every class is shown; where there are too many for a screen the biggest and the smallest are, and
it is said how many are folded and how to unfold them. Rank sets stand in brackets before what
they said. The text is plain; :mod:`pgdb.frontend.show.text.palette` gives it colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from pgdb.frontend.analysis import calltree_text
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.calltree_text import Absent
from pgdb.frontend.show.text import thread_stacks
from pgdb.frontend.show.text.layout import DIFFERS, SHOWN_OF_MANY, Layout, Row
from pgdb.frontend.show.text.layout import MOST_CLASSES as MOST_CLASSES
from pgdb.frontend.show.text.layout import brackets as brackets
from pgdb.frontend.show.text.value_text import Said, summary_lines, value_rows
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT
from pgdb.merge.runs import runs
from pgdb.merge.templates import count_placeholders, fill_template
from pgdb.ranks import RankSet
from pgdb.records import (
    FATAL_SIGNALS,
    PLACEHOLDER,
    SLOT,
    Block,
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
    Threads,
    Value,
    Variable,
    Variables,
    Various,
)

_SHORT_ARGUMENT = 8
_LEAST_FOLDED = 4
"""Fewer calls of a recursion are shown one by one."""


class ReadSource(Protocol):
    """Gives a line of a source file, or None where it cannot be read."""

    def __call__(self, path: str, line: int, /) -> str | None:
        """Return line *line* (from 1) of the file *path*."""


def no_source(path: str, line: int, /) -> str | None:
    """Read nothing: where sources are not to be shown."""
    del path, line
    return None


def answer(
    said: Answer,
    *,
    number: int = 0,
    whole: bool = False,
    read_source: ReadSource = no_source,
    width: int = 0,
    absent: Absent = calltree_text.absent,
) -> str:
    """Return the text of an answer, every class and every missing rank.

    *number* is what ``expand`` would call it; with *whole* nothing is folded. The line of a
    frame that was selected is read with *read_source*; *absent* says why ranks were not there.
    Nothing is wider than *width* but
    rank sets and source lines; 0 is no limit, for a log.
    """
    layout = Layout(width=width, whole=whole, classes=numbered_sets(said))
    if said.told:
        classes = tuple(each for each in said.classes if not _is_told(each))
        said = replace(said, classes=classes)
        layout.classes = ()  # whoever has stopped is told elsewhere, without a number
    if _has(said, Variables):
        lines = layout.lines(_variable_rows(said, layout))
    elif thread_stacks.has_threads(said):
        others = thread_stacks.without_threads(said)
        lines = thread_stacks.lines(said, layout, lambda each: stack(each, layout))
        lines += _blocks(others, layout)
    elif _has(said, Value):
        lines = layout.lines(_value_rows(said, layout))
    else:
        lines = _blocks(said, layout)
    lines += _selected_lines(said, read_source)
    if layout.is_shortened and not whole and number:
        lines.append(f"(expand {number} shows all of it)")
    lines += missing(said, absent)
    return "\n".join(lines)


def numbered_sets(said: Answer) -> tuple[RankSet, ...]:
    """Return what @1, @2 … stand for behind an answer."""
    if thread_stacks.has_threads(said):
        return thread_stacks.numbered_sets(said)
    return tuple(each.ranks for each in said.classes)


def missing(said: Answer, absent: Absent = calltree_text.absent) -> list[str]:
    """Return one line for each way in which ranks have not answered; *absent* says it of those
    that were not there."""
    lines = []
    if said.missing.running:
        lines.append(f"{brackets(said.missing.running)} running")
    if said.missing.late:
        lines.append(
            f"{brackets(said.missing.late)} no answer yet after "
            f"{said.elapsed_s:.{0 if said.elapsed_s >= 1 else 2}f} s; it is shown when it comes"
        )
    if said.missing.lost:
        lines += absent(said.missing.lost)
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
        case Threads():
            return thread_stacks.threads(said, stack)
        case BreakpointsMade(breakpoints=breakpoints):
            return "\n".join(breakpoint_made(made) for made in breakpoints)
        case BreakpointList(breakpoints=breakpoints):
            return breakpoint_table(breakpoints)
        case Various():
            return _various(each, command)
        case Block():
            elements = " x ".join(map(str, said.shape)) or "1"
            return f"{elements} numbers of type {said.dtype}, from {said.start} on"
        case Stop() | Exit() | Running():
            return event(said)
        case Done():
            return ""


def stack(said: Stack, layout: Layout | None = None) -> str:
    """Return a stack as GDB prints it; in a *layout* that is not whole recursion is folded."""
    is_known = said.hidden.isdecimal() and len(said.hidden) < 10
    hidden = int(said.hidden) if is_known else 0
    unknown = bool(said.hidden) and not is_known
    lines = []
    folds = {} if layout is None or layout.whole else _recursion(said)
    left_out = 0
    for offset, each in enumerate(said.frames):
        if fold := folds.get(offset):
            left_out, text = fold
            lines.append(text)
        if left_out:
            left_out -= 1
            continue
        level = "#*" if unknown else f"#{offset + hidden}"
        lines.append(f"{level:<3} {frame(each)}")
    if layout is not None and folds:
        layout.is_shortened = True
    if said.more:
        lines.append("(more frames follow)")
    return "\n".join(lines) or "No stack."


def _recursion(said: Stack) -> dict[int, tuple[int, str]]:
    """Return the frames that recursion repeats: where they begin, how many, and what stands there.

    The first and the last call stay.
    """
    places = [(each.function, each.file, each.line) for each in said.frames]
    found = {}
    for run in runs(places):
        count = run.length - 2 * run.period
        if count < _LEAST_FOLDED:
            continue
        start = run.start + run.period
        cycle = [
            f"{each.function} at {each.file}:{each.line}" if each.line else each.function
            for each in said.frames[start : start + run.period]
        ]
        found[start] = (count, f"    … {count} more of {' and '.join(cycle)}")
    return found


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
            if code is None:
                return "ended, it is not known how"
            return f"exited with code {code}" if code else "exited normally"
        case Running():
            return "running"
        case Output(text=text):
            return text
        case Gone(why=why):
            return f"lost: {why}; the rank runs on free, 'reattach' gets hold of it again"
        case Progress(stage=stage):
            return stage


def events(
    classes: Sequence[EquivalenceClass[Event]],
    read_source: ReadSource = no_source,
    width: int = 0,
) -> str:
    """Return the lines for events that came together, least rank first.

    Where a stop is wider than *width* its long arguments are left out; 0 is no limit.
    """
    lines = []
    shown = [each for each in classes if isinstance(each.record, Stop | Exit | Output | Gone)]
    column = max((len(brackets(each.ranks)) for each in shown), default=0)
    few = len(shown) <= 3
    for each in shown:
        told = each.filled
        text = event(told)
        if width and isinstance(told, Stop) and len(text.partition("\n")[0]) > width - column - 1:
            text = event(_with_short_arguments(told))
        lines += _prefixed(each.ranks, text, column)
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


# -- inside ------------------------------------------------------------------------------------


def _stop(told: Stop) -> str:
    where = frame(told.frame) if told.frame is not None else "??"
    if told.inside:
        where = f"{told.inside} <- {where}"
    if told.program:
        where += f", {told.program}"
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


def _with_short_arguments(told: Stop) -> Stop:
    """Return a stop whose arguments are shown only where they are short; ``bt`` shows them all."""
    if told.frame is None:
        return told
    arguments = tuple(
        each if len(each.value) <= _SHORT_ARGUMENT else Variable(each.name, DIFFERENT)
        for each in told.frame.arguments
    )
    return replace(told, frame=replace(told.frame, arguments=arguments))


def _blocks(said: Answer, layout: Layout) -> list[str]:
    classes = said.classes
    if len(classes) > MOST_CLASSES and not layout.whole:
        by_size = sorted(classes, key=lambda each: (-len(each.ranks), each.ranks.first))
        chosen = (*by_size[:SHOWN_OF_MANY], *by_size[-SHOWN_OF_MANY:])
        chosen_ids = {id(each) for each in chosen}
        classes = tuple(each for each in classes if id(each) in chosen_ids or each.is_error)
    texts = [(each, text) for each in classes if (text := _text(each, said, layout))]
    short = [each.ranks for each, text in texts if not _is_tall(each, text, said)]
    column = layout.column(short)
    lines: list[str] = []
    for each, text in texts:
        mark = layout.mark(each.ranks)
        if _is_tall(each, text, said):
            lines += (_heading(each, said, layout) + mark, text)
        else:
            lines.append(f"{layout.brackets(each.ranks):<{column}} {text}{mark}")
    if left := len(said.classes) - len(classes):
        layout.is_shortened = True
        ranks = len(said.ranks) - sum(len(each.ranks) for each in classes)
        lines.append(f"({left} more classes with {ranks} ranks are folded)")
    return lines


def _text(each: EquivalenceClass[Record], said: Answer, layout: Layout) -> str:
    filled = each.filled
    return stack(filled, layout) if isinstance(filled, Stack) else record(each, said.command)


def _is_tall(each: EquivalenceClass[Record], text: str, said: Answer) -> bool:
    """Return whether what ranks said stands below them, not beside them."""
    is_stack = isinstance(each.record, Stack) and said.command.startswith("backtrace")
    return is_stack or isinstance(each.record, BreakpointList) or "\n" in text


def _heading(each: EquivalenceClass[Record], said: Answer, layout: Layout) -> str:
    heading = layout.brackets(each.ranks)
    if not isinstance(each.record, Stack) or len(said.classes) < 2:
        return heading
    sizes = [len(other.ranks) for other in said.classes]
    heading += f"  {len(each.ranks)} of {len(said.ranks)}"
    if _recursion(each.record):
        # Those that differ in nothing else look alike.
        heading += f"  {len(each.record.frames)} frames"
    # Only where most are alike is there one that differs.
    if sizes.count(min(sizes)) == 1 and len(each.ranks) == min(sizes) < max(sizes):
        heading += f"  {DIFFERS}"
    return heading


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


def _has(said: Answer, kind: type[Value | Variables]) -> bool:
    """Return whether some rank has said a record of this kind."""
    return any(isinstance(_form(each), kind) for each in said.classes)


def _form(each: EquivalenceClass[Record]) -> Record:
    return each.record.template if isinstance(each.record, Various) else each.record


def _value_rows(said: Answer, layout: Layout) -> list[Row]:
    """Return the rows of the values of an expression, then those of whoever has none."""
    values: list[Said] = []
    others: list[Row] = []
    for each in said.classes:
        form = _form(each)
        if isinstance(form, Value):
            columns = each.columns if isinstance(each.record, Various) else None
            values.append(Said(each.ranks, form.text, each.slots, columns))
        else:
            others.append((each.ranks, record(each, said.command)))
    return value_rows(_expression(said.command), values, layout) + others


def _variable_rows(said: Answer, layout: Layout) -> list[Row]:
    """Return variables one by one: what is equal once, what differs with its ranks."""
    order: dict[str, list[Said]] = {}
    others: list[Row] = []
    for each in said.classes:
        form = _form(each)
        if not isinstance(form, Variables) or not form.items:
            others.append((each.ranks, record(each)))
            continue
        columns = each.columns if isinstance(each.record, Various) else None
        slot = hole = 0
        # A name can stand for several variables, one in each block.
        seen: dict[str, int] = {}
        for item in form.items:
            seen[item.name] = seen.get(item.name, 0) + 1
            key = item.name if seen[item.name] == 1 else f"{item.name} ({seen[item.name]})"
            slots = each.slots[slot : slot + item.value.count(SLOT)]
            slot += len(slots)
            own = None
            if columns is not None and PLACEHOLDER in item.value:
                own = columns[hole : hole + item.value.count(PLACEHOLDER)]
                hole += item.value.count(PLACEHOLDER)
            order.setdefault(key, []).append(Said(each.ranks, item.value, slots, own))
    rows: list[Row] = []
    for name, values in order.items():
        rows += value_rows(name, values, layout)
    return rows + others


def _various(each: EquivalenceClass[Record], command: str) -> str:
    """Return what is known of ranks whose answers were summed up on the way."""
    assert isinstance(each.record, Various)
    form = each.record.template
    layout = Layout()
    if isinstance(form, Value):
        said = Said(each.ranks, form.text, each.slots, each.columns)
        rows = value_rows(_expression(command), [said], layout)
        return "\n".join(text for _, text in rows)
    common = fill_template(form, [DIFFERENT] * count_placeholders(form))
    text = record(EquivalenceClass(ranks=each.ranks, record=common, slots=each.slots), command)
    lines = [text, f"different on each of {len(each.ranks)} ranks"]
    if len(each.columns) == 1:
        lines += summary_lines(each.columns[0], layout)
    return "\n".join(line for line in lines if line)


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
        f"{_plural(aggregators, 'aggregator')}, fan-out {fan_out}, "
        + ", ".join(part for part in (f"GDB {gdb}" if gdb else "", mpi) if part)
    )


def _plural(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
