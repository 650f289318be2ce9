"""Actions of ``argparse`` for the command line of ``pgdb``."""

from __future__ import annotations

import argparse
from typing import Any

from pgdb.errors import UsageError


class Part(argparse.Action):
    """Keeps -x and -ex in the order in which they were given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep a file of commands, or a command."""
        if self.dest == "x":
            check_name(str(values), option_string, self.metavar)
        parts = [*(getattr(namespace, "parts", None) or []), (self.dest, str(values))]
        namespace.parts = parts


class Named(argparse.Action):
    """Stores a name, which cannot be empty."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the name.

        :raises UsageError: if it is empty.
        """
        if values is not None:  # what was left out
            check_name(str(values), option_string, self.metavar)
        setattr(namespace, self.dest, values)


def check_name(name: str, option: str | None, metavar: object) -> None:
    """Check a name on the command line; an empty one mostly comes from an unset variable.

    :raises UsageError: if it is empty.
    """
    if not name.strip():
        where = f"{option} '': a {metavar} is needed, or no {option}"
        raise UsageError(where if option else f"'' is no {metavar}")
