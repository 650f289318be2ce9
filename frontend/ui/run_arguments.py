"""The command line of ``pgdb run``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from pgdb.errors import UsageError
from pgdb.frontend.api.options import SETTINGS, SessionOptions
from pgdb.frontend.run.options import RUN_SETTINGS, RunOptions
from pgdb.frontend.ui.setting_arguments import add_settings, given

OPTION_NAMES = {"gdb": "--gdb-program"}
"""Options of settings whose name means something else here."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``pgdb run`` to its parser."""
    of_sessions = [each for each in SETTINGS if each.option and "run" in each.modes]
    add_settings(
        parser,
        [
            structs.replace(each, option=OPTION_NAMES.get(each.key, each.option))
            for each in of_sessions
        ],
    )
    add_settings(parser, RUN_SETTINGS)
    parser.add_argument(
        "line",
        nargs=argparse.REMAINDER,
        metavar="LAUNCHER …",
        help="the launcher's line, as without pgdb; -- before it is allowed",
    )


def read_options(parsed: argparse.Namespace, settings: Mapping[str, Any]) -> RunOptions:
    """Return the options of a command line; *settings* are those of sessions.

    :raises UsageError: if options do not go together.
    """
    line = list(parsed.line)
    if line[:1] == ["--"]:
        line = line[1:]
    if not line:
        raise UsageError("run: give the job's line, for example pgdb run -- mpirun -n 4 ./app")
    session = SessionOptions(**settings)
    return RunOptions(line=tuple(line), session=session, **given(parsed, RUN_SETTINGS))
