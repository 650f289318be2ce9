"""Functions of scripts about answers: they refuse arguments of wrong types in words."""

from __future__ import annotations

from pgdb.frontend.analysis import comparing
from pgdb.frontend.api.argument_types import checks_call

compare = checks_call(comparing.compare)
"""Compare two answers; see :func:`.comparing.compare`, which checks no type."""
