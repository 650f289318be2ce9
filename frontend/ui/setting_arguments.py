"""Settings as options of a command line."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable
from typing import Any

from pgdb.errors import UsageError
from pgdb.frontend.api.setting import Setting
from pgdb.frontend.ui.argument_actions import check_name


def add_settings(parser: argparse.ArgumentParser, settings: Iterable[Setting]) -> None:
    """Add the options of settings; one that is not given leaves no value."""
    for each in settings:
        parser.add_argument(each.option, *each.aliases, **_argument(each))


def given(parsed: argparse.Namespace, settings: Iterable[Setting]) -> dict[str, Any]:
    """Return the settings that a command line names, by key."""
    found = {each.key: getattr(parsed, each.key) for each in settings if hasattr(parsed, each.key)}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}


def _argument(setting: Setting) -> dict[str, Any]:
    """Return how ``argparse`` reads the option of a setting."""
    notes = [setting.environment] if setting.environment else []
    if not setting.is_flag and setting.default not in (None, "", ()):
        notes += filter(None, [setting.show(setting.default)])
    text = f"do not {setting.help}" if setting.is_inverted else setting.help
    note = f" ({'; '.join(notes)})" if notes else ""
    found: dict[str, Any] = {
        "dest": setting.key,
        "default": argparse.SUPPRESS,
        "help": f"{text}{note}".replace("%", "%%"),
    }
    if setting.is_flag:
        return {**found, "action": "store_false" if setting.is_inverted else "store_true"}
    if setting.choices:
        return {**found, "choices": setting.choices}
    found |= {"metavar": setting.value, "type": functools.partial(_convert, setting)}
    return {**found, "action": "append"} if setting.is_repeated else found


def _convert(setting: Setting, text: str) -> Any:
    if setting.is_name:
        check_name(text, setting.option, setting.value)
    try:
        return setting.convert(setting.option, text)
    except UsageError as error:
        prefix = f"{setting.option}: "
        if str(error).startswith(prefix):
            raise argparse.ArgumentTypeError(str(error).removeprefix(prefix)) from None
        raise
