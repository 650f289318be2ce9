"""The transcript (``set logging``) and the history: show commands, history."""

from __future__ import annotations

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api.setting import on_or_off, switch
from pgdb.frontend.commands.command_files import one_name
from pgdb.frontend.commands.options import is_number
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome
from pgdb.frontend.system.typed_names import typed_path
from pgdb.frontend.system.user_files import reason
from pgdb.frontend.system.workers import with_file

LOGGING_WORDS = ("enabled", "file", "overwrite", "redirect", "debugredirect")
"""The settings of ``set logging``."""
_AT_ONCE = 10
"""Number of lines of ``show commands``."""


def is_logging(name: str) -> bool:
    """Return whether the name of a setting is ``logging``, or GDB's abbreviation of it."""
    return len(name) > 2 and "logging".startswith(name)


async def set_logging(call: Call, text: str) -> Outcome:
    """Carry out ``set logging``; *text* is what stands behind the word.

    :raises UsageError: if it is not understood.
    :raises CommandError: if the file cannot be written.
    """
    transcript = call.dispatcher.transcript
    word, _, value = text.partition(" ")
    value = value.strip()
    if word in ("on", "off") and not value:  # the spelling of GDB 11
        word, value = "enabled", word
    match _full(word):
        case "file":
            name = one_name("set logging file", value)
            if not name:
                raise UsageError("'set logging file' needs the name of a file")
            transcript.name = name
        case "overwrite":
            transcript.overwrites = switch("set logging overwrite", value)
        case "redirect":
            transcript.redirects = switch("set logging redirect", value)
        case "debugredirect":
            # GDBs write what 'set debug' shows on the hosts of the job.
            switch("set logging debugredirect", value)
            return None
        case _:
            return await _switch(call, is_on=switch("set logging enabled", value))
    if transcript.path is None:
        return None
    return (
        f"The transcript is {transcript.path} still; 'set logging enabled off' and then 'on' "
        "make the new setting effective."
    )


async def _switch(call: Call, *, is_on: bool) -> Outcome:
    transcript = call.dispatcher.transcript
    if not is_on:
        if (path := transcript.path) is None:
            return None
        transcript.is_redirected = False
        call.dispatcher.say(f"Done logging to {path}.")
        await with_file(path, transcript.stop)
        return None
    if transcript.path is not None:
        raise CommandError(f"already logging to {transcript.path}")
    path = typed_path(transcript.name)

    def start() -> None:
        try:
            transcript.start(path)
        except OSError as error:
            raise CommandError(f"set logging: {path}: {reason(error)}") from None

    way = "Redirecting" if transcript.redirects else "Copying"
    await with_file(path, start)
    # The screen shows where the output is from now on, even if it does not go to the screen.
    call.dispatcher.say(f"{way} output to {path}.")
    transcript.is_redirected = transcript.redirects
    return None


def show_logging(call: Call, text: str) -> str:
    """Return the settings of ``set logging``; *text* names one, or is empty.

    :raises UsageError: if it names none.
    """
    transcript = call.dispatcher.transcript
    values = {
        "enabled": on_or_off(transcript.path is not None),
        "file": transcript.name,
        "overwrite": on_or_off(transcript.overwrites),
        "redirect": on_or_off(transcript.redirects),
        "debugredirect": "off",
    }
    words = [_full(text)] if text else LOGGING_WORDS
    return "\n".join(f"logging {word}: {values[word]}" for word in words)


def _full(word: str) -> str:
    """Return the setting of ``set logging`` that *word* begins.

    :raises UsageError: if there is none, or more than one.
    """
    found = [each for each in LOGGING_WORDS if word and each.startswith(word)]
    if len(found) != 1:
        listed = ", ".join(LOGGING_WORDS)
        raise UsageError(f"set logging {word}".rstrip() + f": one of {listed} is needed")
    return found[0]


# -- history -------------------------------------------------------------------------------------


@COMMANDS.command(
    "history",
    group=Group.SESSION,
    usage="history [N]",
    summary="show the lines that were typed",
)
async def _history(call: Call) -> Outcome:
    """Show the lines that were typed, those of earlier sessions too, or the last N.

    Ctrl-R finds one by a part of it. 'show commands' shows ten of them, as in GDB.
    """
    lines = call.dispatcher.history()
    if call.argument and not (is_number(call.argument) and int(call.argument)):
        raise UsageError(f"history: {call.argument!r} is no number of lines")
    count = int(call.argument) if call.argument else len(lines)
    return _numbered(lines, max(0, len(lines) - count), len(lines))


def show_commands(call: Call, text: str) -> str:
    """Return ten lines of the history: the last, those around line N, or after ``+`` the next.

    :raises UsageError: if *text* is neither a number nor ``+``.
    """
    lines, workspace = call.dispatcher.history(), call.workspace
    if text == "+":
        first = workspace.history_shown
    elif not text:
        first = len(lines) - _AT_ONCE
    elif is_number(text):
        first = int(text) - _AT_ONCE // 2 - 1
    else:
        raise UsageError(f"show commands: {text!r} is no number of a line")
    # Near the end these are the last ten, unless one goes on behind them.
    first = max(0, first if text == "+" else min(first, len(lines) - _AT_ONCE))
    workspace.history_shown = min(first + _AT_ONCE, len(lines))
    return _numbered(lines, first, first + _AT_ONCE)


def _numbered(lines: list[str], first: int, end: int) -> str:
    shown = enumerate(lines[first:end], first + 1)
    return "\n".join(f"{number:5}  {line}" for number, line in shown)
