"""The actions of a node that delivers files, which :mod:`pgdb.files.delivery` carries out."""

from __future__ import annotations

from typing import NamedTuple

from pgdb.overlay.messages import FRONT_END, AnyMessage, FileKey, FilePart

OWN = FRONT_END - 1
"""This node itself, in place of a child's number."""
ABOVE = FRONT_END
"""The parent, in place of a child's number."""


class Send(NamedTuple):
    """Send *message* to a child, or to the parent (ABOVE)."""

    who: int
    message: AnyMessage


class LookHere(NamedTuple):
    """Look for a file on this host; report with ``found_here`` or ``not_here``."""

    key: FileKey


class Get(NamedTuple):
    """Bring a copy of a file into the cache; report with ``finish``, ``pass_on`` or ``lose``."""

    key: FileKey


class DoWithout(NamedTuple):
    """Look for a file without a source in the cache; report with ``finish``."""

    key: FileKey


class MakePart(NamedTuple):
    """Read a part on this host; report with ``part_made`` or ``part_failed``."""

    key: FileKey
    offset: int


class PartHere(NamedTuple):
    """Take a part that was requested."""

    part: FilePart


class Unavailable(NamedTuple):
    """Give up the requested parts of a file."""

    key: FileKey
    why: str


Action = Send | LookHere | Get | DoWithout | MakePart | PartHere | Unavailable
