"""Answers as text: records and equivalence classes. No I/O, no session.

Every class is shown. If there are too many for a screen, the largest and the smallest are shown,
with the number of folded classes and the command that shows them. A rank set in brackets precedes
its text. The text is plain; :mod:`pgdb.frontend.show.text.palette` adds colours.
"""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.frontend.analysis import calltree_text, still_running
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.calltree_text import Absent
from pgdb.frontend.analysis.outliers import is_smallest
from pgdb.frontend.analysis.prominence import Prominence, most_prominent_first
from pgdb.frontend.analysis.still_running import StillRunning
from pgdb.frontend.analysis.wording import counted
from pgdb.frontend.show.text import mpi_call_text, thread_stacks
from pgdb.frontend.show.text.breakpoint_text import breakpoint_made, breakpoint_table, merged_table
from pgdb.frontend.show.text.event_text import INDENT, ReadSource, event, no_source
from pgdb.frontend.show.text.layout import (
    DIFFERS,
    MOST_CLASSES,
    PLACES_OF_PAGE,
    SHOWN_OF_MANY,
    Layout,
    Row,
    brackets,
)
from pgdb.frontend.show.text.source_text import source_blocks
from pgdb.frontend.show.text.stack_text import frame_count, has_recursion, stack
from pgdb.frontend.show.text.stop_details import split_details
from pgdb.frontend.show.text.summary_text import summary_lines
from pgdb.frontend.show.text.text_blocks import notes_on_displays, text_blocks
from pgdb.frontend.show.text.value_text import Said, rated_value_rows, value_rows
from pgdb.frontend.show.text.written_text import written
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT, DIFFERENT_SLOT
from pgdb.merge.templates import count_placeholders, fill_template
from pgdb.mpi_calls import MpiCallStatus
from pgdb.patterns import pattern
from pgdb.print_options import letters_of, split_print
from pgdb.rank_sample import RankSample
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    SLOT,
    Block,
    BreakpointList,
    BreakpointsMade,
    Done,
    Exit,
    Failure,
    FileWritten,
    Record,
    Running,
    Stack,
    Stop,
    Text,
    Threads,
    Value,
    Variables,
    Various,
)

_ABOUT_ADDRESSES = ("info symbol", "info line", "info address")
_POINTER_ALONE = pattern(rf"(?:\([^()]*(?:\(\*\)\([^()]*\))?\) )?@?{SLOT}\Z")
_BARE = pattern(rf"{DIFFERENT}(?! <)")
_NO_FEW = (Prominence.NUMBERS, 0)
"""Rating of every variable of which no few ranks differ."""


def answer(
    said: Answer,
    *,
    number: int = 0,
    whole: bool = False,
    has_more: bool = False,
    read_source: ReadSource = no_source,
    width: int = 0,
    absent: Absent = calltree_text.absent,
    first_place: int = 1,
    has_sets: bool = True,
) -> str:
    """Return the text of an answer: every class and every missing rank.

    *number* is the answer's number for ``expand``; with *whole*, nothing is folded, and the places
    at which ranks differ are listed from *first_place* on, up to a page of them. With *has_more*,
    ``expand`` shows more than the ranks have answered. *read_source*
    returns the line of a selected frame; *absent* returns the lines for absent ranks. Without
    *has_sets*, no class has a name such as @1, which only the prompt knows. Only rank
    sets and source lines can be wider than *width*; 0 means no limit, for a log.
    """
    sets = numbered_sets(said) if has_sets else ()
    layout = Layout(
        width=width,
        whole=whole,
        classes=sets,
        base=_base(said.command),
        first_place=first_place,
    )
    if said.is_reported:
        classes = tuple(each for each in said.classes if not _is_event(each))
        said = replace(said, classes=classes)
        layout.classes = ()  # events show stops without numbers
    if _has(said, Variables):
        lines = layout.lines(_variable_rows(said, layout))
    elif _has(said, Threads):
        others = thread_stacks.without_threads(said)
        lines = thread_stacks.lines(said, layout, lambda each: stack(each, layout))
        lines += _blocks(others, layout)
    elif _has(said, Value):
        lines = layout.lines(_value_rows(said, layout))
    else:
        lines = _blocks(said, layout)
        if said.command.startswith("display"):
            lines += notes_on_displays(said.classes)
    lines += _selected_lines(said, read_source, layout)
    if (layout.is_shortened or has_more) and not whole and number:
        lines.append(f"(expand {number} shows all of it)")
    elif number and not whole and _hides_addresses(said):
        lines.append(f"(addresses differ between the ranks; expand {number} shows them)")
    lines += _pages(layout, number)
    lines += missing(said, absent)
    return "\n".join(lines)


