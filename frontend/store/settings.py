"""The settings file: what ``set -keep`` keeps for later sessions at the prompt.

Each session replaces the whole file under a lock and changes only what it sets: two sessions at
once keep each other's settings. A session that cannot read the file says so and has the defaults.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pgdb.errors import CommandError, UsageError, one_line
from pgdb.frontend.api.interface_options import InterfaceOptions
from pgdb.frontend.api.options import (
    CHANGEABLE,
    INTERFACE_SETTINGS,
    SESSION_SETTINGS,
    SETTLE,
    SessionOptions,
)
from pgdb.frontend.system.user_files import locked, read_regular, reason, write_atomically

MAX_BYTES = 1 << 16
LOCK_TIMEOUT_S = 5.0


class Settings:
    """Settings that differ from the defaults, by key."""

    def __init__(self, **values: Any) -> None:
        """Check and convert *values*; None leaves a setting out.

        :raises ValueError: if a key is unknown, or a value has the wrong type or is refused.
        """
        self.values: dict[str, Any] = {}
        """The values by key, each of its setting's type."""
        for key, value in values.items():
            if key not in _KEPT:
                raise ValueError(f"no setting {key!r}")
            if value is not None:
                declared = _KEPT[key]
                try:
                    self.values[key] = msgspec.convert(value, declared.kind)
                    declared.validate(self.values[key], key)
                except (msgspec.ValidationError, UsageError) as error:
                    raise ValueError(f"{key}: {error}") from None

    def change(self, options: SessionOptions) -> SessionOptions:
        """Return *options* with these settings.

        :raises UsageError: if one of them cannot be.
        """
        own = {each.key for each in SESSION_SETTINGS}
        return options.changed(**{key: value for key, value in self.values.items() if key in own})

    def change_interface(self, options: InterfaceOptions) -> InterfaceOptions:
        """Return the options of a user interface with these settings, without the settle time."""
        own = {each.key for each in INTERFACE_SETTINGS if each is not SETTLE}
        return options.changed(**{key: value for key, value in self.values.items() if key in own})

    def __or__(self, other: Settings) -> Settings:
        """Return these settings with those that *other* has."""
        return Settings(**{**self.values, **other.values})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]


_KEPT = {each.key: each for each in CHANGEABLE.values()}


def settings_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the settings file."""
    folder = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder) / "pgdb" / "settings.json"


def read_settings(path: Path) -> Settings:
    """Return the settings of the file; no settings without a file.

    :raises CommandError: if the file cannot be read.
    """
    try:
        return Settings(**msgspec.json.decode(read_regular(path, MAX_BYTES), type=dict[str, Any]))
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        why = reason(error)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        why = one_line(error)[:200]
    raise CommandError(f"{path} cannot be read: {why}; without it the settings are the defaults")


def keep_settings(path: Path, settings: Settings) -> str:
    """Add *settings* to the file; return the message for the user.

    An unreadable file is renamed to ``.damaged``.

    :raises CommandError: if they cannot be kept.
    """
    said = f"kept for later sessions at the prompt, in {path}"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(Path(f"{path}.lock"), timeout_s=LOCK_TIMEOUT_S):
            if path.is_dir():
                raise CommandError(f"{path} cannot be written: it is a directory")
            try:
                before = read_settings(path)
            except CommandError:
                damaged = Path(f"{path}.damaged")
                os.replace(path, damaged)
                before, said = Settings(), f"{said}; what was there could not be read: {damaged}"
            data = msgspec.json.format(msgspec.json.encode((before | settings).values), indent=2)
            write_atomically(path, data + b"\n")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {reason(error)}") from None
    return said
