"""The report as plain text, which ends with three lines: what happened, where, which ranks."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from pgdb.controls import harmless
from pgdb.frontend.report.model import (
    OutputTail,
    RankClass,
    Report,
    ReportFrame,
    ReportNode,
    ReportVariable,
)

WIDTH = 100
MOST_OUTPUT_LINES = 40
"""Most lines of each piece of output that the text has; JSON and HTML have more."""
MOST_LINE = 400
"""Most characters of a line of output that the text has."""
MOST_RANK_LINES = 10
"""Most lines of the output of one rank that the text has."""
MOST_RANK_OUTPUTS = 16
"""Most pieces of output of one rank each that the text has; failed ranks come first."""
MOST_EVENTS = 100
MOST_VARIABLES = 40
"""Most variables of a class that the text has."""


def render(report: Report) -> str:
    """Return the text of a report; no line of it is longer than its contents require."""
    lines: list[str] = []
    for title, block in _sections(report):
        body = list(block)
        if body:
            lines += [title, "-" * len(title), *body, ""]
    return harmless("\n".join([*_head(report), "", *lines, *last_lines(report)])) + "\n"


def last_lines(report: Report) -> list[str]:
    """Return the three lines of the summary."""
    cause = report.cause
    return [
        f"what:  {_one_line(cause.what)}",
        f"where: {_one_line(cause.where) or 'not known'}",
        f"who:   {ranks_text(cause.who)}",
    ]


def ranks_text(ranks: str) -> str:
    """Return a set of ranks in words.

    >>> ranks_text("3"), ranks_text("0-3,8"), ranks_text("")
    ('rank 3', 'ranks 0-3,8', 'no rank')
    """
    if not ranks:
        return "no rank"
    return f"rank {ranks}" if ranks.isdecimal() else f"ranks {ranks}"


def time_text(time_s: float, *, is_date: bool = True) -> str:
    """Return a Unix time as local time with its zone."""
    try:
        moment = datetime.datetime.fromtimestamp(time_s).astimezone()
    except (OverflowError, ValueError, OSError):
        return "unknown time"
    if is_date:
        return moment.isoformat(" ", "seconds")
    return moment.strftime("%H:%M:%S.") + f"{moment.microsecond // 1000:03}"


def frame_text(frame: ReportFrame) -> str:
    """Return a frame in one line, as GDB prints it."""
    arguments = ", ".join(
        f"{each.name}={each.value}" if each.value else each.name for each in frame.arguments
    )
    dying = f", {frame.dying}" if frame.dying else ""
    text = f"{frame.function}{dying} ({arguments})"
    if frame.line:
        return f"{text} at {frame.file}:{frame.line}"
    return f"{text} from {frame.library}" if frame.library else text


def variable_lines(variable: ReportVariable) -> list[str]:
    """Return the lines of a variable; the different values each with their ranks."""
    name = f"{variable.name} = {_one_line(variable.text)}" if variable.text else variable.name
    if not variable.differs:
        return [name]
    lines = []
    numbers = variable.numbers
    many = numbers is not None and any(place.more for place in variable.places)
    if numbers is not None and (many or not variable.places):
        count = f", {numbers.distinct} different values" if numbers.distinct else ""
        lines.append(
            f"{variable.name}: {numbers.low} on [{numbers.at_low}] … {numbers.high} on "
            f"[{numbers.at_high}]{count}"
        )
        return lines
    for place in variable.places:
        values = [f"[{each.ranks}] {_one_line(each.text)}" for each in place.values]
        if place.more:
            values.append(f"({place.more} more values)")
        lines += _wrapped(f"{place.path}: ", values)
    if variable.more_places:
        lines.append(f"{variable.name}: {variable.more_places} more places differ")
    return lines or [f"{name}  (ranks differ)"]


def _wrapped(start: str, values: Sequence[str]) -> list[str]:
    line = start + ", ".join(values)
    if len(line) <= WIDTH:
        return [line]
    return [start.rstrip(), *(f"    {each}" for each in values)]


def _head(report: Report) -> list[str]:
    job, found = report.job, []
    found.append(f"PGDB report: {report.title}")
    found.append(f"{time_text(report.time)}, {ranks_text(report.ranks)}")
    if job.line:
        found.append(f"job: {' '.join(job.line)}")
    elif job.description:
        found.append(f"job: {job.description}")
    if job.exit_code is not None:
        found.append(f"the launcher's exit status: {job.exit_code}")
    versions = report.versions
    parts = (
        ("pgdb", versions.pgdb),
        ("Python", versions.python),
        ("GDB", versions.gdb),
        ("MPI", job.mpi),
        ("system", versions.system),
    )
    found.append(", ".join(f"{name} {text}" for name, text in parts if text))
    return [_one_line(each) for each in found]


def _sections(report: Report) -> Iterator[tuple[str, Iterator[str]]]:
    yield "verdict", _verdicts(report)
    yield "signals, deaths and exit codes", _stops(report)
    yield "call tree", iter(tree_lines(report.tree))
    for each in report.classes:
        yield f"{ranks_text(each.ranks)} ({_count(each.count)})", _class(each)
    yield "threads", _threads(report)
    yield "output", _output(report)
    yield "time line", _timeline(report)
    yield "hosts", _hosts(report)
    yield "environment", _environment(report)
    yield "not in this report", (f"- {_one_line(each)}" for each in report.notes)


def _count(count: int) -> str:
    return f"{count} rank{'s'[: count != 1]}"


def _verdicts(report: Report) -> Iterator[str]:
    for each in report.verdicts:
        sure = f" ({each.confidence})" if each.confidence else ""
        yield f"{_one_line(each.text)}{sure}"
        yield from (f"    {_one_line(line)}" for line in each.details)
    for wait in report.waits:
        on = f" -> [{wait.on}]" if wait.on else ""
        yield f"[{wait.ranks}]{on}: {_one_line(wait.text)}"


def _stops(report: Report) -> Iterator[str]:
    for each in report.stops:
        first = "  <- first" if each.is_first else ""
        head, *rest = each.text.split("\n")
        yield f"[{each.ranks}] {head}{first}"
        yield from (f"    {line}" for line in rest)


def tree_lines(nodes: Sequence[ReportNode]) -> list[str]:
    """Return the merged call tree, each node indented below its parent."""
    children: dict[int, list[ReportNode]] = {}
    for each in nodes:
        children.setdefault(each.parent, []).append(each)
    lines = []
    waiting = [(each, 0) for each in reversed(children.get(0, ()))]
    while waiting:
        node, depth = waiting.pop()
        names = " > ".join(map(_one_line, node.frames)) or "(here)"
        place = f" at {', '.join(node.lines)}" if node.lines else ""
        odd = "  <- differs" if node.is_odd else ""
        lines.append(f"{'  ' * depth}{names}{place} [{node.ranks}]{odd}")
        waiting += [(child, depth + 1) for child in reversed(children.get(node.number, ()))]
    return lines


def _class(each: RankClass) -> Iterator[str]:
    if each.error:
        yield _one_line(each.error)
        return
    hidden = int(each.hidden) if each.hidden.isdecimal() and len(each.hidden) < 10 else 0
    for at, frame in enumerate(each.frames):
        yield f"#{at + hidden:<3} {_one_line(frame_text(frame))}"
    if each.more:
        yield "(more frames follow)"
    if each.source is not None:
        yield ""
        source = each.source
        for number, line in enumerate(source.lines, source.first):
            mark = ">" if number == source.marked else " "
            yield f"{mark}{number:>6}  {line}"
    if each.variables:
        yield ""
    for variable in each.variables[:MOST_VARIABLES]:
        yield from variable_lines(variable)
    if left := len(each.variables) - MOST_VARIABLES:
        if left > 0:
            yield f"({left} more variables)"
    if each.no_variables and not each.variables:
        yield each.no_variables


def _threads(report: Report) -> Iterator[str]:
    for each in report.threads:
        counts = ", ".join(f"{some.text} on each of [{some.ranks}]" for some in each.counts)
        yield f"{each.threads} thread{'s'[: each.threads != 1]}: {counts}"
        yield from (f"    {_one_line(frame_text(frame))}" for frame in each.frames)


def _output(report: Report) -> Iterator[str]:
    shown, left = some_output(report.output, MOST_RANK_OUTPUTS)
    for each in shown:
        most = MOST_RANK_LINES if each.ranks else MOST_OUTPUT_LINES
        who = f" of [{each.ranks}]" if each.ranks else ""
        lines = each.text.removesuffix("\n").split("\n")
        more = f", the last {most} lines" if len(lines) > most else ""
        cut = f", {each.dropped_bytes} bytes before are not kept" if each.dropped_bytes else ""
        yield f"{each.stream}{who}{more}{cut}:"
        yield from (f"    {_cut(line)}" for line in lines[-most:])
        if each.file:
            yield f"    all of it is in {each.file}"
    if left:
        yield f"({left} more outputs of single ranks)"


def _cut(line: str) -> str:
    """Return a line of output, cut if it is long, as lines of binary output are."""
    if len(line) <= MOST_LINE:
        return line
    return f"{line[:MOST_LINE]}… ({len(line)} characters)"


def some_output(output: Sequence[OutputTail], most: int) -> tuple[Sequence[OutputTail], int]:
    """Return the output of the whole job and at most *most* pieces of single ranks, and the number
    of the pieces that are left out."""
    single = [each for each in output if each.ranks]
    kept = [each for each in output if not each.ranks] + single[:most]
    return kept, max(0, len(single) - most)


def _timeline(report: Report) -> Iterator[str]:
    if left := max(0, len(report.timeline) - MOST_EVENTS):
        yield f"({left} earlier events)"
    for each in report.timeline[-MOST_EVENTS:]:
        ranks = f"[{each.ranks}] " if each.ranks else ""
        yield f"{time_text(each.time, is_date=False)} {ranks}{_one_line(each.text)}"


def _hosts(report: Report) -> Iterator[str]:
    for each in report.hosts:
        yield f"{each.host}: {ranks_text(each.ranks)}"


def _environment(report: Report) -> Iterator[str]:
    if report.environment is None:
        return
    yield f"of {report.environment.source}"
    for each in report.environment.variables:
        value = "(left out, may be a secret)" if each.is_secret else _one_line(each.value)
        yield f"{each.name}={value}"


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n")
