"""The report as JUnit XML: a test case for the job, which fails as the job did, and one for each
class of ranks that failed."""

from __future__ import annotations

import datetime
import xml.etree.ElementTree as ET

from pgdb.controls import harmless
from pgdb.frontend.report.forms import text
from pgdb.frontend.report.model import Report, ReportStop, parse_ranks
from pgdb.patterns import pattern

_FORBIDDEN = pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
"""Characters that XML 1.0 cannot have, not even escaped (section 2.2)."""


def render(report: Report) -> str:
    """Return a report as JUnit XML, valid under the schema of Apache Ant's JUnit reports.

    Jenkins and GitLab read it, too.
    """
    failed = [each for each in report.stops if each.is_error]
    is_failed = report.cause.severity != "note"
    seconds = max(0.0, report.time - report.job.begun) if report.job.begun else 0.0
    suite = ET.Element(
        "testsuite",
        name="pgdb",
        package="pgdb",
        id="0",
        hostname=_clean(report.hosts[0].host if report.hosts else "") or "unknown",
        tests=str(1 + len(failed)),
        failures=str(is_failed + len(failed)),
        errors="0",
        skipped="0",
        time=f"{seconds:.3f}",
        timestamp=_timestamp(report.time),
    )
    ET.SubElement(suite, "properties")
    job = _case(suite, report.title, seconds)
    if is_failed:
        lines = "\n".join(text.last_lines(report))
        _failure(job, report.cause.what, report.cause.kind, f"{lines}\n\n{text.render(report)}")
    for each in failed:
        case = _case(suite, text.ranks_text(each.ranks), seconds)
        kind = each.signal or each.reason or "exit"
        _failure(case, each.text.partition("\n")[0], kind, _stacks(report, each))
    ET.SubElement(suite, "system-out").text = "" if is_failed else _clean(text.render(report))
    ET.SubElement(suite, "system-err")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, name: str, seconds: float) -> ET.Element:
    return ET.SubElement(
        suite, "testcase", classname="pgdb", name=_clean(name), time=f"{seconds:.3f}"
    )


def _failure(case: ET.Element, message: str, kind: str, body: str) -> None:
    ET.SubElement(case, "failure", message=_clean(message), type=_clean(kind)).text = _clean(body)


def _stacks(report: Report, stop: ReportStop) -> str:
    """Return the event of some ranks, and their stacks."""
    ranks = parse_ranks(stop.ranks)
    lines = [stop.text]
    for each in report.classes:
        if not ranks.isdisjoint(parse_ranks(each.ranks)):
            lines += [f"  {text.frame_text(frame)}" for frame in each.frames]
    return "\n".join(lines)


def _timestamp(time_s: float) -> str:
    """Return a time in UTC; the schema allows no time zone."""
    try:
        moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.datetime.fromtimestamp(0, datetime.UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="seconds")


def _clean(value: str) -> str:
    return _FORBIDDEN.sub("\ufffd", harmless(value))
