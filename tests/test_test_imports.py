"""Rules for test modules: none serves another, and none replaces a private constant.

`tests/support` and `tests/fakes` hold what tests share.
"""

from __future__ import annotations

import re

from tests.support.programs import ROOT

# In the text, so that programs within strings count too.
IMPORT = re.compile(
    r"^[ \t]*(?:from (?P<origin>tests[\w.]*) import (?P<names>\([^)]*\)|.*)"
    r"|import (?P<module>tests[\w.]*))",
    re.M,
)


def imported_tests(source: str) -> list[str]:
    """Return the imports of test modules, each as its dotted name."""
    found = []
    for match in IMPORT.finditer(source):
        origin = match["origin"] or match["module"]
        names = re.findall(r"\w+", match["names"] or "")
        found += [
            each for each in (origin, *(f"{origin}.{name}" for name in names)) if is_test(each)
        ]
    return found


def is_test(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return path.name.startswith("test_") and path.with_suffix(".py").is_file()


def test_the_search_finds_imports_of_test_modules() -> None:
    own = "tests.test_test_imports"
    assert imported_tests(f"from {own} import is_test\n") == [own]
    assert imported_tests(
        "if True:\n    from tests import (\n        test_test_imports,\n    )"
    ) == [own]
    assert imported_tests(f"import {own} as other\n") == [own]
    assert imported_tests("from tests.support.programs import ROOT, find_mpi\n") == []


def test_no_module_imports_a_test_module() -> None:
    sources = {
        path: path.read_text(encoding="utf-8")
        for folder in ("tests", "bench", "fuzz", "examples", "scripts")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert len(sources) > 100, "the sources were not found"
    found = {
        str(path.relative_to(ROOT)): imports
        for path, source in sources.items()
        if path.name != "test_test_imports.py" and (imports := imported_tests(source))
    }
    assert found == {}


def test_no_test_replaces_a_private_constant() -> None:
    """A constant that a test sets has a public name, so that its readers know of the test."""
    private = re.compile(r'setattr\([^()]*"(?:[\w.]*\.)?_[A-Z][A-Z0-9_]*"')
    assert private.search('monkeypatch.setattr(module, "_LIMIT_S", 0)')
    assert private.search('monkeypatch.setattr("pgdb.module._LIMIT_S", 0)')
    assert not private.search('monkeypatch.setattr(module, "LIMIT_S", 0)')
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != "test_test_imports.py" and private.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []
