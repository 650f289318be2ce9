"""The library of the recorder of MPI calls, built once for each MPI with the user's compiler."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

from pgdb.errors import StartError
from pgdb.frontend.mpi_recorder.source import generate, prototypes
from pgdb.frontend.system.subprocesses import Program
from pgdb.mpi_recorder.layout import LIBRARY
from pgdb.overlay.archive_bootstrap import cache_directory

_BUILD_S = 300.0
"""Longest time for one run of the compiler, in seconds."""
_DIRECTORY = "mpi-recorder"
_MOST_WORDS = 300
_LAUNCHER = re.compile(r"(?:mpirun|mpiexec(?:\.hydra)?|orterun|prterun|prun)(\.\w+)?\Z")
FLAGS = ("-O2", "-fno-plt", "-shared", "-fPIC", "-fvisibility=default", "-w")


def compiler_of(launcher: str, compiler: str = "") -> str:
    """Return the path of the MPI compiler to use: *compiler*, or the one beside a launcher.

    *launcher* is the name or path of mpirun or mpiexec; of others, such as srun, and without one,
    the compiler is ``mpicc`` of PATH.

    :raises StartError: if there is none.
    """
    if compiler:
        found = shutil.which(compiler)
        if found is None:
            raise StartError(f"--mpicc {compiler}: there is no such program")
        return found
    name = re.sub(r".*/", "", launcher)
    match = _LAUNCHER.match(name)
    path = shutil.which(launcher) if match else None
    if match and path:
        beside = Path(path).with_name(f"mpicc{match[1] or ''}")
        if os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which("mpicc")
    if found is None:
        raise StartError(
            "the recorder of MPI calls is built with the MPI's own compiler, and there is no mpicc "
            "beside the launcher or in PATH; load the MPI's module, or name it with --mpicc"
        )
    return found


async def build_recorder(launcher: str, compiler: str, on_step: Callable[[str], None]) -> str:
    """Return the path of the library for a launcher's MPI; see :func:`compiler_of`.

    *on_step* receives a line for the user if the library has to be built.

    :raises StartError: if there is no compiler, or the library cannot be built.
    """
    found = await asyncio.to_thread(compiler_of, launcher, compiler)
    return str(await build(found, on_step))


async def environment(compiler: str, on_step: Callable[[str], None]) -> str:
    """Return the line of a shell that has MPI programs started from it recorded.

    :raises StartError: as :func:`build_recorder`.
    """
    library = await build_recorder("", compiler, on_step)
    return f"export LD_PRELOAD={shlex.quote(library)}${{LD_PRELOAD:+:$LD_PRELOAD}}"


async def build(compiler: str, on_step: Callable[[str], None] = lambda step: None) -> Path:
    """Return the library for the MPI of *compiler*; build it unless the cache has it.

    :raises StartError: if it cannot be built.
    """
    header = await _run(compiler, "-E", "-P", "-x", "c", "-", stdin=b"#include <mpi.h>\n")
    found = prototypes(header.decode("utf-8", "replace"))
    if "MPI_Send" not in found:
        raise StartError(f"{compiler}: its mpi.h declares no MPI_Send")
    source = generate(found)
    # The line of the compiler has the paths of the MPI that the library is linked with.
    line = await _run(compiler, "-show", stdin=b"")
    key = hashlib.blake2b(digest_size=12)
    for part in (source.encode(), os.path.realpath(compiler).encode(), line):
        key.update(part + b"\0")
    try:
        place = Path(cache_directory()) / _DIRECTORY / key.hexdigest()
        library = place / LIBRARY
        if library.exists():
            return library
        await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
        on_step(f"note: the recorder of MPI calls is built with {compiler}, once for this MPI")
        # Another session may build the same one: each writes files of its own.
        own = f"{os.getpid()}-{os.urandom(4).hex()}"
        made, text = place / f"{own}.so", place / f"{own}.c"
        try:
            await asyncio.to_thread(text.write_text, source)
            await _run(compiler, *FLAGS, "-o", str(made), str(text), "-ldl", "-lpthread")
            await asyncio.to_thread(_put, made, library)
        finally:
            for each in (made, text):
                each.unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"the recorder of MPI calls cannot be kept: {error}") from None
    return library


def _put(made: Path, library: Path) -> None:
    """Give a library its name, unless another session has built it meanwhile: that is in use."""
    try:
        os.link(made, library)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        made.replace(library)


async def _run(*argv: str, stdin: bytes = b"") -> bytes:
    """Run the compiler; return its output.

    :raises StartError: if it fails, or takes too long.
    """
    shown = shlex.join(argv[:2])
    try:
        program = await Program.start(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise StartError(f"{argv[0]}: {error.strerror}") from None
    try:
        async with asyncio.timeout(_BUILD_S):
            output, errors = await program.communicate(stdin)
    except TimeoutError:
        raise StartError(f"{shown} has not ended after {_BUILD_S:g} s") from None
    finally:
        await program.end()
    if program.returncode:
        words = " ".join(errors.decode("utf-8", "replace").split())[:_MOST_WORDS]
        raise StartError(f"the recorder of MPI calls cannot be built: {shown} failed: {words}")
    return output
