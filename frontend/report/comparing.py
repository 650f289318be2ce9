"""The differences of two reports, such as those of a run that failed and of one that did not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pgdb.frontend.report.forms.text import frame_text, last_lines, time_text, variable_lines
from pgdb.frontend.report.model import Part, RankClass, Report, Severity, parse_ranks
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_OF_ONE_RUN = pattern(
    r"PMIX_|PMI_(?!SIZE)|OMPI_(?:MCA_(?:orte|ess|pmix)_|FILE_LOCATION|ARGV|COMM_WORLD_\w*RANK)"
    r"|HYDI_|SLURM_(?:\w*_ID|\w*PID|\w*PORTS?)\Z|_\Z|PGDB_"
)
"""Variables in which launchers keep addresses and process ids of a run."""
_ADDRESS = pattern(r"\b0x[0-9a-f]{5,}")
_LEVEL = pattern(r"\(selected #\d+ ")
"""The number of the frame that a stop has selected, counted from the innermost one."""
MOST_ROWS = 200
"""Most rows of a section."""


class ComparedRow(Part, frozen=True, kw_only=True):
    """One difference between two reports."""

    name: str
    before: str = ""
    """The first report's text; empty if it has none."""
    after: str = ""


class ComparedSection(Part, frozen=True, kw_only=True):
    """The differences of one kind."""

    title: str
    rows: tuple[ComparedRow, ...]
    more: int = 0
    """Number of further rows that are left out."""


class Side(Part, frozen=True, kw_only=True):
    """One of the reports."""

    name: str
    """The name of its file."""
    title: str
    time: float
    summary: tuple[str, ...]
    """The three lines: what happened, where, and to which ranks."""
    severity: Severity = "error"
    """The severity of the report's cause."""


class ReportComparison(
    Part, frozen=True, kw_only=True, omit_defaults=False, tag="report-comparison", tag_field="type"
):
    """The differences of two reports."""

    schema: int = 1
    before: Side
    after: Side
    same: bool
    """Whether nothing differs but times, processes, addresses and the file."""
    sections: tuple[ComparedSection, ...] = ()


def compare(
    before: Report, after: Report, *, names: tuple[str, str] = ("before", "after")
) -> ReportComparison:
    """Compare two reports; times, process ids and addresses do not count."""
    parts: tuple[tuple[str, Callable[[Report], Mapping[str, str]]], ...] = (
        ("summary", _summary),
        ("job", _job),
        ("signals, deaths and exit codes", _stops),
        ("ranks by stack", _stacks),
        ("variables", _variables),
        ("threads", _threads),
        ("verdict", _verdicts),
        ("hosts", _hosts),
        ("environment", _environment),
    )
    sections = []
    for title, items in parts:
        rows = _rows(items(before), items(after))
        if title == "variables":
            # The stacks show which functions one side alone has.
            rows = [each for each in rows if each.before and each.after]
        if rows:
            sections.append(
                ComparedSection(
                    title=title, rows=tuple(rows[:MOST_ROWS]), more=max(0, len(rows) - MOST_ROWS)
                )
            )
    return ReportComparison(
        before=_side(before, names[0]),
        after=_side(after, names[1]),
        same=not sections,
        sections=tuple(sections),
    )


def text(found: ReportComparison) -> str:
    """Return a comparison as plain text."""
    lines = []
    for mark, side in (("-", found.before), ("+", found.after)):
        lines.append(f"{mark} {side.name}: {side.title}, {time_text(side.time)}")
        lines += [f"    {line}" for line in side.summary]
    if found.same:
        lines += ["", "nothing differs but times, processes and addresses"]
    for section in found.sections:
        lines += ["", section.title, "-" * len(section.title)]
        for row in section.rows:
            lines.append(row.name)
            lines += [f"  - {line}" for line in row.before.split("\n") if row.before]
            lines += [f"  + {line}" for line in row.after.split("\n") if row.after]
        if section.more:
            lines.append(f"({section.more} more)")
    return "\n".join(lines) + "\n"


def _side(report: Report, name: str) -> Side:
    return Side(
        name=name,
        title=report.title,
        time=report.time,
        summary=tuple(last_lines(report)),
        severity=report.cause.severity,
    )


def _rows(before: Mapping[str, str], after: Mapping[str, str]) -> list[ComparedRow]:
    return [
        ComparedRow(name=name, before=before.get(name, ""), after=after.get(name, ""))
        for name in dict.fromkeys((*before, *after))
        if before.get(name, "") != after.get(name, "")
    ]


def _summary(report: Report) -> dict[str, str]:
    cause = report.cause
    return {"what": cause.what, "where": cause.where, "who": cause.who}


def _job(report: Report) -> dict[str, str]:
    job, versions = report.job, report.versions
    code = job.exit_code
    return {
        "line": " ".join(job.line),
        "ranks": report.ranks,
        "exit status": "" if code is None else str(code),
        "MPI": job.mpi,
        "GDB": versions.gdb,
        "PGDB": versions.pgdb,
        "Python": versions.python,
        "system": versions.system,
    }


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the ranks of each name, for pairs of a name and ranks."""
    found: dict[str, RankSet] = {}
    for name, ranks in pairs:
        found[name] = found.get(name, RankSet()) | parse_ranks(ranks)
    return {name: f"[{ranks}]" for name, ranks in found.items()}


def _stops(report: Report) -> dict[str, str]:
    # A rank that waits is in other functions inside of MPI at each moment.
    texts = (_LEVEL.sub("(selected ", each.text.partition("\n")[0]) for each in report.stops)
    ranks = (each.ranks for each in report.stops)
    return _joined(zip(map(_masked, texts), ranks, strict=True))


def _masked(text: str) -> str:
    """Return a text without addresses, which differ from run to run; null pointers stay.

    >>> _masked('p = 0x7ffc0a25c40 "x", q = 0x0')
    'p = 0x… "x", q = 0x0'
    """
    return _ADDRESS.sub("0x…", text)


def _stack(each: RankClass) -> str:
    if each.error:
        return each.error
    names = []
    for frame in each.frames:
        place = f" at {frame.file}:{frame.line}" if frame.line else ""
        names.append(f"{frame.function}{place}")
    return " <- ".join(names)


def _stacks(report: Report) -> dict[str, str]:
    return _joined((_stack(each), each.ranks) for each in report.classes)


def _variables(report: Report) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in report.classes:
        at = each.source.frame if each.source is not None else 0
        where = each.frames[at].function if at < len(each.frames) else ""
        for variable in each.variables:
            name = f"{variable.name} in {where}" if where else variable.name
            lines = _masked("\n".join(variable_lines(variable)))
            known = found.get(name, "")
            # Classes that differ in an outer frame have many variables in common.
            if not known:
                found[name] = lines
            elif lines not in known.split("\n"):
                found[name] = f"{known}\n{lines}"
    return found


def _threads(report: Report) -> dict[str, str]:
    found = {}
    for each in report.threads:
        stack = _masked(" <- ".join(frame_text(frame) for frame in each.frames))
        found[stack] = ", ".join(f"{some.text} on [{some.ranks}]" for some in each.counts)
    return found


def _verdicts(report: Report) -> dict[str, str]:
    return {each.text: "\n".join(each.details) or f"[{each.ranks}]" for each in report.verdicts}


def _hosts(report: Report) -> dict[str, str]:
    return _joined((each.host, each.ranks) for each in report.hosts)


def _environment(report: Report) -> dict[str, str]:
    if report.environment is None:
        return {}
    return {
        each.name: "(left out)" if each.is_secret else each.value
        for each in report.environment.variables
        if not _OF_ONE_RUN.match(each.name)
    }
