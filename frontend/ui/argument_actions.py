"""The parser of the command line of ``pgdb``, and its actions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from pgdb.errors import UsageError

_LIKENESS = 0.75
"""Least similarity of a mistyped word and the known word that is suggested, from 0 to 1."""


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError in place of ending the program."""

    def error(self, message: str) -> NoReturn:
        """Raise the error that names the help of this parser."""
        raise UsageError(f"{message}; see '{self.prog} --help'")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the words; those of a mode that are unknown are errors of that mode."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            meant = _meant(unknown[0].partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return known, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as refused:
            refused.message += _meant(str(value), map(str, action.choices or ()))
            raise

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse itself takes no notice of an output that cannot be written.
        (file or sys.stderr).write(message)


def _meant(word: str, known: Iterable[str]) -> str:
    """Return a question for the known word that *word* is like, empty if there is none."""
    # Only an error needs the module.
    from difflib import get_close_matches

    found = get_close_matches(word, known, n=1, cutoff=_LIKENESS)
    return f"; did you mean {found[0]!r}?" if found else ""


class Part(argparse.Action):
    """Action that keeps -x and -ex in the order in which they were given."""

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
    """Action that stores a name, which cannot be empty."""

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
