"""The layout of the memory of the recorder of MPI calls, beside the text of recorder.h."""

from __future__ import annotations

import ctypes
import random
import re
import subprocess
from pathlib import Path

import pytest

from pgdb.mpi_recorder import layout
from tests.support.compiled import compiled
from tests.support.programs import ROOT

HEADER = (ROOT / "frontend" / "mpi_recorder" / "recorder.h").read_text(encoding="utf-8")
LINE_BYTES = 64
"""Bytes that processors write together."""


@pytest.mark.parametrize("name", list(layout.STRUCTURES))
def test_the_fields_are_those_of_the_header(name: str) -> None:
    found = re.search(rf"^struct {name} \{{(.*?)^\}}", HEADER, re.S | re.M)
    assert found is not None
    fields = [field for structure, field, _ in layout.offsets() if structure == name]
    assert fields
    assert [each for each in fields if not re.search(rf"\b{each}\b", found[1])] == []


def test_threads_share_no_line_of_the_cache() -> None:
    assert layout.Memory.thread.offset % LINE_BYTES == 0
    assert ctypes.sizeof(layout.Thread) % LINE_BYTES == 0
    assert layout.Thread.ring.offset % LINE_BYTES == 0
    assert ctypes.sizeof(layout.Call) == LINE_BYTES


def test_a_request_is_looked_for_where_the_recorder_puts_it(tmp_path: Path) -> None:
    function = re.search(r"static inline uint32_t hashed\(.*?^\}", HEADER, re.S | re.M)
    assert function is not None
    rng = random.Random(3)
    handles = [0, 1, (1 << 64) - 1, *(rng.getrandbits(64) for _ in range(100))]
    calls = "".join(
        f'printf("%u\\n", hashed({each}ull, {layout.MOST_REQUESTS}));' for each in handles
    )
    program = (
        "#include <stdint.h>\n#include <stdio.h>\n"
        f"{function[0]}\nint main(void) {{ {calls} return 0; }}\n"
    )
    done = subprocess.run(
        (compiled(tmp_path, "places.c", program),), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(layout.request_place(each)) for each in handles]
