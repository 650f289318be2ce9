"""Fixtures of the tests of a session's start."""

from __future__ import annotations

import venv
from pathlib import Path
from typing import Any

import pytest

from pgdb.frontend.startup import shipping
from pgdb.frontend.startup.shipped_archive import Archive, Tags
from tests.fakes.archives import HERE, packed
from tests.support.shipments import SMALL, Remote


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bare")
    venv.create(directory, symlinks=True, with_pip=False)
    return directory / "bin" / "python"


@pytest.fixture
def remote(tmp_path: Path, bare_python: Path) -> Remote:
    (tmp_path / "remote").mkdir()
    return Remote(tmp_path / "remote", bare_python)


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache of the front end's own, kept from test to test since packing takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Archive:
    """Replace the archive of PGDB by a small one."""
    archive = packed(SMALL, tmp_path)

    async def archive_for(tags: Tags) -> Archive:
        assert tags == HERE
        return archive

    monkeypatch.setattr(shipping, "archive_for", archive_for)
    return archive
