"""The report as annotations of GitHub Actions: workflow commands, which a step prints."""

from __future__ import annotations

from pgdb.controls import harmless
from pgdb.frontend.report.cause import user_frame
from pgdb.frontend.report.forms.text import last_lines, ranks_text
from pgdb.frontend.report.model import Report, parse_ranks
from pgdb.frontend.report.places import from_checkout

MOST = 10
"""Most annotations of a report: GitHub shows no more of a step."""
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report) -> str:
    """Return the workflow commands of a report, one in each line.

    The output of a job is in none of them, and each text is escaped: a program cannot give
    commands to the workflow.
    """
    cause = report.cause
    lines = [
        _command(
            _COMMANDS[cause.severity],
            cause.file,
            cause.line,
            f"PGDB: {cause.kind}",
            "\n".join(last_lines(report)),
        )
    ]
    for stop in report.stops:
        if not stop.is_error or stop.ranks == cause.who:
            continue
        file, line = _place(report, stop.ranks)
        message = f"{ranks_text(stop.ranks)}: {stop.text}"
        lines.append(_command("error", file, line, "PGDB", message))
    return "\n".join(lines[:MOST]) + "\n"


def _place(report: Report, ranks: str) -> tuple[str, int]:
    for each in report.classes:
        at = user_frame(each.frames)
        if at is not None and parse_ranks(ranks) & parse_ranks(each.ranks):
            frame = each.frames[at]
            return frame.fullname or frame.file, frame.line
    return "", 0


def _command(word: str, file: str, line: int, title: str, message: str) -> str:
    properties = []
    if file and line:
        properties += [f"file={_property(from_checkout(file))}", f"line={line}"]
    properties.append(f"title={_property(title)}")
    return f"::{word} {','.join(properties)}::{_data(message)}"


def _data(text: str) -> str:
    text = harmless(text).replace("%", "%25")
    return text.replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
