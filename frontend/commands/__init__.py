"""The commands of the prompt; importing the package fills the table of commands."""

from pgdb.frontend.commands import (
    breakpoints,
    command_files,
    comparisons,
    data,
    decompose,
    host,
    inspection,
    layouts,
    ranks,
    restarting,
    run_control,
    session,
    transcripts,
    tree,
    viewing,
    worlds,
)

__all__ = [
    "breakpoints",
    "command_files",
    "comparisons",
    "data",
    "decompose",
    "host",
    "inspection",
    "layouts",
    "ranks",
    "restarting",
    "run_control",
    "session",
    "transcripts",
    "tree",
    "viewing",
    "worlds",
]
