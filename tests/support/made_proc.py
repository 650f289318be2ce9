"""A /proc that a test makes."""

from __future__ import annotations

from pathlib import Path


def add_process(
    proc: Path,
    pid: int,
    *,
    ppid: int = 1,
    comm: str = "app",
    state: str = "S",
    flags: int = 0,
    uids: str = "1000 1000 1000 1000",
    tracer: int = 0,
    environ: bytes | None = b"",
    cmdline: bytes = b"",
    threads: dict[int, str] | None = None,
    memory_bytes: int = 0,
    code_start: int = 0,
    environment_end: int = 0,
) -> None:
    directory = proc / str(pid)
    directory.mkdir(parents=True)
    numbers = [str(ppid), "0", "0", "0", "0", str(flags), *["0"] * 12, "4242"]
    numbers += [str(memory_bytes), "0", "0", str(code_start), *["0"] * 24, str(environment_end)]
    (directory / "stat").write_text(f"{pid} ({comm}) {state} {' '.join(numbers)}\n")
    (directory / "status").write_text(
        f"Name:\t{comm}\nTracerPid:\t{tracer}\nUid:\t{uids}\nSigCgt:\t0000000000400002\n"
    )
    if environ is not None:
        (directory / "environ").write_bytes(environ)
    (directory / "cmdline").write_bytes(cmdline)
    for thread, signals in (threads or {}).items():
        (directory / "task" / str(thread)).mkdir(parents=True)
        (directory / "task" / str(thread) / "status").write_text(signals)


def add_self(proc: Path, *, uid: int = 1000, capabilities: int = 0) -> None:
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "status").write_text(
        f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{capabilities:016x}\n"
    )


def set_yama(proc: Path, scope: int) -> None:
    (proc / "sys" / "kernel" / "yama").mkdir(parents=True)
    (proc / "sys" / "kernel" / "yama" / "ptrace_scope").write_text(f"{scope}\n")
