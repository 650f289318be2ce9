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


def is_python(expression: str) -> bool:
    """Return whether an expression has a value of Python in it.

    >>> is_python("py:loss"), is_python("-elements 4 -- py:loss"), is_python("happy:x")
    (True, True, False)
    """
    return PREFIX in expression and PYTHON_PART.search(expression) is not None
