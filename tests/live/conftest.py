"""Fixtures of the live tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Build
from tests.support.nursery_ranks import build_opener
from tests.support.programs import Program


@pytest.fixture
def ring(build: Build) -> Program:
    """The program whose ranks send a value around."""
    return build("ring.c")


@pytest.fixture(scope="module")
def openers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the program ``opener``, under two names, and the object that it opens."""
    folder = tmp_path_factory.mktemp("nursery")
    build_opener(folder)
    return folder
