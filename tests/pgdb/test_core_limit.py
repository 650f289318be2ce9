"""PGDB's processes leave no core file with the session's key; processes that it starts for the user
may."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

_LIMITS = "import resource; print(*resource.getrlimit(resource.RLIMIT_CORE))"


def run(code: str, folder: Path, soft: int) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process that may leave core files of *soft* bytes."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard != resource.RLIM_INFINITY:
        pytest.skip("core files are limited here already")
    return subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (soft, hard)),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
    )


@pytest.mark.parametrize("soft", [resource.RLIM_INFINITY, 4096, 0])
def test_programs_of_the_user_get_the_users_limit(tmp_path: Path, soft: int) -> None:
    code = f"""
import subprocess, sys
from pgdb import core_limit
def show():
    subprocess.run([sys.executable, "-c", {_LIMITS!r}], check=True)
with core_limit.limit_as_given():
    show()
core_limit.leave_none()
core_limit.leave_none()
show()
with core_limit.limit_as_given():
    show()
show()
"""
    done = run(code, tmp_path, soft)
    unlimited = resource.RLIM_INFINITY  # -1, since Python 3.15 2**64 - 1
    given, none = f"{soft} {unlimited}", f"1 {unlimited}"
    assert done.stdout.splitlines() == [given, none, given, none], done.stderr


def test_a_front_end_that_crashes_leaves_no_core_file(tmp_path: Path) -> None:
    code = """
import os
from pgdb import core_limit
def crash():
    child = os.fork()
    if not child:
        os.abort()
    return os.WCOREDUMP(os.waitpid(child, 0)[1])
print(crash())
core_limit.leave_none()
print(crash())
"""
    done = run(code, tmp_path, resource.RLIM_INFINITY)
    before, after = done.stdout.split()
    if before != "True":
        pytest.skip("this system leaves no core files in any case")
    assert after == "False", done.stderr


@pytest.mark.parametrize("hard", [resource.RLIM_INFINITY, 0], ids=["allowed", "forbidden"])
def test_no_core_file_is_left_that_has_the_key_in_it(hard: int) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    if hard == resource.RLIM_INFINITY:
        if resource.getrlimit(resource.RLIMIT_CORE)[1] != hard:
            pytest.skip("core files are limited here already")
    code = (
        "import resource; from pgdb import core_limit; core_limit.leave_none(); "
        "print(*resource.getrlimit(resource.RLIMIT_CORE))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
    )
    assert done.stdout.split() == ["0" if hard == 0 else "1", str(hard)], done.stderr
