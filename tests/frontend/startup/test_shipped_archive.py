"""The archive that is shipped: its content, its wheels, and the hosts that it cannot serve."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import StartError
from pgdb.frontend.startup import shipped_archive, shipping
from pgdb.frontend.startup.shipped_archive import Archive, Tags
from pgdb.overlay import archive_bootstrap
from tests.fakes.archives import HERE, packed


def members(archive: Archive) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive.data)) as tar:
        return {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]


@pytest.mark.slow
def test_the_archive_is_made_of_what_runs_here() -> None:
    archive = asyncio.run(shipped_archive.archive_for(HERE))
    assert hashlib.sha256(archive.data).hexdigest() == archive.digest
    files = members(archive)
    root = Path(shipping.__file__).resolve().parent.parent.parent
    for path, folder in (("pgdb/ranks.py", "pgdb"), ("pgdb/backend/node/leaf.py", "backend/node")):
        assert files[path] == (root / folder / Path(path).name).read_bytes()
    assert {"pgdb/frontend/startup/doctor.py", "pgdb/frontend/startup/remote.py"} <= files.keys()
    assert "mpi4py/__init__.py" in files
    assert [path for path in files if path.startswith("pyroaring") and path.endswith(".so")]
    assert not [path for path in files if path.endswith(".pyc") or path.startswith("/")]
    manifest = json.loads(files.pop(archive_bootstrap.MANIFEST))
    assert manifest == {path: len(data) for path, data in files.items()}


def test_equal_content_gives_an_equal_archive(tmp_path: Path) -> None:
    files = {"b": b"2", "a": b"1"}
    first = packed(files, tmp_path)
    again = packed(dict(reversed(files.items())), tmp_path)
    assert (first.digest, first.data) == (again.digest, again.data)
    assert packed(files | {"b": b"3"}, tmp_path).digest != first.digest
    kept = list((tmp_path / "archives").iterdir())
    assert len(kept) == 2
    assert first.data in [path.read_bytes() for path in kept]


def test_an_archive_that_cannot_be_kept_is_still_shipped(tmp_path: Path) -> None:
    (tmp_path / "archives").write_text("in the way")
    assert members(packed({"a": b"1"}, tmp_path))["a"] == b"1"


def test_archives_are_bounded(tmp_path: Path) -> None:
    for number in range(shipped_archive.KEPT_ARCHIVE_COUNT + 2):
        packed({"a": b"%d" % number}, tmp_path)
    assert len(list((tmp_path / "archives").iterdir())) == shipped_archive.KEPT_ARCHIVE_COUNT


OTHER = Tags("cp399", "x86_64", "glibc 2.28")


def fake_pip(status: int, said: str, lines: list[tuple[str, ...]]) -> Any:
    """Return a stand-in for pip, which makes wheels with one module each."""

    async def run(*line: str) -> tuple[int, str]:
        lines.append(line)
        name, _, version = line[-1].partition("==")
        if not status:
            directory = Path(line[line.index("--dest") + 1])
            wheel = directory / f"{name}-{version}-cp399-cp399-manylinux_2_17_x86_64.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(f"{name}/__init__.py", "of the wheel")
        return status, said

    return run


@pytest.mark.slow
def test_wheels_are_fetched_for_another_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # A distribution without compiled modules beside the real ones.
    monkeypatch.setattr(
        shipped_archive, "DISTRIBUTIONS", (*shipped_archive.DISTRIBUTIONS, "pygdbmi")
    )
    lines: list[tuple[str, ...]] = []
    monkeypatch.setattr(shipped_archive, "_run", fake_pip(0, "", lines))
    files = members(asyncio.run(shipped_archive.archive_for(OTHER)))
    assert files["mpi4py/__init__.py"] == b"of the wheel"
    assert files["pygdbmi/__init__.py"] != b"of the wheel", "it is the same for every Python"
    assert not [path for path in files if ".cpython-" in path]
    asked = {line[-1].partition("==")[0] for line in lines}
    assert asked == {"mpi4py", "msgspec", "numpy", "pyroaring"}
    for words in (
        ("--python-version", "3.99"),
        ("--abi", "abi3"),
        ("--platform", "manylinux_2_28_x86_64"),
        ("--platform", "manylinux2014_x86_64"),
    ):
        assert words in list(zip(lines[0], lines[0][1:], strict=False))
    assert "manylinux_2_29_x86_64" not in lines[0]
    asyncio.run(shipped_archive.archive_for(OTHER))
    assert len(lines) == 4, "what was fetched is kept"


@pytest.mark.parametrize(
    "said",
    [
        "WARNING: Retrying\nERROR: No matching distribution found for mpi4py==4.1.2",
        f"{sys.executable}: No module named pip",
    ],
)
def test_wheels_that_are_not_to_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shipped_archive, "_run", fake_pip(1, said, []))
    with pytest.raises(StartError) as caught:
        asyncio.run(shipped_archive.archive_for(OTHER))
    text = str(caught.value)
    assert said.splitlines()[-1].removeprefix("ERROR: ") in text
    assert "--remote-python" in text and "\n" not in text


@pytest.mark.parametrize(
    ("platform", "libc", "runs"),
    [
        ("manylinux_2_17_x86_64", "glibc 2.17", True),
        ("manylinux_2_28_x86_64", "glibc 2.17", False),
        ("manylinux2014_x86_64", "glibc 2.17", True),
        ("manylinux2014_x86_64", "glibc 2.12", False),
        ("linux_x86_64", "glibc 2.17", False),
        ("linux_x86_64", "glibc 9.9", True),
        ("manylinux_2_17_x86_64", "musl", False),
    ],
)
def test_which_of_our_modules_run_elsewhere(
    monkeypatch: pytest.MonkeyPatch, platform: str, libc: str, runs: bool
) -> None:
    here = Tags("cp311", "x86_64", "glibc 2.36")
    monkeypatch.setattr(Tags, "here", classmethod(lambda cls: here))
    wheel = f"Wheel-Version: 1.0\nTag: cp311-cp311-{platform}\n"
    assert shipped_archive._runs_there(wheel, Tags("cp311", "x86_64", libc)) is runs
    assert not shipped_archive._runs_there(wheel, Tags("cp312", "x86_64", libc))
    assert not shipped_archive._runs_there(wheel, Tags("cp311", "aarch64", libc))


@pytest.mark.parametrize(
    "reported",
    [None, [], {}, {"python": 3}, {"python": "pypy311", "machine": "x86_64", "libc": "musl"}],
)
def test_hosts_that_we_cannot_serve(reported: object) -> None:
    with pytest.raises(StartError):
        Tags.parse(reported)
