"""Launchers that start PyTorch's own launcher on each node, by command line or by script."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdb.frontend.discovery.torch_scripts import names_torch, starts_torch

NODE = "#!/bin/sh\nexec torchrun --nnodes 2 train.py\n"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("srun -N 2 torchrun --nnodes 2 train.py", True),
        ("srun python -m torch.distributed.run train.py", True),
        ("mpirun -n 2 accelerate launch train.py", True),
        ("srun ./ring torch", False),
        ("srun python train.py", False),
        ("", False),
    ],
)
def test_the_line_names_a_launcher(line: str, names: bool) -> None:
    assert names_torch(line.split()) is names


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[int]:
    """Run a program with *arguments* in a folder, as a launcher; return its process id."""
    waits = [sys.executable, "-c", "print(flush=True); input()", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(waits, cwd=folder, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate("\n")


@pytest.mark.parametrize(
    ("name", "text", "starts"),
    [
        ("node.sh", NODE, True),
        ("./node.sh", NODE, True),
        ("{folder}/node.sh", NODE, True),
        ("node.sh", NODE.replace("/bin/sh", "/usr/bin/env -S bash -e"), True),
        ("node.sh", NODE.replace("torchrun", "python"), False),
        ("train.py", "#!/usr/bin/env python3\n# torchrun train.py\n", False),
        ("program", "\x7fELF torchrun", False),
        ("gone", None, False),
        ("{folder}", None, False),
    ],
)
def test_a_script_is_read_where_the_launcher_finds_it(
    tmp_path: Path, name: str, text: str | None, starts: bool
) -> None:
    path = name.format(folder=tmp_path)
    if text is not None:
        (tmp_path / path).write_text(text)
    with running(tmp_path, "-N", "2", "bash", path) as pid:
        assert starts_torch(pid) is starts


def test_a_process_that_has_ended_starts_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as pid:
        pass
    assert not starts_torch(pid)
