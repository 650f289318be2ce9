"""Variables of generators and coroutines that wait."""

from __future__ import annotations

from pgdb.backend.python import coroutines, scopes
from pgdb.backend.python.objects import Objects, UnknownError

FRAMES = ("gi_frame", "cr_frame", "ag_frame")
"""Attributes that are the frame of a generator, a coroutine or an asynchronous generator."""


def variables(objects: Objects, address: int) -> dict[str, int] | None:
    """Return the addresses of the variables of a generator or a coroutine by name; None for
    another object.

    :raises UnknownError: if it has ended, or runs.
    """
    name = objects.type_name(address)
    if name not in coroutines.WITH_FRAME:
        return None
    found = coroutines.waiting(objects, address)
    if found is None:
        raise UnknownError(f"the {name} has ended: it has no variables")
    if found.is_running:
        raise UnknownError(f"the {name} runs: its variables are those of its frame in the stack")
    own = scopes.scope_of(objects, found.frame_at).own
    return {each: value for each, value in own.items() if value}


def variable(objects: Objects, address: int, name: str) -> int:
    """Return the address of a variable of a generator or a coroutine.

    :raises UnknownError: if there is none.
    """
    found = variables(objects, address)
    kind = objects.type_name(address)
    if found is None:
        raise UnknownError(f"a {kind} has no frame of its own")
    if name not in found:
        raise UnknownError(f"the {kind} has no variable {name!r}")
    return found[name]
