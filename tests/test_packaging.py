"""The installed package is that of the checkout, and Python imports our ``pgdb``.

Two other distributions bring a package ``pgdb``: PyGreSQL, and PyPI's own ``pgdb``.
"""

from __future__ import annotations

import configparser
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"pgdb": "pgdb", "pgdb.frontend": "frontend", "pgdb.backend": "backend"}
"""The folders with sources, by the package that each is."""


def option(section: str, name: str) -> list[str]:
    """Return the lines of one option of setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return [line for line in parser[section][name].split("\n") if line]


def modules_on_disk() -> set[str]:
    """Return the paths that the modules have in a wheel."""
    found = set()
    for package, folder in FOLDERS.items():
        for directory, folders, files in os.walk(ROOT / folder):  # does not follow links
            if "__pycache__" in folders:
                folders.remove("__pycache__")
            inside = Path(*package.split("."), Path(directory).relative_to(ROOT / folder))
            found |= {(inside / file).as_posix() for file in files if file.endswith(".py")}
    return found


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_packages_are_those_on_disk() -> None:
    on_disk = {Path(path).parent.as_posix().replace("/", ".") for path in modules_on_disk()}
    assert sorted(option("options", "packages")) == sorted(on_disk)


def test_every_package_has_an_init() -> None:
    files = modules_on_disk()
    folders = {Path(path).parent for path in files}
    assert not [folder for folder in folders if f"{folder.as_posix()}/__init__.py" not in files]


def test_folders_are_those_of_setup_cfg() -> None:
    lines = option("options", "package_dir")
    assert dict(line.replace(" ", "").split("=") for line in lines) == FOLDERS


@pytest.mark.parametrize("name", ["frontend", "backend"])
def test_links_lead_to_the_folders(name: str) -> None:
    link = ROOT / "pgdb" / name
    assert link.is_symlink(), f"{link} is no link; was the checkout copied with cp -rL?"
    assert os.readlink(link) == f"../{name}"
    assert link.resolve() == ROOT / name


def copy_of_checkout(target: Path, *, with_links: bool) -> Path:
    """Copy what a release would contain to *target*; without links as Git does it on Windows."""
    target.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, target)
    for folder in FOLDERS.values():
        shutil.copytree(
            ROOT / folder,
            target / folder,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache"),
        )
    if not with_links:
        for name in ("frontend", "backend"):
            link = target / "pgdb" / name
            text = os.readlink(link)
            link.unlink()
            link.write_text(text, encoding="ascii")
    return target


def can_build_here() -> bool:
    """Return whether this environment's setuptools makes wheels, so that nothing is fetched."""
    try:
        version = importlib.metadata.version("setuptools")
    except importlib.metadata.PackageNotFoundError:
        return False
    new_enough = tuple(int(part) for part in version.split(".")[:2]) >= (70, 1)
    return new_enough or importlib.util.find_spec("wheel") is not None


