"""Command lines of launchers that start PyTorch's own launcher on each node."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.jobs import procfs
from pgdb.jobs.wrapped_program import path_of
from pgdb.patterns import pattern
from pgdb.regular_files import open_regular

_MOST_BYTES = 1 << 16
_MOST_WORDS = 32
"""Most words of a command line that are tried as names of scripts."""
# A program in Python names the launcher in its comments: it is a rank.
_SHELL = pattern(rb"#![^\n]*sh\b")
_TORCH = pattern(
    r"\b(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate\s+launch|deepspeed)\b"
)


def starts_torch(pid: int) -> bool:
    """Return whether the command line of a process, or a script of it that can be read here, names
    a launcher of PyTorch."""
    words = procfs.command_line(pid) or ()
    if names_torch(words):
        return True
    names = [each for each in words[1:] if each and not each.startswith("-")]
    # A name without a slash is that of a file as well: 'srun bash node.sh'.
    paths = (each if each.startswith("/") else path_of(pid, each) for each in names[:_MOST_WORDS])
    return any(map(_is_script_of_torch, paths))


def names_torch(words: Sequence[str]) -> bool:
    """Return whether a command line names a launcher of PyTorch.

    >>> names_torch(["srun", "-n", "2", "bash", "-c", "exec torchrun --nnodes 2 train.py"])
    True
    """
    return _TORCH.search(" ".join(words)) is not None


def _is_script_of_torch(path: str) -> bool:
    try:
        with open_regular(path) as stream:
            data = stream.read(_MOST_BYTES)
    except OSError:
        return False
    return _SHELL.match(data) is not None and names_torch([data.decode("utf-8", "replace")])
