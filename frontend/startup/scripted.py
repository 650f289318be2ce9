"""The beginning of the program of ``--script-log``."""

from __future__ import annotations

from dataclasses import fields

from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.store.script_calls import start_text
from pgdb.frontend.store.script_log import open_script

_NOT_OF_PROGRAMS = frozenset({"log", "log_values", "record", "script_log", "verbose", "ranks"})
"""Options of this session that its program does not repeat."""


def begin_script(session: Session, target: str = "", pids: tuple[str, ...] = ()) -> None:
    """Write the start of a session as the beginning of its program, if there is to be one.

    :raises CommandError: if the file cannot be written.
    """
    options = session.options
    if not options.script_log:
        return
    defaults = SessionOptions()
    given: dict[str, object] = {
        each.name: getattr(options, each.name)
        for each in fields(options)
        if each.name not in _NOT_OF_PROGRAMS
        and getattr(options, each.name) != getattr(defaults, each.name)
    }
    if options.ranks is not None and session.mode == "attach":
        given["ranks"] = str(options.ranks)
    script = open_script(options.script_log)
    script.begin(start_text(session.mode, session.argv, target, pids, given))
    session.script_log = script
