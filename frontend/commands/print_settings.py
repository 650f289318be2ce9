"""Settings of ``print`` that hold for one command: ``with print elements 3 -- print x``. No I/O."""

from __future__ import annotations

from pgdb.frontend.api.gdb_blocks import argument_of
from pgdb.frontend.api.gdb_words import resolve
from pgdb.patterns import pattern
from pgdb.print_options import is_option, split_print

_WITH = pattern(
    r"(?:p|pr|pri|prin|print)\s+(?P<name>[a-z][a-z-]*)\s*(?P<value>.*?)\s*--\s+(?P<inner>\S.*)"
)
_NEWER = ("characters",)
"""Settings that GDB 13 does not have: it names the setting, not the option, as unknown."""
_NAMES = (
    "address array array-indexes asm-demangle characters demangle elements entry-values finish "
    "frame-arguments frame-info inferior-events max-depth max-symbolic-offset "
    "memory-tag-violations nibbles null-stop object pascal_static-members pretty "
    "raw-frame-arguments raw-values repeats sevenbit-strings static-members symbol "
    "symbol-filename symbol-loading thread-events type union vtbl"
).split()
"""The settings of GDB's ``set print``, whose abbreviations are unambiguous among all of them."""


def as_option(line: str) -> str:
    """Return a ``with`` about one ``print`` as that ``print`` with an option; else the line.

    GDB prints the same, and PGDB merges values, not text.

    >>> as_option("with print elements 3 -- p/x numbers"), as_option("with print elements 3 -- bt")
    ('print -elements 3 -- /x numbers', 'with print elements 3 -- bt')
    """
    match = _WITH.fullmatch(argument_of(line)) if resolve(line) == "with" else None
    if match is None:
        return line
    inner = as_option(match["inner"])
    name = _full_name(match["name"])
    is_known = name not in _NEWER and is_option(f"-{name}", match["value"])
    if resolve(inner) != "print" or not is_known:
        return line
    printed = split_print(argument_of(inner))
    letters = f"/{printed.letters} " if printed.letters else ""
    options = " ".join(f"-{name} {match['value']} {printed.options}".split())
    return f"print {options} -- {letters}{printed.expression}".rstrip()


def _full_name(name: str) -> str:
    found = [each for each in _NAMES if each.startswith(name)]
    return found[0] if name not in _NAMES and len(found) == 1 else name
