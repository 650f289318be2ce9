"""``pgdb report-bug``: an archive with the data of a bug report, for the user to inspect."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from pgdb.controls import harmless, harmless_json
from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.start import open_site
from pgdb.frontend.store.log import MAX_BYTES, read_head
from pgdb.frontend.store.redact import Redactor
from pgdb.frontend.system.user_files import reason, user_path, write_atomically
from pgdb.regular_files import open_regular
from pgdb.sizes import whole_size
from pgdb.version import __version__

_TOOLS = ("gdb", "mpirun", "mpiexec", "mpicc", "srun", "gcc")
_TOOL_TIMEOUT_S = 20.0
_PACKAGES = "msgspec numpy prompt_toolkit pyroaring mpi4py cryptography rich".split()
_README = """Contents of this archive, made by 'pgdb report-bug':

{files}
Nothing was sent anywhere. Look through it before you attach it to a report:
names and addresses of hosts, process ids, names of programs, functions, variables
and source files are in it.
{values}
"""
_WITHOUT_VALUES = """Values of your program, its arguments, and what looks like a secret in your
environment are not; your home directory stands as ~."""
_WITH_VALUES = """The log was written with --log-values: values of your program and its arguments
are in it as well."""


async def report_bug(log: str, output: str) -> int:
    """Write the archive *output* (default: a name with the time); return 0.

    :raises CommandError: if *log* is no log of PGDB, or if the archive cannot be written.
    """
    out = sys.stdout
    target = user_path(output or time.strftime("pgdb-report-%Y%m%d-%H%M%S.tar.gz"))
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"report-bug: {target} must be a .tar.gz file; -o FILE names one")
    if os.path.lexists(target):
        raise UsageError(f"report-bug: {target} exists; -o FILE names another")
    redactor = Redactor(os.environ, keeps_values=False)
    logs, keeps_values = await asyncio.to_thread(_read_logs, log)
    files = {
        "versions.txt": harmless(redactor.lines(await asyncio.to_thread(_versions))),
        "doctor.txt": harmless(redactor.lines(await _doctor())),
        **logs,
    }
    listing = "".join(f"  {name:<14} {_MEANING[name]}\n" for name in files)
    values = _WITH_VALUES if keeps_values else _WITHOUT_VALUES
    files = {"README.txt": _README.format(files=listing, values=values), **files}
    folder = target.name.removesuffix(".tgz").removesuffix(".tar.gz")
    data = await asyncio.to_thread(_pack, files, folder)
    try:
        write_atomically(target, data, exclusive=True)
    except OSError as error:
        raise CommandError(f"{target} cannot be written: {reason(error)}") from None
    out.write(f"{target}: {whole_size(len(data))}\n{listing}")
    if keeps_values:
        out.write("The log has values of your program in it (--log-values).\n")
    if not log:
        out.write(
            "No log is in it: 'pgdb attach --log FILE …' or 'pgdb launch --log FILE …' writes one\n"
            "while the bug shows itself, and 'pgdb report-bug FILE' packs it.\n"
        )
    out.write(f"Nothing was sent. Look through it: tar -xzf {target}\n")
    return 0


_MEANING = {
    "versions.txt": "versions of PGDB, Python, its packages, GDB, MPI and the system",
    "doctor.txt": "what 'pgdb doctor' says",
    "session.log": "the log of the session",
    "session.log.1": "what was logged before that",
}


def _read_logs(log: str) -> tuple[dict[str, str], bool]:
    """Return the logs by name in the archive, and whether they contain values."""
    if not log:
        return {}, False
    path = user_path(log)
    found, keeps_values = {}, False
    for name, each in (
        ("session.log", path),
        ("session.log.1", Path(f"{path}.1")),
    ):
        if each != path and not each.is_file():
            continue
        try:
            head, text = read_head(each) if each.is_file() else None, ""
            if head is not None:
                with open_regular(each) as file:
                    text = file.read(2 * MAX_BYTES).decode("utf-8", "replace")
        except OSError as error:
            raise CommandError(f"report-bug: {each} cannot be read: {reason(error)}") from None
        if head is None:
            if each != path:
                continue
            why = "no log that --log has written" if each.exists() else "not there"
            raise CommandError(f"report-bug: {each} is {why}")
        # Logs of earlier releases can contain C1 control characters.
        found[name] = harmless_json(text)
        keeps_values |= head.get("keeps_values") is not False
    return found, keeps_values


def _versions() -> str:
    lines = [
        f"pgdb {__version__}",
        f"python {sys.version}",
        f"system {platform.platform()}",
        *(_release(Path("/etc/os-release"))),
        f"processors {os.cpu_count()}",
    ]
    for name in _PACKAGES:
        try:
            lines.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{name} is not installed")
    for tool in _TOOLS:
        path = shutil.which(tool)
        lines += [f"{tool}: {path or 'not in PATH'}"]
        if path is not None:
            lines += [f"    {line}" for line in _ask_version(path)]
    return "\n".join(lines) + "\n"


def _release(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.startswith("PRETTY_NAME=")]


def _ask_version(path: str) -> list[str]:
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TOOL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"--version fails: {error}"]
    said = (done.stdout or done.stderr).decode("utf-8", "replace").splitlines()
    return [line for line in said if line.strip()][:3]


async def _doctor() -> str:
    directory = SessionDirectory()
    try:
        site = await open_site(SessionOptions(), directory)
        try:
            text, _ = await site.examine(as_json=False, gdb=SessionOptions().gdb)
        finally:
            await site.close()
    finally:
        directory.remove()
    return text


def _pack(files: Mapping[str, str], folder: str) -> bytes:
    """Return an archive that identifies its author only by the texts inside."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", filename="") as compressed:
        with tarfile.open(fileobj=compressed, mode="w") as archive:
            for name, text in files.items():
                data = text.encode("utf-8", "replace")
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size, member.mtime, member.mode = len(data), int(time.time()), 0o600
                archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()