def _hides_addresses(said: Answer) -> bool:
    """Return whether an answer is about addresses, and has one that shows only as ``…``.

    A symbol behind an address says where it is. Addresses inside of structures are not asked for.
    """
    word = said.command.partition("/")[0].partition(" ")[0]
    is_asked = word in ("x", "find") or said.command.startswith(_ABOUT_ADDRESSES)
    for each in said.classes:
        record = each.record
        if DIFFERENT_SLOT not in each.slots:
            continue
        if isinstance(record, Value) and _POINTER_ALONE.match(record.text):
            return True
        if is_asked and isinstance(filled := each.filled, Text) and _BARE.search(filled.text):
            return True
    return False


def _pages(layout: Layout, number: int) -> list[str]:
    """Return the line about the places that stand on other pages."""
    count, first = layout.place_count, layout.first_place
    last = min(count, first + PLACES_OF_PAGE - 1)
    if count <= PLACES_OF_PAGE:
        return []
    command = f"expand {number} " if number else "expand "
    further = f"; '{command}{last + 1}..' shows the next" if last < count else ""
    return [f"(places {first}-{last} of {count}{further})"]


def numbered_sets(said: Answer) -> tuple[RankSet, ...]:
    """Return the rank sets of @1, @2 … of an answer."""
    if _has(said, Threads):
        return thread_stacks.numbered_sets(said)
    return tuple(each.ranks for each in said.classes)


def missing(said: Answer, absent: Absent = calltree_text.absent) -> list[str]:
    """Return one line for each reason why ranks have not answered; *absent* returns the lines for
    absent ranks."""
    lines = []
    if said.missing.running and said.still_running is None:
        lines.append(f"{brackets(said.missing.running)} running")
    elif said.missing.running:
        lines.append(_still_running(said, said.still_running or ()))
    if said.missing.held:
        lines.append(f"{brackets(said.missing.held)} held")
    if said.missing.late:
        lines.append(
            f"{brackets(said.missing.late)} no answer yet after "
            f"{said.elapsed_s:.{0 if said.elapsed_s >= 1 else 2}f} s; it is shown when it comes"
        )
    if said.missing.lost:
        lines += absent(said.missing.lost)
    return lines


def _still_running(said: Answer, places: tuple[StillRunning, ...]) -> str:
    """Return how many ranks a command has waited for in vain, and where they are."""
    out = said.missing.running
    ranks = said.ranks - said.missing.lost - said.missing.held
    where = still_running.listed(places) if places else brackets(out)
    return f"{still_running.counted(out, ranks)}: {where}"


def record(each: EquivalenceClass[Record], command: str = "") -> str:
    """Return the text of the record of one class, without its ranks."""
    said = each.filled
    match said:
        case Value(text=text, warnings=warnings):
            name = _expression(command)
            shown = f"{name} = {text}" if name else text
            return f"{warnings}\n{shown}" if warnings else shown
        case Text(text=text):
            return text
        case FileWritten():
            return written(said, each.ranks)
        case MpiCallStatus():
            return mpi_call_text.status(said)
        case RankSample(stacks=stacks):
            return stacks
        case Failure(message=message, output=output):
            return f"{output}\nerror: {message}" if output else f"error: {message}"
        case Variables(items=items, empty=empty):
            return "\n".join(f"{item.name} = {item.value}" for item in items) or empty
        case Stack():
            return stack(said)
        case Threads():
            return thread_stacks.threads(said, stack)
        case BreakpointsMade(text=text) if text:
            return text
        case BreakpointsMade(breakpoints=breakpoints, notes=notes):
            return "\n".join([notes] * bool(notes) + [*map(breakpoint_made, breakpoints)])
        case BreakpointList(breakpoints=breakpoints):
            return breakpoint_table(breakpoints, command)
        case Various():
            return _various(each, command)
        case Block():
            elements = " x ".join(map(str, said.shape)) or "1"
            return f"{elements} numbers of type {said.dtype}, from {said.start} on"
        case Stop() | Exit() | Running():
            return event(said)
        case Done():
            return ""


