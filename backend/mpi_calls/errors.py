"""Errors of this folder; none leaves it."""

from __future__ import annotations


class EmulationError(Exception):
    """Code cannot be emulated, or does not end."""


class UnknownMpiError(Exception):
    """The MPI library does not behave as any that we know."""
