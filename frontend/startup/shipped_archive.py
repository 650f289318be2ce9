"""The archive of PGDB for one kind of host: our package, and the distributions that it needs.

The package is the one imported here. If our distributions do not run on the host, pip fetches their
wheels. Equal content gives an equal archive, so both sides cache it by its digest.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import importlib.util
import io
import json
import logging
import os
import re
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from pgdb.errors import StartError
from pgdb.frontend.system.subprocesses import Program
from pgdb.overlay import archive_bootstrap
from pgdb.patterns import pattern

LOG = logging.getLogger(__name__)

DISTRIBUTIONS = ("mpi4py", "msgspec", "numpy", "pyroaring")
"""Imports of the aggregators besides the standard library; none of these requires others."""
PACKAGES = ("pgdb", "pgdb.frontend", "pgdb.backend")
"""Our packages, whose folders need not contain each other (see package_dir in setup.cfg)."""
PIP_TIMEOUT_S = 240.0
KEPT_ARCHIVE_COUNT = 5

_TIME_S = 315532800  # 1980-01-01: the oldest that every archive format can say
_OLD_PLATFORMS = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_PLATFORM = pattern(r"(manylinux|musllinux)_(\d+)_(\d+)_(\w+)\Z")
_PYTHON_TAG = pattern(r"cp3(\d+)(t?)\Z")


class Tags(msgspec.Struct, frozen=True):
    """Properties of an interpreter that decide which extension modules it can load."""

    python: str
    """Python and ABI as in a wheel's name: ``cp311``, ``cp313t``."""
    machine: str
    """Machine as uname(1) prints it, such as ``x86_64``."""
    libc: str
    """C library: ``glibc 2.36``, or ``musl``."""

    @classmethod
    def parse(cls, identity: object) -> Tags:
        """Parse a host's description of itself.

        :raises StartError: if it is malformed, or PGDB does not support that Python.
        """
        words = ("python", "machine", "libc")
        if not isinstance(identity, Mapping) or not all(
            isinstance(identity.get(w), str) for w in words
        ):
            raise StartError(f"a host sent an unknown request for PGDB: {identity!r:.80}")
        tags = cls(*(str(identity[word]) for word in words))
        if not _PYTHON_TAG.match(tags.python) or not re.fullmatch(r"\w+", tags.machine):
            raise StartError(
                f"the Python there is {tags.python} on {tags.machine}, for which PGDB is not "
                "made; name a CPython from 3.11 on with --remote-python"
            )
        return tags

    @classmethod
    def here(cls) -> Tags:
        """Return the tags of our own interpreter."""
        return cls.parse(archive_bootstrap.identity())

    @property
    def glibc(self) -> tuple[int, int] | None:
        """Version of glibc, None for musl."""
        match = re.match(r"glibc (\d+)\.(\d+)", self.libc)
        return (int(match[1]), int(match[2])) if match else None

    def platforms(self) -> list[str]:
        """Return the platforms of the wheels that run there, in pip's words."""
        if self.glibc is None:
            return [f"musllinux_1_{minor}_{self.machine}" for minor in (2, 1)]
        newest = range(self.glibc[1], 4, -1)
        old = [f"{name}_{self.machine}" for name in reversed(_OLD_PLATFORMS)]
        return [f"manylinux_2_{minor}_{self.machine}" for minor in newest] + old


class Archive(msgspec.Struct, frozen=True):
    """PGDB and its requirements, packed for one kind of host."""

    data: bytes
    """A compressed tar file."""
    digest: str
    """SHA-256 of *data*, in hexadecimal."""


async def archive_for(tags: Tags) -> Archive:
    """Return the archive for hosts of *tags*.

    :raises StartError: if a distribution is neither installed here for *tags* nor available.
    """
    try:
        return await _make_archive(tags, Path(archive_bootstrap.cache_directory()))
    except OSError as error:
        raise StartError(f"cannot pack PGDB for shipping: {error}") from None


async def _make_archive(tags: Tags, cache: Path) -> Archive:
    files: dict[str, bytes] = await asyncio.to_thread(_own_files)
    wanted = []
    for name in DISTRIBUTIONS:
        found = await asyncio.to_thread(_installed_files, name, tags)
        if found is None:
            wanted.append(name)
        else:
            files.update(found)
    for wheel in await _wheels(wanted, tags, cache / "wheels"):
        files.update(await asyncio.to_thread(_wheel_files, wheel))
    return await asyncio.to_thread(_pack, files, cache)


def _own_files() -> dict[str, bytes]:
    """Return the files of the PGDB imported here, by their paths in an installation."""
    files = {}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise StartError(f"{package} has no folder, so it cannot be shipped; install PGDB anew")
        folder = Path(spec.submodule_search_locations[0])
        for directory, folders, names in os.walk(folder):  # the links in pgdb/ are not followed
            folders[:] = [each for each in folders if each[0] not in "._"]
            for name in names:
                path = Path(directory, name)
                if path.suffix != ".pyc":
                    inside = Path(*package.split("."), path.relative_to(folder))
                    files[inside.as_posix()] = path.read_bytes()
    return files