def _blocks(said: Answer, layout: Layout) -> list[str]:
    listed, merged = source_blocks(said, layout)
    blocks = [] if merged else text_blocks(said.classes, layout)
    merged |= {number for block in blocks for number in block.members}
    classes = tuple(each for number, each in enumerate(said.classes) if number not in merged)
    lines = [*listed, *(line for block in blocks for line in block.lines)]
    tables = [
        (each.ranks, each.filled) for each in classes if isinstance(each.filled, BreakpointList)
    ]
    if len(tables) > 1:
        together = RankSet.union(ranks for ranks, _ in tables)
        lines += (layout.brackets(together), merged_table(tables, said.command, layout.brackets))
        classes = tuple(each for each in classes if not isinstance(each.filled, BreakpointList))
        in_tables = together
    else:
        in_tables = RankSet()
    unmerged = len(classes)
    if len(classes) > MOST_CLASSES and not layout.whole:
        by_size = sorted(classes, key=lambda each: (-len(each.ranks), each.ranks.first))
        chosen = (*by_size[:SHOWN_OF_MANY], *by_size[-SHOWN_OF_MANY:])
        chosen_ids = {id(each) for each in chosen}
        classes = tuple(each for each in classes if id(each) in chosen_ids or each.is_error)
    texts = [(each, text) for each in classes if (text := _text(each, said, layout))]
    short = [each.ranks for each, text in texts if not _is_tall(each, text, said)]
    column = layout.column(short)
    for each, text in texts:
        mark = layout.mark(each.ranks)
        if _is_tall(each, text, said):
            lines += (_heading(each, said, layout) + mark, text)
        else:
            lines.append(f"{layout.brackets(each.ranks):<{column}} {text}{mark}")
    if left := unmerged - len(classes):
        ranks = len(said.ranks) - sum(len(each.ranks) for each in classes)
        ranks -= sum(len(said.classes[number].ranks) for number in merged) + len(in_tables)
        lines.append(layout.folded(f"{left} more classes", ranks))
    return lines


def _text(each: EquivalenceClass[Record], said: Answer, layout: Layout) -> str:
    filled, details = split_details(each, layout)
    if isinstance(filled, Stack):
        return stack(filled, layout)
    if details and isinstance(filled, Stop):
        return "\n".join((event(filled), *(f"{INDENT}{line}" for line in details)))
    return record(each, said.command)


def _is_tall(each: EquivalenceClass[Record], text: str, said: Answer) -> bool:
    """Return whether the text stands below its ranks, not beside them."""
    is_stack = isinstance(each.record, Stack) and said.command.startswith("backtrace")
    return is_stack or "\n" in text


def _heading(each: EquivalenceClass[Record], said: Answer, layout: Layout) -> str:
    heading = layout.brackets(each.ranks)
    if not isinstance(each.record, Stack) or len(said.classes) < 2:
        return heading
    sizes = [len(other.ranks) for other in said.classes]
    heading += f"  {len(each.ranks)} of {len(said.ranks)}"
    if has_recursion(each.record):
        # Stacks that differ only in depth look alike.
        filled = each.filled
        assert isinstance(filled, Stack)
        heading += f"  {frame_count(filled)}"
    if is_smallest(len(each.ranks), sizes):
        heading += f"  {DIFFERS}"
    return heading


def _selected_lines(said: Answer, read_source: ReadSource, layout: Layout) -> list[str]:
    """Return the source lines of the frames that frame, up or down selected."""
    if said.command.partition(" ")[0] not in ("frame", "up", "down"):
        return []
    places: dict[tuple[str, int], RankSet] = {}
    for each in said.classes:
        if isinstance(each.record, Stack) and each.record.frames:
            frame = each.record.frames[0]
            place = (frame.fullname, frame.line)
            places[place] = places.get(place, RankSet()) | each.ranks
    found = [
        (ranks, line, source)
        for (path, line), ranks in places.items()
        if (source := read_source(path, line)) is not None
    ]
    column = layout.column([ranks for ranks, *_ in found]) if len(places) > 1 else 0
    return [
        f"{layout.brackets(ranks):<{column}} {line}\t{source}" if column else f"{line}\t{source}"
        for ranks, line, source in found
    ]


def _is_event(each: EquivalenceClass[Record]) -> bool:
    return isinstance(each.record, Stop | Exit | Running)


def _has(said: Answer, kind: type[Value | Variables | Threads]) -> bool:
    """Return whether a rank has a record of this kind."""
    return any(isinstance(_template_of(each), kind) for each in said.classes)


def _template_of(each: EquivalenceClass[Record]) -> Record:
    return each.record.template if isinstance(each.record, Various) else each.record


