"""Views of a rank's files hold the cached files, and lead to the real ones for all others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgdb.backend.sbd import file_views
from pgdb.backend.sbd.file_views import Placed, Views
from tests.support.elves import write_elf

# Each test starts processes of its own.
pytestmark = pytest.mark.slow

ID = "ab" * 20


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


@pytest.fixture
def opt(tmp_path: Path) -> Path:
    """A directory of libraries, one of them known by a link."""
    opt = tmp_path / "opt"
    write_elf(opt / "lib/libx.so.1.2", ID)
    (opt / "lib/libx.so.1").symlink_to("libx.so.1.2")
    write_elf(opt / "lib/liblater.so", "cd" * 20)
    (opt / "lib/notes.txt").touch()
    (opt / "lib/libx.so.1.2-gdb.py").touch()
    (opt / "lib64").symlink_to("lib")
    (opt / "share").mkdir()
    (opt / "bin").mkdir()
    return opt


def test_a_cached_file_stands_under_all_its_names(cache: Path, opt: Path) -> None:
    file = write_elf(cache / "copy", ID)
    names = (f"{opt}/lib/libx.so.1", f"{opt}/lib64/libx.so.1", f"{opt}/bin/../lib/libx.so.1")
    views = Views(cache)
    view, _ = views.make([Placed(f"{opt}/lib/libx.so.1.2", names, file)], "")
    for name in (f"{opt}/lib/libx.so.1.2", *names):
        assert os.path.samefile(f"{view}/root{name}", file), name
        # The view's own name is followed by the kernel's name for the file.
        assert os.path.realpath(f"{view}/root{name}") == f"{view}/root{opt}/lib/libx.so.1.2"
    file.unlink()
    assert Path(f"{view}/root{names[0]}").read_bytes(), "the view holds it"
    views.close()


def test_all_else_is_as_it_is(cache: Path, opt: Path) -> None:
    views = Views(cache)
    file = write_elf(cache / "copy", ID)
    view, _ = views.make([Placed(f"{opt}/lib/libx.so.1.2", (), file)], "")
    for name in ("lib/liblater.so", "share", "lib/libx.so.1.2-gdb.py", "lib/notes.txt"):
        assert os.path.samefile(f"{view}/root{opt}/{name}", opt / name)
    assert os.path.samefile(view / "root" / "usr", "/usr")
    views.close()


def test_of_very_many_files_libraries_come_first(
    cache: Path, opt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (opt / f"lib/{number:02}.dat").touch()
    monkeypatch.setattr(file_views, "MOST_ENTRIES", 6)
    views = Views(cache)
    view, _ = views.make([Placed(f"{opt}/lib/libx.so.1.2", (), None)], "")
    assert os.path.samefile(f"{view}/root{opt}/lib/liblater.so", opt / "lib/liblater.so")
    assert 4 <= len(os.listdir(f"{view}/root{opt}/lib")) <= 7
    views.close()


def test_what_is_not_in_the_cache_leads_to_the_real_file(cache: Path, opt: Path) -> None:
    views = Views(cache)
    path = f"{opt}/lib/libx.so.1.2"
    view, _ = views.make([Placed(path, (), None)], "")
    assert os.path.samefile(f"{view}/root{path}", path)
    views.close()


def test_what_has_gone_from_the_cache_since_is_reported_and_leads_to_the_real_file(
    cache: Path, opt: Path
) -> None:
    views = Views(cache)
    here, gone = f"{opt}/lib/liblater.so", f"{opt}/lib/libx.so.1.2"
    copy = write_elf(cache / "copy", "cd" * 20)
    debug = cache / "debug"
    objects = [
        Placed(gone, (), cache / "removed", ID, debug),
        Placed(here, (), copy),
        Placed(f"{opt}/lib/none.so", (), None),
    ]
    view, missing = views.make(objects, "")
    assert missing == {gone}
    assert os.path.samefile(f"{view}/root{gone}", gone)
    assert os.path.samefile(f"{view}/root{here}", copy)
    views.close()


def test_a_file_that_has_gone_can_be_viewed(cache: Path, opt: Path) -> None:
    views = Views(cache)
    file = write_elf(cache / "copy", ID)
    view, _ = views.make([Placed("/no/such/lib.so.1", ("/no/such/lib.so",), file)], "")
    assert os.path.samefile(view / "root" / "no" / "such" / "lib.so", file)
    views.close()


def test_debug_files_and_scripts_have_the_places_that_gdb_knows(cache: Path, opt: Path) -> None:
    views = Views(cache)
    debug = write_elf(cache / "copy.debug", ID)
    placed = Placed(f"{opt}/lib/libx.so.1.2", (), debug, ID, debug)
    view, _ = views.make([placed], str(opt / "share"))
    assert os.path.samefile(view / "debug/.build-id" / ID[:2] / f"{ID[2:]}.debug", debug)
    assert os.path.samefile(f"{view}/auto-load{view}/root", opt / "share")
    views.close()


def test_views_go_with_their_process_or_with_the_next_one(cache: Path) -> None:
    killed = Views(cache)
    killed.make([], "")
    lives = Views(cache)
    kept, _ = lives.make([], "")
    # The kernel does this at the end of a process.
    os.close(killed._lock)
    last = Views(cache)
    assert kept.is_dir()
    assert len(list((cache / "views").iterdir())) == 2
    lives.close()
    last.close()
    assert not list((cache / "views").iterdir())
