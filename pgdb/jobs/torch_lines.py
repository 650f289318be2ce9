"""Launch lines of PyTorch: torchrun, its module, and accelerate.

They start ``python -u SCRIPT`` for each worker; with ``--no-python`` they run any program in the
same way. So the interpreter is written out, and the hold program has a place before it. DeepSpeed
and torch.distributed.launch add an option behind the first word, so their lines have no such place.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.jobs.launch_lines import LaunchLine, Program
from pgdb.jobs.launchers import Family, Launcher
from pgdb.patterns import pattern

# Options without a value: those of torchrun 2.13, then those of accelerate 1.15.
_NO_VALUE = frozenset(
    """
    standalone m module no-python run-path virtual-local-rank help h
    cpu debug downcast-bf16 dynamo-use-dynamic dynamo-use-fullgraph
    dynamo-use-regional-compilation enable-cpu-affinity fp8-use-autocast-during-eval multi-gpu
    no-tpu-cluster q quiet same-network tpu tpu-cluster tpu-use-sudo use-deepspeed use-fsdp
    use-megatron-lm use-parallelism-config
    """.split()
)
_COUNTS = ("nproc-per-node", "num-processes")
_PYTHON = pattern(r"python[\d.]*\Z")
_MODULES = ("torch.distributed.run", "accelerate.commands.launch")
_SHEBANG = re.compile(r"#!\s*(\S*python[\d.]*)\s*$")


def begin_of_options(argv: Sequence[str]) -> int:
    """Return the number of words before the options of a line of PyTorch's; 0 for another line.

    >>> [begin_of_options(each.split()) for each in ("torchrun t.py", "accelerate launch t.py")]
    [1, 2]
    >>> begin_of_options("python3 -m torch.distributed.run t.py".split())
    3
    """
    name = os.path.basename(argv[0]) if argv else ""
    if name == "torchrun":
        return 1
    if name == "accelerate" and list(argv[1:2]) == ["launch"]:
        return 2
    is_module = _PYTHON.match(name) and list(argv[1:2]) == ["-m"]
    return 3 if is_module and argv[2:] and argv[2] in _MODULES else 0


def read_torch_line(path: Path, argv: Sequence[str], begin: int = 1) -> LaunchLine:
    """Read a line of PyTorch's whose options begin at *begin*; *path* is its first word.

    :raises UsageError: if there is no script.
    """
    options: list[str] = []
    at, is_module, is_program, count = begin, False, False, None
    while at < len(argv) and argv[at].startswith("-"):
        name, equals, value = argv[at].lstrip("-").replace("_", "-").partition("=")
        takes = name not in _NO_VALUE and not equals
        is_module |= name in ("m", "module")
        is_program |= name == "no-python"
        words = argv[at : at + 1 + takes]
        if name not in ("m", "module", "no-python"):
            options += words
        if name in _COUNTS:
            value = argv[at].partition("=")[2] or words[-1]
            count = int(value) if value.isdecimal() else None
        at += len(words)
    if at >= len(argv):
        raise UsageError(f"no script follows {' '.join(argv)!r}")
    rest = list(argv[at:])
    if not is_program:
        rest[:0] = [_python_of(path), "-u", *(["-m"] if is_module else [])]
    # accelerate knows the name with an underscore only; torchrun takes both.
    line = [*argv[:begin], *options, "--no_python", *rest]
    index = len(line) - len(rest)
    is_alone = not any(re.search("nnodes|rdzv|num.machines|hostfile", word) for word in options)
    return LaunchLine(
        launcher=Launcher(path, Family.TORCHRUN, os.path.basename(argv[begin - 1])),
        argv=tuple(line),
        programs=(Program(index, line[index], tuple(line[index + 1 :])),),
        doubts=(),
        rank_count=count if is_alone else None,
        on_this_host_only=is_alone,
    )


def with_workers(line: LaunchLine) -> LaunchLine:
    """Return a line of MPI whose program is torchrun with the workers as its programs."""
    if len(line.programs) != 1:
        return line
    (agent,) = line.programs
    words = (agent.word, *agent.arguments)
    begin = begin_of_options(words)
    found = shutil.which(agent.word) if begin else None
    if found is None:
        return line
    inner = read_torch_line(Path(os.path.abspath(found)), words, begin)
    (worker,) = inner.programs
    return replace(
        line,
        argv=(*line.argv[: agent.index], *inner.argv),
        programs=(replace(worker, index=agent.index + worker.index),),
        rank_count=None,
    )


def _python_of(path: Path) -> str:
    """Return the interpreter that *path* is, or that runs the script *path* and its workers."""
    if python := os.environ.get("PYTHON_EXEC"):
        return python
    if _PYTHON.match(path.name):
        return str(path)
    with contextlib.suppress(OSError, UnicodeDecodeError), path.open() as file:
        if match := _SHEBANG.match(file.readline()):
            return match[1]
    return shutil.which("python3") or sys.executable
