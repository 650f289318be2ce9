"""Modules that look at the clock that can be set: none that waits for anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SETTABLE = {
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
MAY = {
    "backend": set[str](),
    # To say when something was: in answers, files, logs, reports.
    "frontend": {
        "ui/batch",
        "commands/saved_answers",
        "show/export/tree_files",
        "ui/bug_report",
        "store/history",
        "store/log",
        "store/recorder",
        "transport/recording",
        "store/saving",
        "api/chronicle",
        "report/collect",
        "run/run_report",
        # Calls of the recorder are shown with the time of day.
        "show/text/mpi_call_text",
        # A batch system gives the end of a job as a time of day.
        "run/occasions",
        "run/supervisor",
        "run/time_limit",
        "run/with_gdb",
    },
    # To compare with the ages of files; the ends of ranks are put in order across hosts.
    "pgdb": {"overlay/archive_bootstrap", "files/file_cache", "jobs/rank_watcher"},
}


def looks(path: Path) -> Iterator[str]:
    """Yield what a module asks the settable clock."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in SETTABLE.get(node.value.id, ()):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            if node.attr in SETTABLE.get(node.value.attr, ()):
                yield f"{node.value.attr}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (each.name for each in node.names if each.name in SETTABLE["time"])


@pytest.mark.slow
@pytest.mark.parametrize("package", sorted(MAY))
def test_waits_go_by_the_clock_that_cannot_be_set(package: str) -> None:
    found = {
        str(path.relative_to(ROOT / package).with_suffix("")): sorted(set(asked))
        for path in sorted((ROOT / package).rglob("*.py"))
        if not any(part.is_symlink() for part in path.parents) and (asked := [*looks(path)])
    }
    assert found.keys() <= MAY[package], found
