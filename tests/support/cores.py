"""Core files that tests write byte by byte: notes, mapped files, and the stack's end."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdb.cores.policy import read_policy
from tests.support.elves import elf

STACK = 0x7FF000000000
PROGRAM_AT = 0x400000
_AUXV_AT = 4096
_TEXTS_AT = 8192


def core(
    *,
    program: str = "/opt/app/solver",
    pid: int = 4711,
    signal: int = 11,
    environment: Mapping[str, str] | None = None,
    build_id: str = "0123456789abcdef",
    order: str = "<",
    is_64: bool = True,
    gaps: int = 0,
) -> bytes:
    """Return a core file.

    :param gaps: number of pointers that the program has taken out of its environment again, as
        unsetenv(3) does.
    """
    word, width = ("Q", 8) if is_64 else ("I", 4)
    stack_at = STACK if is_64 else 0xBF000000
    own = elf(build_id, order=order, is_64=is_64)
    own += bytes(-len(own) % 4096)
    line = [program, "--mode=fast", "7"]
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    texts = b"".join(each.encode() + b"\0" for each in (*line, *variables))
    addresses = []
    at = stack_at + _TEXTS_AT
    for each in (*line, *variables):
        addresses.append(at)
        at += len(each.encode()) + 1
    execfn = at
    texts += program.encode() + b"\0" + bytes(width)
    random = stack_at + _TEXTS_AT - 64
    values = {33: 0x7FFF0000, 3: PROGRAM_AT + 64, 9: PROGRAM_AT + 16, 25: random, 31: execfn, 0: 0}
    auxiliary = b"".join(struct.pack(f"{order}2{word}", *each) for each in values.items())
    of_line, of_variables = addresses[: len(line)], addresses[len(line) :]
    kept = of_variables[: len(of_variables) - gaps]
    pointers = [len(line), *of_line, 0, *kept, *[0] * (gaps + 1)]
    below = struct.pack(f"{order}{len(pointers)}{word}", *pointers)
    stack = bytes(_AUXV_AT - len(below)) + below + auxiliary
    stack += bytes(_TEXTS_AT - len(stack)) + texts
    stack += bytes(-len(stack) % 4096)
    status = struct.pack(f"{order}iiihh", signal, 0, 0, signal, 0)
    status += bytes(4 * width) + bytes(64)
    info = bytes(8) + bytes(width + 8) + struct.pack(f"{order}4i", pid, 1, pid, pid)
    info += Path(program).name.encode()[:15].ljust(16, b"\0")
    info += " ".join(line).encode()[:80].ljust(80, b"\0")
    files = struct.pack(f"{order}2{word}", 1, 4096)
    files += struct.pack(f"{order}3{word}", PROGRAM_AT, PROGRAM_AT + 4096, 0)
    files += program.encode() + b"\0"
    notes = b""
    for kind, data in ((1, status), (3, info), (6, auxiliary), (0x46494C45, files)):
        notes += struct.pack(f"{order}III", 5, len(data), kind) + b"CORE\0\0\0\0"
        notes += data + bytes(-len(data) % 4)
    head, entry = (64, 56) if is_64 else (52, 32)
    notes_at = head + 3 * entry
    own_at = notes_at + len(notes)
    ident = b"\x7fELF" + bytes([2 if is_64 else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    rest = struct.pack(
        f"{order}HHI3{word}I6H", 4, 62, 1, 0, head, 0, 0, head, entry, 3, 64 if is_64 else 40, 0, 0
    )

    def segment(kind: int, offset: int, address: int, size: int) -> bytes:
        if is_64:
            return struct.pack(f"{order}IIQQQQQQ", kind, 4, offset, address, 0, size, size, 1)
        return struct.pack(f"{order}8I", kind, offset, address, 0, size, size, 4, 1)

    table = segment(4, notes_at, 0, len(notes))
    table += segment(1, own_at, PROGRAM_AT, len(own))
    table += segment(1, own_at + len(own), stack_at, len(stack))
    return ident + rest + table + notes + own + stack


def rank_variables(rank: int, size: int, job: str = "717") -> dict[str, str]:
    """Return the variables of Open MPI 5 for a rank."""
    return {
        "PATH": "/usr/bin",
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "PMIX_NAMESPACE": job,
        "HOME": "/home/user",
    }


def leave_cores(line: Sequence[str], folder: Path, program: Path) -> list[Path]:
    """Run the line of cores.c in *folder*; return the core files of its ranks.

    Where the kernel gives core files to a program, or writes none, a GDB writes them.
    """
    if are_written_here():
        subprocess.run(line, cwd=folder, check=True, capture_output=True, timeout=300)
        return sorted(folder.glob("r*/core*"))
    at = list(line).index(str(program))
    command = 'python gdb.execute(f"generate-core-file r{gdb.parse_and_eval("rank")}/core")'
    words = ("set follow-fork-mode child", "run", "frame function main", command)
    gdb = ["gdb", "-nx", "-q", "-batch", *(each for word in words for each in ("-ex", word))]
    by_gdb = [*line[:at], *gdb, "--args", *line[at:]]
    subprocess.run(by_gdb, cwd=folder, check=True, capture_output=True, timeout=300)
    return sorted(folder.glob("r*/core"))


def leave_many_cores(program: Path, count: int, folder: Path) -> None:
    """Leave core files of *count* ranks of many_cores.c in *folder*, without a launcher.

    Where the kernel gives core files to a program, or writes none, a GDB writes them.
    """
    if are_written_here():
        subprocess.run([program, str(count)], cwd=folder, check=True, timeout=300)
        return
    for rank in range(count):
        place = folder / f"r{rank}"
        place.mkdir()
        words = ("gdb", "-nx", "-q", "-batch", "-ex", "run", "-ex", "gcore core", str(program))
        environment = os.environ | rank_variables(rank, count)
        subprocess.run(
            words, cwd=place, check=True, capture_output=True, timeout=300, env=environment
        )


def are_written_here() -> bool:
    """Return whether the kernel writes core files into the directory of the process."""
    policy = read_policy()
    is_here = policy.kind == "file" and not policy.pattern.startswith("/")
    return is_here and policy.can_be_enabled
