"""The base class of all records that one rank can answer or report."""

from __future__ import annotations

import msgspec


# The hash of a stack covers all of its frames, and merging needs it at every step, so it is cached.
# Records cannot form reference cycles, so the garbage collector need not visit them by the
# thousand.
class Struct(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    cache_hash=True,
    gc=False,
):
    """Base of all records: immutable, compared by value, strictly decoded."""
