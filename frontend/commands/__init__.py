"""The commands of the prompt; importing the package fills the table of commands."""

from pgdb.frontend.commands import (
    breakpoints,
    comparisons,
    data,
    decompose,
    inspection,
    ranks,
    restarting,
    run_control,
    session,
    tree,
)

__all__ = [
    "breakpoints",
    "comparisons",
    "data",
    "decompose",
    "inspection",
    "ranks",
    "restarting",
    "run_control",
    "session",
    "tree",
]