def _value_rows(said: Answer, layout: Layout) -> list[Row]:
    """Return the rows of the values of an expression, then of ranks without a value."""
    values: list[Said] = []
    warned: dict[str, RankSet] = {}
    others: list[Row] = []
    for each in said.classes:
        template = _template_of(each)
        if isinstance(template, Value):
            columns = each.columns if isinstance(each.record, Various) else None
            whole = each.record if isinstance(each.record, Value) else None
            if columns and template.digest == PLACEHOLDER:
                columns = columns[:-1]  # the last is of the hash
            slots = (*each.slots, *_plain_bounds(template.bounds))
            values.append(Said(each.ranks, template.text, slots, columns, whole))
            if template.warnings:
                known = warned.setdefault(template.warnings, RankSet())
                warned[template.warnings] = known | each.ranks
        else:
            others.append((each.ranks, record(each, said.command)))
    warnings: list[Row] = [(ranks, text) for text, ranks in warned.items()]
    return warnings + value_rows(_expression(said.command), values, layout) + others


def _plain_bounds(bounds: str) -> tuple[str, ...]:
    """Return the lower bounds of a value that are in no slot, since the value is not normalized."""
    return (bounds,) if bounds and bounds != SLOT else ()


def _variable_rows(said: Answer, layout: Layout) -> list[Row]:
    """Return the rows of variables: an equal value once, different values with their ranks."""
    order: dict[str, list[Said]] = {}
    others: list[Row] = []
    prefix = "py:" if said.command.startswith("py-") else ""
    for each in said.classes:
        template = _template_of(each)
        if not isinstance(template, Variables) or not template.items:
            others.append((each.ranks, record(each)))
            continue
        columns = each.columns if isinstance(each.record, Various) else None
        slot = column = 0
        # A name can stand for several variables, in different blocks.
        seen: dict[str, int] = {}
        for item in template.items:
            seen[item.name] = seen.get(item.name, 0) + 1
            key = item.name if seen[item.name] == 1 else f"{item.name} ({seen[item.name]})"
            marks = item.value.count(SLOT) + item.bounds.count(SLOT)
            slots = each.slots[slot : slot + marks]
            slot += len(slots)
            own = None
            if columns is not None and PLACEHOLDER in item.value:
                own = columns[column : column + item.value.count(PLACEHOLDER)]
                column += item.value.count(PLACEHOLDER)
            if item.digest == PLACEHOLDER:
                own = own or ()
                column += 1
            part = Value(text=item.value, digest=item.digest, looked_at=item.looked_at)
            said_here = Said(
                each.ranks,
                item.value,
                (*slots, *_plain_bounds(item.bounds)),
                own,
                record=part,
                advice=f"'print {prefix}{item.name}' shows where they differ",
            )
            order.setdefault(key, []).append(said_here)
    blocks = [rated_value_rows(name, values, layout) for name, values in order.items()]
    # Variables of which no few ranks differ keep the order of the program.
    ordered = most_prominent_first(blocks, lambda block: min(block[0], _NO_FEW))
    return [row for _, rows in ordered for row in rows] + others


def _various(each: EquivalenceClass[Record], command: str) -> str:
    """Return the text of answers that aggregators summarized."""
    assert isinstance(each.record, Various)
    template = each.record.template
    layout = Layout(base=_base(command))
    if isinstance(template, Value):
        said = Said(each.ranks, template.text, each.slots, each.columns)
        rows = value_rows(_expression(command), [said], layout)
        return "\n".join(text for _, text in rows)
    common = fill_template(template, [DIFFERENT] * count_placeholders(template))
    text = record(EquivalenceClass(ranks=each.ranks, record=common, slots=each.slots), command)
    lines = [text, f"different on each of {len(each.ranks)} ranks"]
    if len(each.columns) == 1:
        lines += summary_lines(each.columns[0], layout)
    return "\n".join(line for line in lines if line)


def _base(command: str) -> str:
    """Return the format letter of a command that prints numbers which are not decimal."""
    return next((each for each in letters_of(command) if each in "xzot"), "")


def _expression(command: str) -> str:
    """Return the printed expression: ``x`` for ``print/x x``."""
    word, _, rest = command.partition(" ")
    if word == "varprint":
        return rest.strip()
    return split_print(rest.strip()).expression if word.partition("/")[0] == "print" else ""


def job_line(
    ranks: RankSet,
    hosts: dict[str, RankSet],
    *,
    aggregators: int,
    fan_out: int,
    gdb: str,
    mpi: str,
) -> str:
    """Return the line that describes the session: ranks, hosts, aggregators, GDB and MPI."""
    places = ", ".join(f"{host}: {members}" for host, members in hosts.items())
    return (
        f"{counted(len(ranks), 'rank')} on {counted(len(hosts), 'host')} ({places}), "
        f"{counted(aggregators, 'aggregator')}, fan-out {fan_out}, "
        + ", ".join(part for part in (f"GDB {gdb}" if gdb else "", mpi) if part)
    )
