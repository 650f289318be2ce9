"""The example notebook runs, and its results show themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Build
from tests.support.programs import ROOT, Mpi

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi, pytest.mark.slow]

# In a process of its own: packages of Jupyter warn, and warnings are errors here.
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def test_the_example_notebook(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("deadlock_tags.c")
    launcher = mpi.line(2, program)
    done_path = tmp_path / "done.ipynb"
    source = ROOT / "examples" / "notebook" / "deadlock.ipynb"
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, source, done_path],
        cwd=tmp_path,
        env=os.environ
        | {
            "DEADLOCK_TAGS": str(program.path),
            "MPIRUN": " ".join(launcher[: launcher.index("-n")]),
            "IPYTHONDIR": str(tmp_path),
            "JUPYTER_RUNTIME_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads(done_path.read_text())["cells"]
    shown: dict[str, str] = {}
    for cell in cells:
        for output in cell.get("outputs", ()):
            page = "".join(output.get("data", {}).get("text/html", ()))
            if page:
                shown["".join(cell["source"]).splitlines()[-1]] = page
    assert "swap_with" in shown["job.backtrace()"]
    assert "<table>" in shown['job.evaluate("value")']
    assert "mean" in shown['job.stat("value")']
    assert "PMPI_Sendrecv" in shown["tree"] or "MPI_Sendrecv" in shown["tree"]
    assert "MPI_Sendrecv" in shown["job.why()"]
    assert "<iframe sandbox" in shown['job.report(title="a deadlock in a notebook")']
    assert "main" in shown["answer"], "the answer of the asynchronous API"
