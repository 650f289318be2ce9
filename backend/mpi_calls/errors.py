"""Errors of this folder; none leaves it."""

from __future__ import annotations


class EmulationError(Exception):
    """Code cannot be emulated, or does not end."""


class HaltError(EmulationError):
    """Code has come to a place where it was to be ended."""


class UnknownMpiError(Exception):
    """The MPI library does not behave as any that we know."""