@pytest.mark.slow
@pytest.mark.parametrize("with_links", [True, False], ids=["links", "links lost"])
def test_wheel_has_every_module_in_its_place(tmp_path: Path, with_links: bool) -> None:
    checkout = copy_of_checkout(tmp_path / "checkout", with_links=with_links)
    isolation = ["--no-build-isolation"] if can_build_here() else []
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", *isolation, "-w", "dist", "."]
    built = run(*pip, cwd=checkout)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (checkout / "dist").glob("pgdb_mpi-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        scripts = metadata.replace("METADATA", "entry_points.txt")
        assert "pgdb = pgdb.__main__:run" in archive.read(scripts).decode()
        version = (ROOT / "pgdb" / "version.py").read_text(encoding="utf-8")
        stated = archive.read(metadata).decode().split("\nVersion: ")[1].split("\n")[0]
        assert f'"{stated}"' in version
    assert {name for name in names if name.endswith(".py")} == modules_on_disk()
    assert "pgdb/py.typed" in names
    forms = {path.name for path in (ROOT / "frontend/report/forms").glob("*.[jc]*")}
    assert len(forms) > 3
    assert {f"pgdb/frontend/report/forms/{name}" for name in forms} <= names
    assert {name.split("/")[0] for name in names} == {"pgdb", metadata.split("/")[0]}


def test_the_pgdb_under_test_is_this_checkout() -> None:
    for name, folder in (("pgdb.ranks", "pgdb"), ("pgdb.frontend", "frontend")):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        assert Path(spec.origin).resolve().is_relative_to(ROOT / folder), (
            f"{name} is {spec.origin}: another distribution has a package of that name "
            "(PyGreSQL, PyPI's pgdb); uninstall it from this environment"
        )


NOT_OURS = '"""Not ours."""\n__version__ = "6.2.3"\n'


@pytest.mark.parametrize("started", ["pgdb.backend", "pgdb.frontend.ui.main"])
@pytest.mark.parametrize("file", ["pgdb/__init__.py", "pgdb.py"])
def test_another_pgdb_ends_the_start_and_is_reported(
    tmp_path: Path, file: str, started: str
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(NOT_OURS, encoding="ascii")
    # -S: without an editable install, which would put its own parts into the other package.
    ended = run(sys.executable, "-P", "-S", "-m", started, cwd=ROOT, PYTHONPATH=os.fspath(tmp_path))
    assert ended.returncode != 0
    # Python's own words; the front end looks for them in what the launcher says.
    assert started.removesuffix(".main") in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("has_version", [True, False], ids=["overwritten", "mixed"])
@pytest.mark.parametrize("started", ["pgdb.backend", "pgdb.frontend.ui.main"])
def test_parts_of_ours_in_another_pgdb_are_reported(
    tmp_path: Path, started: str, has_version: bool
) -> None:
    """PyGreSQL installed over us leaves all but ``__init__``; beside an editable one, our parts."""
    package = tmp_path / "pgdb"
    package.mkdir()
    (package / "__init__.py").write_text(NOT_OURS, encoding="ascii")
    for name in ("frontend", "backend"):
        (package / name).symlink_to(ROOT / name)
    if has_version:
        (package / "version.py").symlink_to(ROOT / "pgdb" / "version.py")
    ended = run(sys.executable, "-P", "-m", started, cwd=ROOT, PYTHONPATH=os.fspath(tmp_path))
    assert ended.returncode != 0
    assert f"{package}/__init__.py is not PGDB" in ended.stderr.splitlines()[-1]


def test_safe_path_ignores_a_pgdb_in_the_users_folder(tmp_path: Path) -> None:
    """Aggregators are started with ``-P``, since ``-m`` puts the user's folder before all else."""
    (tmp_path / "pgdb.py").write_text("raise SystemExit('not ours')\n", encoding="ascii")
    program = "import pgdb.ranks; print(pgdb.ranks.__file__)"
    ended = run(sys.executable, "-P", "-c", program, cwd=tmp_path, PYTHONPATH=os.fspath(ROOT))
    assert ended.returncode == 0, ended.stderr
    assert Path(ended.stdout.strip()) == ROOT / "pgdb" / "ranks.py"


# -- the sdist -------------------------------------------------------------------------------------

NOT_PACKED = (".git", ".venv", ".mypy_cache", ".ruff_cache", ".hypothesis", ".pytest_cache")
PACKED = (".ci", "bench", "docs", "examples", "fuzz", "scripts", "tests", *FOLDERS.values())
"""Folders that the sdist holds whole."""
QUICK = ("tests/pgdb/test_ranks.py", "tests/frontend/analysis", "tests/test_packaging.py")
"""Tests that stand for all in the unpacked sdist."""


def files_below(root: Path) -> set[str]:
    """Return the paths of the files of a source tree that an sdist has to hold."""
    found = set()
    for name in PACKED:
        for directory, folders, files in os.walk(root / name):  # does not follow links
            folders[:] = [each for each in folders if not each.startswith(("__pycache__", "build"))]
            here = Path(directory).relative_to(root)
            found |= {(here / each).as_posix() for each in files if not each.endswith(".pyc")}
    return found


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that an sdist of this checkout makes."""
    folder = tmp_path_factory.mktemp("sdist")
    checkout = folder / "checkout"
    ignored = shutil.ignore_patterns(*NOT_PACKED, ".venv-*", "__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=ignored)
    program = "from setuptools import build_meta; build_meta.build_sdist('../dist')"
    built = run(sys.executable, "-c", program, cwd=checkout)
    assert built.returncode == 0, built.stdout + built.stderr
    (archive,) = (folder / "dist").glob("pgdb_mpi-*.tar.gz")
    with tarfile.open(archive) as packed:
        # Python 3.11.4 has the filter, 3.12 warns without it.
        safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        packed.extractall(folder / "unpacked", **safe)
    (root,) = (folder / "unpacked").iterdir()
    return root


@pytest.mark.slow
def test_the_sdist_is_whole_and_its_tests_pass(unpacked: Path) -> None:
    assert files_below(unpacked) == files_below(ROOT)
    wanted = {path.name for path in ROOT.iterdir() if path.is_file()} - {".git", ".coverage"}
    assert wanted <= {path.name for path in unpacked.iterdir()}
    # An archive has no links to folders; set-up makes them, as `make test` does first.
    linked = run("sh", "-c", ". scripts/setup.sh; setup_links", "scripts/x", cwd=unpacked)
    assert linked.returncode == 0, linked.stderr
    pytest_line = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow")
    ended = run(*pytest_line, *QUICK, cwd=unpacked)
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("text", [None, "../frontend"], ids=["no link", "a file"])
def test_a_checkout_without_links_is_reported_in_one_line(tmp_path: Path, text: str | None) -> None:
    for name in ("pgdb", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    link = tmp_path / "pgdb" / "frontend"
    link.unlink()
    if text is not None:
        link.write_text(text, encoding="ascii")
    # -S: an editable install would find the front end in the real checkout.
    ended = run(sys.executable, "-S", "-m", "pgdb", cwd=tmp_path)
    remedy = "rm -f pgdb/frontend pgdb/backend; ln -s ../frontend ../backend pgdb/"
    assert ended.returncode == 1
    assert ended.stderr == (
        "pgdb: this checkout has no symbolic link pgdb/frontend; in its folder run: "
        + remedy
        + "\n"
    )
    ended = run(sys.executable, "-m", "pytest", "-q", "tests/pgdb/test_ranks.py", cwd=tmp_path)
    assert ended.returncode == 4
    (line,) = [each for each in ended.stderr.splitlines() if "symbolic link" in each]
    assert line.endswith(remedy)


def test_set_up_reports_a_file_in_place_of_a_link(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "pgdb").mkdir()
    (tmp_path / ".git").touch()
    (tmp_path / "pgdb" / "frontend").write_text("../frontend", encoding="ascii")
    ended = run("sh", "-c", ". scripts/setup.sh; setup_links", "scripts/x", cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "pgdb: pgdb/frontend is a file in place of a symbolic link; run: "
        "git config core.symlinks true && git checkout -- pgdb"
    ]


def test_set_up_finds_the_python_behind_an_activated_environment(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for folder in (tmp_path / ".venv" / "bin", tmp_path / "other"):
        folder.mkdir(parents=True)
        (folder / "python3").symlink_to(sys.executable)
    path = f"{tmp_path}/.venv/bin:{tmp_path}/other:/usr/bin:/bin"
    script = "PATH=$1 PYTHON= && . scripts/setup.sh && find_python"
    ended = run("sh", "-c", script, "scripts/x", path, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{tmp_path}/other/python3\n", "")
