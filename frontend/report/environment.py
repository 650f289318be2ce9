"""Secrets are kept out of reports: the environment, the launcher's line, and every other text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from pgdb.frontend.report.model import Environment, EnvironmentVariable, Part
from pgdb.frontend.store.redact import HIDDEN, LONG_WORD, PEM, SECRET_NAME, SHORTEST_SECRET
from pgdb.patterns import pattern

P = TypeVar("P", bound=Part)

_OPTION = pattern(r"(-{1,2}[\w.-]+|\w+)=(.+)\Z", re.DOTALL)
_IN_URL = pattern(r"(\b[a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@", re.IGNORECASE)
_SURROGATE = pattern("[\ud800-\udfff]")
# The key that all processes of an Open MPI job share.
_KEY_OF_MPI = pattern(r"precondition_transports\Z")
_HEXADECIMAL = pattern(r"(?<![\w])(?=\w*\d)(?=\w*[a-f])[0-9a-f]{16,}(?![\w])", re.IGNORECASE)
_FIXED = frozenset({"type", "kind", "severity", "stream", "mode"})
"""Fields whose words are PGDB's."""


def environment_of(variables: Mapping[str, str], source: str) -> Environment:
    """Return an environment without the values that may be secrets."""
    found = []
    for name, value in sorted(variables.items()):
        is_secret = _is_secret(name, value)
        shown = "" if is_secret else _public(name, value)
        found.append(EnvironmentVariable(name=name, value=shown, is_secret=is_secret))
    return Environment(source=source, variables=tuple(found))


def secrets_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of an environment that may be secrets, the longest first."""
    found = {
        value
        for name, value in variables.items()
        if len(value) >= SHORTEST_SECRET and SECRET_NAME.search(name)
    }
    return tuple(sorted(found, key=len, reverse=True))


def public_line(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line without secrets.

    >>> public_line(["mpirun", "-x", "API_KEY=abc", "./a", "--password", "p", "--token=t", "-n"])
    ('mpirun', '-x', 'API_KEY=…', './a', '--password', '…', '--token=…', '-n')
    """
    found: list[str] = []
    is_value = False
    for word in words:
        if is_value and not word.startswith("-"):
            found.append(HIDDEN)
            is_value = False
            continue
        assigned = _OPTION.match(word)
        if assigned and SECRET_NAME.search(assigned[1]):
            word = f"{assigned[1]}={HIDDEN}"
        is_value = not assigned and word.startswith("--") and bool(SECRET_NAME.search(word))
        found.append(_without_credentials(word))
    return tuple(found)


def cleaned(part: P, secrets: Sequence[str] = ()) -> P:
    """Return *part* without the values of *secrets*, and with text that is valid in UTF-8."""

    def clean(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, HIDDEN)
        return _SURROGATE.sub("\ufffd", text)

    return msgspec.convert(_mapped(msgspec.to_builtins(part), clean), type(part))


def _mapped(node: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(node, str):
        return clean(node)
    if isinstance(node, dict):
        return {
            key: value if key in _FIXED else _mapped(value, clean) for key, value in node.items()
        }
    if isinstance(node, list | tuple):
        return [_mapped(each, clean) for each in node]
    return node


def _is_secret(name: str, value: str) -> bool:
    return bool(
        SECRET_NAME.search(name)
        or _KEY_OF_MPI.search(name)
        or PEM.search(value)
        # Paths are long words as well.
        or ("/" not in value and LONG_WORD.search(value))
    )


def _public(name: str, value: str) -> str:
    """Return the value of a variable without the parts that may be secrets."""
    if name.endswith("ARGV"):  # the line of the program, as OMPI_ARGV
        value = " ".join(public_line(value.split(" ")))
    return _HEXADECIMAL.sub(HIDDEN, _without_credentials(value))


def _without_credentials(word: str) -> str:
    return _IN_URL.sub(rf"\1{HIDDEN}@", word)
