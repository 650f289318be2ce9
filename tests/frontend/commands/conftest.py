"""Fixtures of the tests of commands."""

from __future__ import annotations

import pytest

from tests.support.typed_lines import Typed


@pytest.fixture
def typed() -> Typed:
    return Typed()
