"""The output of the ranks of ``chatty.c``, which write all the time, and its part in a report."""

from __future__ import annotations

from typing import Any

LINES = 2000
"""Lines that a rank writes, before a last one to standard error."""


def lines_of(rank: int) -> list[str]:
    """Return the lines that a rank writes to standard output."""
    return [f"line {at} of rank {rank}\n" for at in range(LINES)]


def size_of(rank: int) -> int:
    """Return the size of all that a rank writes, in bytes."""
    return len("".join(lines_of(rank)) + f"rank {rank} is through\n")


def of_single_ranks(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pieces of output that a report has of one rank each."""
    return [each for each in report["output"] if each.get("ranks")]


def size_in(report: dict[str, Any], rank: int) -> int:
    """Return the size of a rank's output as a report has it, in bytes, with those that it drops."""
    return sum(
        len(each["text"]) + each.get("dropped_bytes", 0)
        for each in of_single_ranks(report)
        if each["ranks"] == str(rank)
    )
