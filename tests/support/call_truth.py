"""Truth about calls of MPI, as comments in a program have it, and how an answer compares."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from pgdb.mpi_calls import MpiCall, Request

UNKNOWN = "unknown"
"""Truth of a field that no answer can have: it names ranks of another world."""
_TRUTH = re.compile(r"@truth (\w+)((?: \w+=\S+)*)")


class Truth(msgspec.Struct, frozen=True):
    """The call on one line."""

    function: str
    fields: dict[str, str]


class Score(msgspec.Struct):
    """Numbers of fields that are exact and missing, and texts about wrong ones."""

    exact: int = 0
    missing: int = 0
    wrong: list[str] = []


def truths(source: Path) -> dict[int, Truth]:
    """Return the truth of each line of a source that has one."""
    found = {}
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        if match := _TRUTH.search(line):
            words = dict(word.split("=", 1) for word in match[2].split())
            found[number] = Truth(match[1], words)
    return found


def compare(call: MpiCall, truth: Truth, score: Score) -> None:
    """Add the result of one call to *score*."""
    if call.source_of("function") is None:
        score.missing += len(truth.fields)
        return
    if call.function != truth.function:
        score.wrong.append(f"{call.function} for {truth.function}")
        return
    for field, expected in truth.fields.items():
        if field == "requests":
            _compare_requests(call, expected, score)
            continue
        found = _field(call, field)
        if expected == UNKNOWN:
            expected, found = "None", str(found or None)
        if found is None:
            score.missing += 1
        elif found == expected:
            score.exact += 1
        else:
            score.wrong.append(f"{truth.function}: {field} is {found}, not {expected}")


def _field(call: MpiCall, field: str) -> str | None:
    match field:
        case "members":
            return call.communicator.members if call.communicator is not None else None
        case "remote":
            return call.communicator.remote if call.communicator is not None else None
        case "name":
            return call.communicator.name if call.communicator is not None else None
        case "window":
            return call.window.members if call.window is not None else None
        case "group":
            return call.group.members if call.group is not None else None
        case "file":
            return call.file_handle.members if call.file_handle is not None else None
        case _:
            found = getattr(call, field)
            return None if found is None else str(found)


def _compare_requests(call: MpiCall, expected: str, score: Score) -> None:
    wanted = expected.split(",")
    if len(call.requests) != len(wanted):
        if call.requests:
            score.wrong.append(f"{call.function}: {len(call.requests)} requests for {expected}")
        else:
            score.missing += len(wanted)
        return
    for request, text in zip(call.requests, wanted, strict=True):
        for found, part in zip(_parts(request), text.split(":"), strict=False):
            if found is None:
                score.missing += 1
            elif str(found).removeprefix("persistent ") == part:
                score.exact += 1
            else:
                score.wrong.append(f"{call.function}: request {found}, not {part} in {text}")


def _parts(request: Request) -> tuple[object, object, object]:
    return request.kind, request.peer, request.tag
