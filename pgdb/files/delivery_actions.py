"""The actions of a node that delivers files, which :mod:`pgdb.files.delivery` carries out."""

from __future__ import annotations

from typing import NamedTuple

from pgdb.overlay.messages import FRONT_END, AnyMessage, FileKey, FilePart

OWN = FRONT_END - 1
"""This node itself, in place of a child's number."""
ABOVE = FRONT_END
"""The parent, in place of a child's number."""


class Send(NamedTuple):
    """Order to send *message* to a child, or to the parent (ABOVE)."""

    who: int
    message: AnyMessage


class LookHere(NamedTuple):
    """Order to look for a file on this host; ``found_here`` or ``not_here`` reports."""

    key: FileKey


class Get(NamedTuple):
    """Order to copy a file into the cache; ``finish``, ``pass_on`` or ``lose`` reports."""

    key: FileKey


class DoWithout(NamedTuple):
    """Order to look for a file without a source in the cache; ``finish`` reports."""

    key: FileKey


class MakePart(NamedTuple):
    """Order to read a part on this host; ``part_made`` or ``part_failed`` reports."""

    key: FileKey
    offset: int


class PartHere(NamedTuple):
    """Order to take a part that was requested."""

    part: FilePart


class Unavailable(NamedTuple):
    """Order to give up the requested parts of a file."""

    key: FileKey
    why: str


Action = Send | LookHere | Get | DoWithout | MakePart | PartHere | Unavailable
