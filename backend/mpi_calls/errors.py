"""Errors of this folder; none leaves it."""

from __future__ import annotations


class EmulationError(Exception):
    """Code that cannot be emulated, or does not end."""


class HaltError(EmulationError):
    """Arrival of the code at a place where it was to be ended."""


class UnknownMpiError(Exception):
    """MPI library that does not behave as any that we know."""
