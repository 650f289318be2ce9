"""GDB's settings of its own user interface, which is PGDB's here: ``set style``, ``with …``."""

from __future__ import annotations

import dataclasses

from pgdb.errors import UsageError
from pgdb.frontend.api.options import INTERFACE_SETTINGS, SETTLE, find_changeable
from pgdb.frontend.api.setting import Setting
from pgdb.frontend.commands.table import Call, Outcome
from pgdb.frontend.store.settings import Settings
from pgdb.patterns import pattern

_WITH = pattern(r"(?P<name>\S+)\s*(?P<value>.*?)\s*--(?:\s+|\Z)(?P<command>.*)")
_STYLE = pattern(r"style\s+e(?:n(?:a(?:b(?:l(?:ed?)?)?)?)?)?(?:\s+|\Z)")


_SWITCH = ("", "on", "off", "0", "1", "yes", "no", "enable", "disable")


@dataclasses.dataclass(frozen=True)
class _WithoutEffect:
    """A setting of GDB's prompt, terminal or screen that PGDB's has not."""

    name: str
    shortest: int
    """Length of the shortest abbreviation (GDB 13.1)."""
    instead: str
    """The setting of PGDB's, or its behaviour."""


_WITHOUT_EFFECT = (
    _WithoutEffect(
        "history",
        2,
        "PGDB keeps the lines typed at its prompt in ~/.local/state/pgdb/history, and 'history' "
        "lists them",
    ),
    _WithoutEffect(
        "style", 2, "the colours are PGDB's; 'set style enabled off' turns all of them off"
    ),
    _WithoutEffect("extended-prompt", 3, "'set prompt TEXT' changes PGDB's prompt"),
    _WithoutEffect("editing", 2, "PGDB's prompt always edits lines, with the keys of Emacs"),
    _WithoutEffect("tui", 2, "'layout src' shows a pane, and 'winheight' sets its rows"),
    _WithoutEffect("exec-done-display", 6, "'set timings on' shows times"),
    _WithoutEffect("startup-quietly", 8, "the GDBs of the ranks print no banner"),
    _WithoutEffect("suppress-cli-notifications", 2, "PGDB shows stops itself"),
)


def in_words_of_ours(argument: str) -> str:
    """Return the argument of ``set`` or ``show`` with PGDB's name of the setting.

    >>> in_words_of_ours("style enabled off"), in_words_of_ours("style sources off")
    ('style off', 'style sources off')
    """
    match = _STYLE.match(argument)
    return f"style {argument[match.end() :]}".strip() if match is not None else argument


def without_effect(argument: str) -> str:
    """Return the sentence about a setting that has no effect in PGDB; empty for any other."""
    name, _, value = argument.partition(" ")
    if value.lstrip().startswith("=") or (find_changeable(name) is not None and name != "style"):
        return ""
    for each in _WITHOUT_EFFECT:
        if each.name.startswith(name) and len(name) >= each.shortest:
            is_own = each.name == "style" and (value in _SWITCH or _STYLE.match(argument))
            return (
                ""
                if is_own
                else f"'{name}' is a setting of GDB's own user interface; {each.instead}"
            )
    return ""


async def with_own(call: Call) -> Outcome | NotOwn:
    """Carry out ``with NAME VALUE -- COMMAND`` for a setting of PGDB's prompt."""
    if match := _WITH.match(call.argument):
        if why := without_effect(f"{match['name']} {match['value']}".strip()):
            call.session.note(why)
            return await call.dispatcher.dispatch(_command(call, match["command"]), call.ranks)
    match = _WITH.match(in_words_of_ours(call.argument))
    if match is None:
        return NOT_OWN
    found = find_changeable(match["name"])
    if found is None or found not in INTERFACE_SETTINGS:
        return NOT_OWN
    value = found.convert(f"with {found.name}", match["value"])
    before = getattr(_place(call, found), found.key)
    call.dispatcher.apply(Settings(**{found.key: value}))
    try:
        outcome = await call.dispatcher.dispatch(_command(call, match["command"]), call.ranks)
        # The setting holds for the output.
        await call.dispatcher.show(outcome)
    finally:
        call.dispatcher.apply(Settings(**{found.key: before}))
    return None


def _command(call: Call, command: str) -> str:
    # As in GDB, nothing behind -- means the command before.
    before = (each for each in reversed(call.dispatcher.lines) if not each.endswith("--"))
    line = command.strip() or next(before, "")
    if not line:
        raise UsageError(f"'{call.line}' needs a command behind --")
    return line


def _place(call: Call, setting: Setting) -> object:
    return call.workspace if setting is SETTLE else call.workspace.interface


class NotOwn:
    """The answer for a ``with`` whose setting is GDB's."""


NOT_OWN = NotOwn()
