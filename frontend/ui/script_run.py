"""Batch mode: the commands of a script, one after the other."""

from __future__ import annotations

from pgdb.errors import SessionEndedError
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.exit_status import EXIT_FAILED, Quit
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.ui.script import Script

_LEAVING = ("quit", "exit")


async def run_script(dispatcher: Dispatcher, script: Script) -> bool | None:
    """Carry out all lines; return whether the job is to be killed, None for the usual rule."""
    while (line := await script.read("")) is not None:
        try:
            dispatcher.display.command(dispatcher.workspace.focus, line)
            await dispatcher.run_line(line)
        except Quit as leaving:
            await complain_of_rest(dispatcher, script, leaving)
            return leaving.kill
    return None


async def complain_of_rest(dispatcher: Dispatcher, script: Script, leaving: Quit) -> None:
    """Show the lines of a script that come too late, unless the script has ended the session."""
    rest: list[str] = []
    while leaving.why and (line := await script.read("")) is not None:
        line = line.strip()
        if gdb_commands.resolve(line) in _LEAVING:
            break
        if line and not line.startswith("#"):
            rest.append(line)
    if not rest:
        return
    more = f" and {len(rest) - 1} more" if len(rest) > 1 else ""
    error = SessionEndedError(f"{leaving.why}; not carried out: '{rest[0]}'{more}")
    dispatcher.worsen(EXIT_FAILED)
    dispatcher.display.error(error, rest[0])