def _installed_files(name: str, tags: Tags) -> dict[str, bytes] | None:
    """Return the files of an installed distribution, None if they do not run on *tags*."""
    # This imports half of the standard library, and few sessions ship anything.
    from importlib import metadata

    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    files = {}
    for path in distribution.files or ():
        # Scripts lie outside, compiled files are made there, and tests are half of NumPy's files.
        if {"..", "tests", "__pycache__"}.isdisjoint(path.parts) and path.suffix != ".pyc":
            with contextlib.suppress(FileNotFoundError):
                files[path.as_posix()] = Path(str(path.locate())).read_bytes()
    modules = [
        path for path in files if ".dist-info/" not in path and path.endswith((".py", ".so"))
    ]
    if not modules:
        return None  # installed as a link to sources, or by another packager
    is_pure = not any(path.endswith(".so") for path in files)
    wheel = distribution.read_text("WHEEL") or ""
    return files if is_pure or _runs_there(wheel, tags) else None


def _runs_there(wheel: str, tags: Tags) -> bool:
    """Return whether our extension modules, of a wheel with that WHEEL text, run there."""
    here = Tags.here()
    if (tags.python, tags.machine) != (here.python, here.machine):
        return False
    if (tags.glibc is None) != (here.glibc is None):
        return False
    if tags.glibc is None or here.glibc is None or tags.glibc >= here.glibc:
        return True
    for platform in re.findall(r"^Tag: .*-([\w.]+)$", wheel, re.MULTILINE):
        oldest = _OLD_PLATFORMS.get(platform.partition("_")[0])
        if match := _PLATFORM.match(platform):
            oldest = (int(match[2]), int(match[3]))
        if oldest is not None and oldest <= tags.glibc:
            return True
    return False


async def _wheels(names: Sequence[str], tags: Tags, directory: Path) -> list[Path]:
    """Return wheels of distributions for *tags*, from *directory* or fetched with pip."""
    if not names:
        return []
    kept = directory / f"{tags.python}-{tags.machine}-{tags.libc.replace(' ', '-')}"
    await asyncio.to_thread(kept.mkdir, parents=True, exist_ok=True)
    wheels = []
    for name in names:
        version = _version(name)
        pattern = f"{name}-{version}-*.whl"
        if not (found := sorted(kept.glob(pattern))):
            await _fetch(f"{name}=={version}", tags, kept)
            found = sorted(kept.glob(pattern))
        if not found:
            raise StartError(f"pip fetched no {pattern}; {_WAYS_OUT}")
        wheels.append(found[0])
    return wheels


_WAYS_OUT = (
    "install PGDB on that host (pip install pgdb-mpi), or name a Python there of "
    f"{sys.version_info[0]}.{sys.version_info[1]} with --remote-python"
)


def _version(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        raise StartError(f"{name} is not installed here; pip install pgdb-mpi brings it") from None


async def _fetch(requirement: str, tags: Tags, directory: Path) -> None:
    """Download one wheel for *tags* into *directory*, where it appears complete."""
    match = _PYTHON_TAG.match(tags.python)
    assert match is not None
    with tempfile.TemporaryDirectory(prefix=".new-", dir=directory) as fresh:
        line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        line += ["--disable-pip-version-check", "--no-input", "--only-binary=:all:"]
        line += ["--implementation", "cp", "--python-version", f"3.{match[1]}", "--dest", fresh]
        for abi in (tags.python, "none") if match[2] else (tags.python, "abi3", "none"):
            line += ["--abi", abi]
        for platform in tags.platforms():
            line += ["--platform", platform]
        status, said = await _run(*line, requirement)
        if status:
            errors = [each for each in said.splitlines() if each.startswith("ERROR")] or [said]
            raise StartError(
                f"pip cannot fetch {requirement} for {tags.python} on {tags.machine}, {tags.libc}: "
                f"{errors[-1].removeprefix('ERROR: ').strip()[:200]}; {_WAYS_OUT}"
            )
        for wheel in Path(fresh).glob("*.whl"):
            wheel.rename(directory / wheel.name)


async def _run(*line: str) -> tuple[int, str]:
    """Run a program to its end; return its status and its output."""
    process = await Program.start(
        *line,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(PIP_TIMEOUT_S):
            said, _ = await process.communicate()
        return process.returncode or 0, said.decode("utf-8", "replace")
    except TimeoutError:
        return 1, f"no end within {PIP_TIMEOUT_S:g} s; is there a network?"
    finally:
        await process.end()


def _wheel_files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        return {name: archive.read(name) for name in names}


def _pack(files: Mapping[str, bytes], cache: Path) -> Archive:
    """Pack *files*, or read the archive of equal files from *cache*."""
    manifest = json.dumps({path: len(files[path]) for path in sorted(files)}).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, data in [(archive_bootstrap.MANIFEST, manifest), *sorted(files.items())]:
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.mode = len(data), _TIME_S, 0o644
            tar.addfile(member, io.BytesIO(data))
    key = hashlib.sha256(packed.getbuffer()).hexdigest()
    kept = cache / "archives" / f"{key}.tar.gz"
    try:
        data = kept.read_bytes()
        os.utime(kept)
    except OSError:
        # Level 9 takes a second for 5 % less; level 6 is gzip(1)'s default.
        data = gzip.compress(packed.getbuffer(), compresslevel=6, mtime=0)
        _keep(kept, data)
    return Archive(data=data, digest=hashlib.sha256(data).hexdigest())


def _keep(path: Path, data: bytes) -> None:
    """Write *path* so that no reader sees a part of it, and remove the oldest files beside it."""
    try:
        path.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
        kept = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime)
        for old in kept[:-KEPT_ARCHIVE_COUNT]:
            old.unlink()
    except OSError as error:
        # The next session packs it again. Another session may remove the same files at the same
        # time.
        LOG.info("an archive is not kept: %s", error)
