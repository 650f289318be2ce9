"""The folders of tests, one for each folder of the sources."""

from __future__ import annotations

from pathlib import Path

from tests.support.programs import ROOT

SOURCES = ("backend", "frontend", "pgdb")


def folders_with(top: Path, pattern: str) -> set[str]:
    """Return the folders at and below *top* with a file that matches, by their paths in *top*."""
    return {
        str(path.parent.relative_to(top))
        for name in SOURCES
        for path in (top / name).rglob(pattern)
        if not any(part.is_symlink() for part in path.parents)
    }


def test_each_folder_of_the_sources_has_one_of_tests() -> None:
    sources = folders_with(ROOT, "__init__.py")
    tests = folders_with(ROOT / "tests", "test_*.py")
    assert len(sources) > 25
    # The modules of the tops are imports of the package, and run by the tests in tests/.
    assert sources - tests == {"backend", "frontend"}
    assert tests - sources == set()
