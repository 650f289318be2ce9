"""The frames of the functions that end a process, outside of the user's code."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.patterns import pattern
from pgdb.records import Frame

_OF_EXIT = pattern(r"(?:__GI_)?(?:_?exit|_Exit|__run_exit_handlers)\Z")
"""The functions of GNU's C library between ``exit`` and the end of the process."""
_NAMELESS = "libc.so"
"""The beginning of the name of a function that only debug information names."""
_MOST = 5
"""Most frames from the end of the process to the caller of ``main``."""


def calling_frame(frames: Sequence[Frame]) -> int:
    """Return the index of the frame that has ended the process by ``exit``.

    A death begins in the innermost frame, whatever its name is.
    """
    last = 0
    for at, each in enumerate(frames):
        if at and _OF_EXIT.match(each.function):
            last = at
        elif at and not each.function.startswith(_NAMELESS):
            break
    return min(last + 1, len(frames) - 1)


def follows_main(frames: Sequence[Frame]) -> bool:
    """Return whether the C library has ended the process after ``main`` has returned."""
    for each in frames[calling_frame(frames) : _MOST]:
        if each.function.startswith("__libc_start_"):
            return True
        if not each.function.startswith(_NAMELESS):
            return False
    return False
