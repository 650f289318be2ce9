"""Questions that GDB asks before a typed command; the GDBs of the ranks cannot ask themselves."""

from __future__ import annotations

from pgdb.frontend.commands.table import Call

ALL_DISPLAYS = "Delete all auto-display expressions?"
"""The question before all displays are deleted, in GDB's words."""

NOT_DONE = "not carried out"
"""The outcome of a command that the user has not confirmed."""


def question_before(call: Call) -> str:
    """Return the question before a command that goes to GDB as it is; empty for none."""
    word, argument = call.word, call.argument
    if word == "return":
        return f"Make the selected frames of ranks [{call.ranks}] return now?"
    if word == "directory" and not argument:
        return "Reinitialize source path to $cdir:$cwd?"
    if word == "undisplay" and not argument:
        return ALL_DISPLAYS
    if word == "unset" and argument and "environment".startswith(argument):
        return "Delete all environment variables?"
    return ""
