"""Names of C++ functions without the texts of their parameters and template arguments."""

from __future__ import annotations

from functools import lru_cache

from pgdb.merge.normalize import DIFFERENT
from pgdb.patterns import pattern

# The sign of an operator has brackets that are none; a name in brackets has no parameters.
_WHOLE = pattern(
    r"\boperator(?:\(\)|<=>|<<=?|>>=?|->\*?|<=?|>=?)?|\(anonymous namespace\)|<unnamed>|<lambda"
)
STARTS = pattern(r"__libc_start_|_start\Z|start_thread\Z|_*clone3?\Z")
"""Names of the functions that start programs and threads."""
_LONGEST_NAME = 60
"""Longest name of a function that is always shown whole, in columns."""
_BRACKETS = {"<": ">", "(": ")", "{": "}"}


def without_parameters(name: str) -> str:
    """Return a function's name with ``…`` for its parameters.

    >>> without_parameters("exchange<double>(Mesh<double>&, int)")
    'exchange<double>(…)'
    >>> without_parameters("(anonymous namespace)::Job::operator()(int) const")
    '(anonymous namespace)::Job::operator()(…) const'
    """
    return _folded(name, "(")


def short_name(name: str) -> str:
    """Return a function's name with ``…`` for its parameters and template arguments.

    >>> short_name("exchange<double, advance(Mesh&)::<lambda(int)> >(Mesh<double>&, int)")
    'exchange<…>(…)'
    >>> short_name("apply<std::vector<int> >::run"), short_name("main")
    ('apply<…>::run', 'main')
    """
    return _folded(name, "(<")


def shown_name(function: str) -> str:
    """Return a function's name; a long one without its parameters and template arguments."""
    if len(function) <= _LONGEST_NAME:
        return function
    name = without_parameters(function)
    return name if len(name) <= _LONGEST_NAME else short_name(function)


@lru_cache(maxsize=4096)
def _folded(name: str, kinds: str) -> str:
    """Return *name* without the contents of its outermost brackets of some kinds.

    A name whose brackets do not match is returned as it is.
    """
    if name[:1] in ("(", "?") and not name.startswith("(anon"):
        return name  # a recursion of several functions, or a function without a name
    if not any(each in name for each in kinds):
        return name
    parts: list[str] = []
    open_: list[str] = []
    folds_at = -1  # the number of brackets around the one that is being folded
    is_empty = False
    at = 0
    while at < len(name):
        whole = _WHOLE.match(name, at)
        piece = whole[0] if whole else name[at]
        if whole and piece == "<lambda":
            # GCC names a lambda "<lambda(int)>": the bracket stays, its parameters do not.
            open_.append(">")
        elif not whole and piece in _BRACKETS:
            if folds_at < 0 and piece in kinds and (not open_ or "<" in kinds):
                folds_at, is_empty = len(open_), name[at + 1 : at + 2] == _BRACKETS[piece]
                parts.append(piece)
            open_.append(_BRACKETS[piece])
        elif not whole and piece in _BRACKETS.values():
            if piece == ">" and name[at - 1 : at] == "-":
                pass  # the arrow of a type
            elif not open_ or open_.pop() != piece:
                return name
            elif folds_at == len(open_):
                parts.append("" if is_empty else DIFFERENT)
                folds_at = -1
        if folds_at < 0:
            parts.append(piece)
        at += len(piece)
    return name if open_ else "".join(parts)
