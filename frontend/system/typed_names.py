"""Names of files that the user types: they count from the directory that ``cd`` has chosen.

The process itself stays in the directory in which it was started: the names in the launcher's line
and in options count from there, and ``restart`` and ``reattach`` need them again.
"""

from __future__ import annotations

import os
from pathlib import Path

from pgdb.frontend.system.user_files import user_path

_chosen: Path | None = None


def directory() -> Path:
    """Return the directory from which typed names count."""
    return _chosen if _chosen is not None else Path.cwd()


def change_directory(path: Path | None) -> None:
    """Count typed names from *path* on; None for the directory of the process."""
    global _chosen
    _chosen = path


def typed_path(text: str | Path) -> Path:
    """Return the path of a name that the user has typed.

    :raises UsageError: if the text is no path.
    """
    path = user_path(text)
    return path if _chosen is None else Path(os.path.normpath(_chosen / path))
