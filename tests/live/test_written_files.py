"""Files that the GDBs of several ranks write, and copies of them on the front end's host."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

SCRIPT = """\
break work
continue
trace factorial
dump binary value {0}/value counter
append binary value {0}/value.%r counter
save tracepoints {0}/traces
maint print registers {0}/registers.{{rank}}.txt
thread apply all dump binary value {0}/carried counter
if 1
  dump binary value {0}/body counter
end
define keep
  dump binary value $arg0 counter
end
keep {0}/kept
proc 1 dump binary value {0}/one counter
gather {0}/here gcore {0}/core
"""


def test_each_rank_writes_a_file(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.write_text(SCRIPT.format(tmp_path), encoding="utf-8")
    line = mpi.line(2, build("language.c"))
    finished = run_json("launch", "-x", commands, *ex("kill"), *line)
    names = {each.name for each in tmp_path.iterdir()} - {"commands", "here", "one"}
    kinds = ("value", "traces", "carried", "body", "kept", "core")
    assert names == {
        *(f"{kind}.{rank}" for kind in kinds for rank in (0, 1)),
        "registers.0.txt",
        "registers.1.txt",
    }
    assert (tmp_path / "one").stat().st_size == 4
    # It was appended to.
    assert (tmp_path / "value.0").stat().st_size == 8
    assert "factorial" in (tmp_path / "traces.1").read_text()
    written = finished.answer(f"dump binary value {tmp_path}/value.{{rank}} counter")
    assert written["classes"][0]["record"] == {
        "kind": "written",
        "path": f"{tmp_path}/value.{{rank}}",
        "host": socket.gethostname(),
    }
    assert f"wrote {tmp_path}/value.{{0..1}} on " in written["classes"][0]["text"]
    for rank in (0, 1):
        copy, core = tmp_path / f"here/core.{rank}", tmp_path / f"core.{rank}"
        assert copy.read_bytes() == core.read_bytes()
