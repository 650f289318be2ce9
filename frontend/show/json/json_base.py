"""The base of all lines of ``--json``."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Time = Annotated[float, Meta(description="Seconds since 1970-01-01 00:00 UTC.")]


class LineBase(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Base of all lines; fields with their default are left out."""

    time: Time
