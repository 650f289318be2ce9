"""The debug information of the C library is hidden from the tests, and from nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.backend.sbd.mapped_objects import mapped_objects
from tests.support import libc_debug

HIDE = """
import sys
from pathlib import Path
from tests.support import libc_debug
folder = Path(sys.argv[1])
print(libc_debug.hide(folder), *(each.name for each in folder.rglob("*.debug")))
"""


def debug_files(folder: Path) -> Path:
    """Make a folder of debug files with that of our C library and another one; return it."""
    (build_id,) = (each.build_id for each in mapped_objects(os.getpid()) if "/libc.so" in each.path)
    for name in (build_id, "00" * 20):
        (folder / name[:2]).mkdir()
        (folder / name[:2] / f"{name[2:]}.debug").write_bytes(b"")
    return folder / build_id[:2]


def test_folder_is_that_of_the_build_id(tmp_path: Path) -> None:
    assert libc_debug.folder_of_libc(tmp_path) is None
    assert debug_files(tmp_path) == libc_debug.folder_of_libc(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("keep", ["", "1"])
def test_only_the_process_that_hides_it_has_it_no_longer(tmp_path: Path, keep: str) -> None:
    debug_files(tmp_path)
    environment = {**os.environ, libc_debug.KEEP_VARIABLE: keep}
    ended = subprocess.run(
        [sys.executable, "-c", HIDE, str(tmp_path)],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    hidden, *left = ended.stdout.split()
    if hidden == "False" and not keep:
        pytest.skip("this container may not mount")
    assert (hidden, len(left)) == (("False", 2) if keep else ("True", 1)), ended.stderr
    assert len([*tmp_path.rglob("*.debug")]) == 2
