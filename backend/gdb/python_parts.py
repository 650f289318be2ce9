"""Values of Python inside expressions: ``py:loss``, ``py:model.bias[0]``."""

from __future__ import annotations

from pgdb.patterns import pattern

PREFIX = "py:"
_NAME = r"[^\W\d]\w*"
_KEY = (
    r"(?:-?\d[\w.]*(?:(?<=e)[-+]?\d+)?|[bB]?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|None|True|False)"
)
_SLICE = r"(?:-?\d+)?\s*:\s*(?:-?\d+)?(?:\s*:\s*(?:-?\d+)?)?"
_KEY = rf"(?:{_SLICE}|{_KEY})"
_KEYS = rf"{_KEY}\s*(?:,\s*{_KEY}\s*)*,?\s*"
PATH = rf"{_NAME}(?:\.{_NAME}|\[\s*(?:{_KEYS}|\(\s*{_KEYS}\)\s*)\])*"
PYTHON_PART = pattern(rf"(?<![\w:\"'])py:({PATH})?")


_QUOTED = pattern(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_BARE = pattern(r"(?<![\w$@])(?<!\.)(?<!->)(?<!::)[^\W\d]\w*(?!\w|\s*\(|\s*::)")


def is_python(expression: str) -> bool:
    """Return whether an expression has a value of Python in it.

    >>> is_python("py:loss"), is_python("-elements 4 -- py:loss"), is_python("happy:x")
    (True, True, False)
    """
    return PREFIX in expression and PYTHON_PART.search(expression) is not None


def bare_names(expression: str) -> tuple[str, ...]:
    """Return the names in an expression that a language of GDB's looks up, each once.

    Fields, functions that are called, and names with a scope are none.

    >>> bare_names("py:a[0] + step * s.x + p->y + f(z) + ::g + $h + 'a.c'::i + \\"k\\"")
    ('step', 's', 'p', 'z')
    """
    text = _QUOTED.sub("''", PYTHON_PART.sub("0", expression))
    return tuple(dict.fromkeys(match[0] for match in _BARE.finditer(text)))
