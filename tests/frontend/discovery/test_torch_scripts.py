"""Command lines that start PyTorch's own launcher on each node."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdb.frontend.discovery.torch_scripts import starts_torch


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        ("srun -N 2 torchrun --nnodes 2 train.py", True),
        ("srun python -m torch.distributed.run train.py", True),
        ("mpirun -n 2 accelerate launch train.py", True),
        ("srun ./ring torch", False),
        ("srun python train.py", False),
        ("", False),
    ],
)
def test_the_line_names_a_launcher(line: str, starts: bool) -> None:
    assert starts_torch(line.split()) is starts


def test_a_script_on_the_line_is_read(tmp_path: Path) -> None:
    script, other = tmp_path / "node.sh", tmp_path / "program"
    script.write_text("#!/bin/sh\nexec torchrun --nnodes 2 train.py\n")
    other.write_bytes(b"\x7fELF torchrun")
    assert starts_torch(["srun", str(script)])
    assert not starts_torch(["srun", str(other)])
    assert not starts_torch(["srun", str(tmp_path / "gone")])
    assert not starts_torch(["srun", str(tmp_path)])
