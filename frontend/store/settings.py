"""What the user has kept of ``set`` for later sessions at the prompt.

The file is replaced as a whole, under a lock, and each session changes what it sets alone: two at
once keep each other's settings. One that cannot be read is told; the session has the defaults then.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.system import durations
from pgdb.frontend.system.user_files import locked, read_regular, reason, write_atomically

MAX_BYTES = 1 << 16
_LOCK_TIMEOUT_S = 5.0


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings that differ from the defaults; None for one that does not."""

    settle_s: float | None = None
    timeout_s: float | None = None
    stop_on_error: bool | None = None
    array_limit_bytes: int | None = None
    compare_pointers: Literal["symbol", "raw"] | None = None

    def __post_init__(self) -> None:
        if self.settle_s is not None and not durations.is_time(self.settle_s):
            raise ValueError(
                f"settle_s {self.settle_s:g} is no time; {durations.in_words()} is one"
            )
        try:
            self.change(SessionOptions())
        except UsageError as error:
            raise ValueError(str(error)) from None

    def change(self, options: SessionOptions) -> SessionOptions:
        """Return *options* with these settings.

        :raises UsageError: if one of them cannot be.
        """
        return options.changed(
            timeout_s=self.timeout_s,
            stop_on_error=self.stop_on_error,
            array_limit_bytes=self.array_limit_bytes,
            compare_pointers=self.compare_pointers,
        )

    def __or__(self, other: Settings) -> Settings:
        """Return these settings with those that *other* has."""
        return replace(self, **_set_fields(other))


def _set_fields(settings: Settings) -> dict[str, object]:
    fields = msgspec.structs.asdict(settings)
    return {name: value for name, value in fields.items() if value is not None}


def settings_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the settings are kept."""
    folder = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder) / "pgdb" / "settings.json"


def read_settings(path: Path) -> Settings:
    """Return what is kept, the defaults if nothing is.

    :raises CommandError: if the file cannot be read.
    """
    try:
        return msgspec.json.decode(read_regular(path, MAX_BYTES), type=Settings)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        why = reason(error)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
    raise CommandError(f"{path} cannot be read: {why}; without it the settings are the defaults")


def keep_settings(path: Path, settings: Settings) -> str:
    """Keep *settings* beside what is kept already; return what is to be said of that.

    A file that cannot be read is kept beside the new one.

    :raises CommandError: if they cannot be kept.
    """
    said = f"kept for later sessions at the prompt, in {path}"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(Path(f"{path}.lock"), timeout_s=_LOCK_TIMEOUT_S):
            if path.is_dir():
                raise CommandError(f"{path} cannot be written: it is a directory")
            try:
                before = read_settings(path)
            except CommandError:
                damaged = Path(f"{path}.damaged")
                os.replace(path, damaged)
                before, said = Settings(), f"{said}; what was there could not be read: {damaged}"
            data = msgspec.json.format(msgspec.json.encode(before | settings), indent=2)
            write_atomically(path, data + b"\n")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {reason(error)}") from None
    return said
