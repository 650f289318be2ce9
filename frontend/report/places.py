"""Paths of source files as code hosts know them: from the checkout on."""

from __future__ import annotations

import os


def from_checkout(file: str, checkout: str = "") -> str:
    """Return the path of a file from *checkout* (the working directory) on, or as it is.

    >>> from_checkout("/home/a/src/x.c", "/home/a"), from_checkout("/usr/x.c", "/home/a")
    ('src/x.c', '/usr/x.c')
    """
    base = checkout or os.getcwd()
    if not os.path.isabs(file) or base == "/":
        return file
    inside = os.path.relpath(file, base)
    return file if inside.startswith(os.pardir) else inside
