"""The report as SARIF 2.1.0, the format in which code hosts take results of analyses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from pgdb.controls import harmless
from pgdb.frontend.report.cause import kind_of, user_frame
from pgdb.frontend.report.forms.text import frame_text, last_lines, ranks_text
from pgdb.frontend.report.model import RankClass, Report, ReportFrame, ReportStop, parse_ranks
from pgdb.frontend.report.places import from_checkout

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_CAUSES = {
    "signal": "A rank received a fatal signal.",
    "abort": "A rank aborted the job, or MPI did.",
    "assertion": "An assertion failed.",
    "exception": "An exception was not caught.",
    "runtime-error": "An error of a run-time library ended a rank.",
    "sanitizer": "A sanitizer reported an error.",
    "exit-code": "A rank ended with a status other than 0.",
    "hang": "Ranks made no progress.",
    "time-limit": "The job came near its time limit.",
    "ended": "A signal ended the job from outside.",
    "request": "The report was asked for.",
    "check": "A condition did not hold on all ranks.",
    "lost": "Ranks were lost to the debugger.",
    "none": "No rank has failed.",
}
"""Kinds of causes, in a sentence each."""
_VERDICTS = {
    "cycle": "Ranks wait for each other in a circle.",
    "head-to-head-sends": "Ranks send to each other, and none of them receives.",
    "self-deadlock": "A rank waits for itself.",
    "unmatched-receive": "A rank waits for a message that nobody sends.",
    "unmatched-send": "A rank sends a message that nobody receives.",
    "unmatched-rma": "No rank does the other side of a one-sided synchronisation.",
    "communicator-mixup": "Calls that belong together use different communicators.",
    "different-collectives": "Ranks are in different collective calls of one communicator.",
    "different-roots": "Ranks give different roots to one collective call.",
    "different-operations": "Ranks give different operations to one collective call.",
    "different-counts": "Ranks give counts that do not fit to one collective call.",
    "different-datatypes": "Ranks give datatypes that do not fit to one collective call.",
    "collective-order": "Ranks make collective calls in another order.",
    "missing-from-collective": "A rank is missing from a collective call.",
    "waits-for-busy-rank": "Ranks wait for a message of a rank that is busy.",
    "slow": "Ranks waited for a rank outside MPI, and went on at last.",
    "rank-left": "Ranks wait for a rank that has ended or left MPI.",
    "no-connection": "No process does the other part of a connection.",
    "no-progress": "No call of MPI returns, though no rank is known to be missing.",
    "network-or-launcher": "All ranks start or leave MPI, and none returns.",
    "unknown": "Ranks wait for each other, in calls with unknown arguments.",
}
"""Kinds of verdicts, in a sentence each."""
RULES = _CAUSES | _VERDICTS


def render(report: Report) -> str:
    """Return a report as SARIF."""
    results = list(_results(report))
    kinds = list(dict.fromkeys(each["ruleId"] for each in results))
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "PGDB",
                "version": report.versions.pgdb or "0",
                "rules": [
                    {
                        "id": kind,
                        "shortDescription": {"text": RULES.get(kind, kind)},
                    }
                    for kind in kinds
                ],
            }
        },
        "invocations": [
            {
                "executionSuccessful": report.cause.severity == "note",
                **({"commandLine": harmless(" ".join(report.job.line))} if report.job.line else {}),
            }
        ],
        "results": results,
    }
    whole = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _results(report: Report) -> Iterator[dict[str, Any]]:
    """Yield the cause, then the other failures, then the verdicts."""
    cause = report.cause
    who = parse_ranks(cause.who)
    classes = [each for each in report.classes if who & parse_ranks(each.ranks)]
    yield _result(
        cause.kind,
        cause.severity,
        "; ".join(" ".join(each.split()) for each in last_lines(report)),
        location(cause.file, cause.line),
        classes[:8],
    )
    for stop in report.stops:
        if stop.is_error and stop.ranks != cause.who:
            yield _of_stop(report, stop)
    for verdict in report.verdicts:
        if verdict.text != cause.what:
            yield _result(
                verdict.kind,
                "error" if verdict.is_error else "note",
                "\n".join((verdict.text, *verdict.details)),
                location(verdict.file, verdict.line),
                (),
            )


def _of_stop(report: Report, stop: ReportStop) -> dict[str, Any]:
    ranks = parse_ranks(stop.ranks)
    classes = [each for each in report.classes if ranks & parse_ranks(each.ranks)]
    place = None
    for each in classes:
        at = user_frame(each.frames)
        if at is not None:
            frame = each.frames[at]
            place = location(frame.fullname or frame.file, frame.line)
            break
    kind = "sanitizer" if stop.reason == "sanitizer-report" else kind_of(stop.dying)
    if stop.has_ended and not stop.signal:
        kind = "exit-code"
    return _result(kind, "error", f"{ranks_text(stop.ranks)}: {stop.text}", place, classes[:8])


def _result(
    kind: str,
    level: str,
    text: str,
    place: dict[str, Any] | None,
    classes: Sequence[RankClass],
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": kind,
        "level": level,
        "message": {"text": harmless(text)},
        "locations": [place] if place else [],
    }
    stacks = [_stack(each) for each in classes if each.frames]
    if stacks:
        found["stacks"] = stacks
    return found


def _stack(each: RankClass) -> dict[str, Any]:
    return {
        "message": {"text": ranks_text(each.ranks)},
        "frames": [{"location": _of_frame(frame)} for frame in each.frames],
    }


def _of_frame(frame: ReportFrame) -> dict[str, Any]:
    found = location(frame.fullname or frame.file, frame.line) or {}
    return {**found, "message": {"text": harmless(frame_text(frame))}}


def location(file: str, line: int) -> dict[str, Any] | None:
    """Return a place in a file; None without a line.

    Code hosts know files relative to the checkout, so a file below the working directory is named
    from there on.
    """
    if not file or line < 1:
        return None
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(from_checkout(file), safe="/+,;=:@~")},
            "region": {"startLine": line},
        }
    }
