"""The report as Markdown, short enough for a comment in an issue tracker."""

from __future__ import annotations

from collections.abc import Iterator

from pgdb.controls import harmless
from pgdb.frontend.report.comparing import ReportComparison
from pgdb.frontend.report.forms.text import (
    frame_text,
    ranks_text,
    some_output,
    time_text,
    tree_lines,
    variable_lines,
)
from pgdb.frontend.report.model import RankClass, Report
from pgdb.patterns import pattern

MOST_CLASSES = 8
MOST_VARIABLES = 20
MOST_OUTPUT_LINES = 20
MOST_RANK_OUTPUTS = 4
MOST_STOPS = 20
MOST_TREE_LINES = 60
_SPECIAL = pattern(r"([\\`*_{}\[\]<>#!|~&$])")
_BACKTICKS = pattern(r"`+")


def render(report: Report) -> str:
    """Return a report as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def compared(found: ReportComparison) -> str:
    """Return a comparison of two reports as Markdown."""
    lines = ["## Two PGDB reports compared", ""]
    for mark, side in (("−", found.before), ("+", found.after)):
        lines.append(f"- {mark} {escaped(side.name)}: {escaped(side.title)}")
    if found.same:
        lines += ["", "Nothing differs but times and processes."]
    for section in found.sections:
        lines += ["", f"### {escaped(section.title)}", ""]
        body = []
        for row in section.rows:
            body.append(f"  {row.name}")
            body += [f"- {line}" for line in row.before.split("\n") if row.before]
            body += [f"+ {line}" for line in row.after.split("\n") if row.after]
        lines += block("\n".join(body), "diff")
        if section.more:
            lines.append(f"{section.more} more")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a text that Markdown and HTML show as it is, in one line, and that mentions nobody.

    >>> print(escaped("a*b* <script> #1"))
    a\\*b\\* \\<script\\> \\#1
    """
    plain = _SPECIAL.sub(r"\\\1", " ".join(harmless(text).split()))
    # Trackers look for names behind @ in the text that is shown; a space without width ends that.
    return plain.replace("@", "@\u200b")


def code(text: str) -> str:
    """Return a text as code in a line, whatever backticks it has.

    >>> code("x"), code("a`b")
    ('`x`', '`` a`b ``')
    """
    text = " ".join(harmless(text).split()) or " "
    longest = max((len(each) for each in _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


def block(text: str, language: str = "") -> list[str]:
    """Return the lines of a block of code, whose fence is longer than any run of backticks."""
    text = harmless(text)
    longest = max((len(each) for each in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *text.split("\n"), fence]


def _lines(report: Report) -> Iterator[str]:
    cause, job = report.cause, report.job
    yield f"## PGDB: {escaped(cause.what)}"
    yield ""
    yield f"- **where**: {code(cause.where) if cause.where else 'not known'}"
    yield f"- **who**: {ranks_text(cause.who)}"
    yield f"- **when**: {time_text(report.time)}"
    if job.line or job.description:
        yield f"- **job**: {code(' '.join(job.line) or job.description)}"
    parts = (
        ("PGDB", report.versions.pgdb),
        ("GDB", report.versions.gdb),
        ("MPI", job.mpi),
        ("Python", report.versions.python),
    )
    yield f"- **versions**: {escaped(', '.join(f'{name} {text}' for name, text in parts if text))}"
    for verdict in report.verdicts:
        yield ""
        yield f"**{escaped(verdict.text)}**"
        if verdict.details:
            yield from block("\n".join(verdict.details))
    if report.stops:
        yield from ("", "### Signals, deaths and exit codes", "")
        yield from ("| ranks | last event |", "|---|---|")
        for stop in report.stops[:MOST_STOPS]:
            first = " **(first to fail)**" if stop.is_first else ""
            yield f"| {stop.ranks} | {escaped(stop.text)}{first} |"
        if left := max(0, len(report.stops) - MOST_STOPS):
            yield f"| … | {left} more |"
    if report.tree:
        lines = tree_lines(report.tree)
        left = max(0, len(lines) - MOST_TREE_LINES)
        more = [f"({left} more lines)"] * bool(left)
        yield from ("", "### Call tree", "")
        yield from block("\n".join([*lines[:MOST_TREE_LINES], *more]))
    for each in report.classes[:MOST_CLASSES]:
        yield from _class(each)
    if left := max(0, len(report.classes) - MOST_CLASSES):
        yield from ("", f"{left} more classes of ranks are left out.")
    for output in some_output(report.output, MOST_RANK_OUTPUTS)[0]:
        tail = output.text.rstrip("\n").split("\n")[-MOST_OUTPUT_LINES:]
        who = f" of {ranks_text(output.ranks)}" if output.ranks else ""
        yield from ("", f"<details><summary>end of {output.stream}{who}</summary>", "")
        yield from block("\n".join(tail))
        yield from ("", "</details>")


def _class(each: RankClass) -> Iterator[str]:
    yield from ("", f"<details><summary>{ranks_text(each.ranks)}</summary>", "")
    lines = [each.error] if each.error else [frame_text(frame) for frame in each.frames]
    if each.source is not None:
        lines.append("")
        for number, line in enumerate(each.source.lines, each.source.first):
            lines.append(f"{'>' if number == each.source.marked else ' '}{number:>6}  {line}")
    if each.variables:
        lines.append("")
        for variable in each.variables[:MOST_VARIABLES]:
            lines += variable_lines(variable)
        if left := max(0, len(each.variables) - MOST_VARIABLES):
            lines.append(f"({left} more variables)")
    yield from block("\n".join(lines))
    yield from ("", "</details>")
