"""Command lines of launchers that start PyTorch's own launcher on each node."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.patterns import pattern
from pgdb.regular_files import open_regular

_MOST_BYTES = 1 << 16
_MOST_FILES = 4
_TORCH = pattern(
    r"\b(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate\s+launch|deepspeed)\b"
)


def starts_torch(words: Sequence[str]) -> bool:
    """Return whether a command line, or a script of it that can be read here, names a launcher of
    PyTorch.

    >>> starts_torch(["srun", "-n", "2", "bash", "-c", "exec torchrun --nnodes 2 train.py"])
    True
    """
    if _TORCH.search(" ".join(words)):
        return True
    paths = [each for each in words[1:] if "/" in each and not each.startswith("-")]
    return any(map(_names_torch, paths[:_MOST_FILES]))


def _names_torch(path: str) -> bool:
    try:
        with open_regular(path) as stream:
            data = stream.read(_MOST_BYTES)
    except OSError:
        return False
    return data.startswith(b"#!") and _TORCH.search(data.decode("utf-8", "replace")) is not None
