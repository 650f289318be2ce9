"""Fixtures of the overlay's tests."""

from __future__ import annotations

import importlib

import pytest

from pgdb.overlay.node import LARGE_RANKS


@pytest.fixture(params=[LARGE_RANKS, 1], ids=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every reply count as small, or as large."""
    monkeypatch.setattr("pgdb.overlay.node.LARGE_RANKS", request.param)
    monkeypatch.setattr("pgdb.overlay.router.LARGE_RANKS", request.param)
    # A session has loaded it long before the first answer, too.
    importlib.import_module("numpy")
