"""Modules that the programs load when they start: no other side, and no slow package."""

from __future__ import annotations

import subprocess
import sys

from tests.support.imports import is_within
from tests.support.programs import ROOT


def loaded_by(statement: str) -> set[str]:
    """Return the names of the modules that *statement* loads in a fresh Python."""
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_daemon_loads_no_front_end_and_no_heavy_package() -> None:
    loaded = loaded_by("import pgdb.backend.node.daemon, pgdb.backend.node.serving")
    assert "pgdb.backend.node.leaf" in loaded
    # networkx alone takes 0.46 s to import; every host of a job would pay for it.
    heavy = ("networkx", "numpy", "prompt_toolkit", "rich", "matplotlib", "mpi4py")
    unwanted = ("pgdb.frontend", *heavy)
    assert not [name for name in loaded if is_within(name, unwanted)]


def test_front_end_loads_no_back_end() -> None:
    loaded = loaded_by("import pgdb.frontend.ui.main")
    assert "pgdb.frontend.ui.main" in loaded
    # numpy and rich take 0.1 s each, and most sessions look at no array. The commands come
    # while the launcher of the aggregators starts.
    unwanted = (
        "pgdb.backend",
        "pgdb.frontend.commands",
        "mpi4py",
        "networkx",
        "numpy",
        "rich",
        "matplotlib",
    )
    assert not [name for name in loaded if is_within(name, unwanted)]
