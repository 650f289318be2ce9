"""Arguments that several subcommands of ``pgdb`` have, and that are no settings."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pgdb.errors import UsageError

JOB_AND_PIDS = "--pids takes the place of the job; give one of them"
"""The error where a job and processes are given."""


def add_exit_code(parser: argparse.ArgumentParser, statuses: str) -> None:
    """Declare ``--exit-code``; *statuses* are the meanings of its two words."""
    parser.add_argument(
        "--exit-code",
        choices=("pgdb", "job"),
        default="pgdb",
        help=f"the exit status: {statuses} (%(default)s)",
    )


def add_pids(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Declare ``--pids``; *purpose* is the use of the processes."""
    parser.add_argument(
        "--pids",
        metavar="LIST",
        help=f"{purpose}: PID or HOST:PID with commas between, a file with these, or - for "
        "standard input",
    )


def read_pids(text: str) -> tuple[str, ...]:
    """Return the entries of ``--pids``: of a list, of a file, or of standard input.

    :raises UsageError: if there is none, or the file cannot be read.
    """
    if text == "-":
        text = sys.stdin.read()
    elif "/" in text or os.path.isfile(text):
        try:
            text = Path(text).read_text("utf-8")
        except (OSError, UnicodeError) as error:
            raise UsageError(f"--pids {text}: {error}") from None
    entries = tuple(text.replace(",", " ").split())
    if not entries:
        raise UsageError("--pids has no process in it; write for example 4711,node2:812")
    return entries
