"""The cache of files: finding, refusing, resuming and removing."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgdb.files import file_cache
from pgdb.files.file_cache import DamagedError, FileCache, Version, is_key
from pgdb.overlay.messages import FileKey
from tests.support.elves import elf

ID = "ab" * 20
OTHER = "cd" * 20
KEY = FileKey(build_id=ID)
BODY = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    # The result must not depend on how full the machine's disk is.
    monkeypatch.setattr(file_cache, "LEAST_FREE_SHARE", 0.0)


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "cache")


def put(cache: FileCache, key: FileKey, data: bytes, mtime_ns: int = 7) -> Path:
    partial = cache.begin(key, Version(len(data), mtime_ns))
    partial.append(data)
    return partial.finish()


def test_a_file_is_found_by_build_id_kind_and_version(cache: FileCache) -> None:
    data = elf(ID, BODY)
    path = put(cache, KEY, data)
    assert path == cache.directory / ".build-id" / ID[:2] / ID[2:]
    assert path.read_bytes() == data
    assert cache.find(KEY) == path == cache.find(KEY, Version(len(data), 7))
    assert cache.find(KEY, Version(len(data), 8)) is None
    debug = FileKey(build_id=ID, kind="debug")
    assert cache.find(debug) is None
    assert put(cache, debug, data).name == f"{ID[2:]}.debug"


def test_nobody_else_can_look_into_it(cache: FileCache) -> None:
    path = put(cache, KEY, elf(ID))
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_build_id_is_refused_and_thrown_away(cache: FileCache) -> None:
    data = elf(OTHER, BODY)
    partial = cache.begin(KEY, Version(len(data), 7))
    partial.append(data)
    with pytest.raises(DamagedError, match=f"its build-id is not {ID}"):
        partial.finish()
    assert partial.size_bytes == 0
    partial.close()
    assert cache.find(KEY) is None


def test_another_digest_or_length_is_refused(cache: FileCache) -> None:
    data = elf(ID, BODY)
    for digest, size_bytes, why in ((b"x", len(data), "damaged"), (b"", len(data) + 1, "bytes")):
        partial = cache.begin(KEY, Version(size_bytes, 7))
        partial.append(data)
        with pytest.raises(DamagedError, match=why):
            partial.finish(digest)
        partial.abandon()
    assert cache.find(KEY) is None


def test_what_was_put_there_with_another_build_id_is_not_used(cache: FileCache) -> None:
    path = put(cache, KEY, elf(ID))
    path.write_bytes(elf(OTHER))
    assert cache.find(KEY) is None
    assert not path.exists()


def test_a_link_is_not_followed(cache: FileCache, tmp_path: Path) -> None:
    path = put(cache, KEY, elf(ID))
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert cache.find(KEY) is None
    part = cache.begin(KEY, Version(4, 1))
    part.close()
    (name,) = path.parent.glob("*.part")
    name.unlink()
    name.symlink_to(elsewhere)
    with pytest.raises(OSError) as error:
        cache.begin(KEY, Version(4, 1))
    assert error.value.errno == errno.ELOOP


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_a_directory_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    with pytest.raises(PermissionError, match=rf"open to others \(mode {mode:04o}, not 0700\)"):
        FileCache(tmp_path / "cache")


@pytest.mark.parametrize("name", ["file", "file/cache", "file/deep/cache"])
def test_a_file_in_its_place_or_above_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        FileCache(tmp_path / name)


@pytest.mark.parametrize(
    ("flags", "number"), [(os.ST_RDONLY, errno.EROFS), (0, errno.EACCES)], ids=["mount", "mode"]
)
def test_a_place_that_may_not_be_written_to_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, number: int
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))
    with pytest.raises(OSError) as error:
        FileCache(tmp_path / "cache")
    assert (error.value.errno, error.value.filename) == (number, str(tmp_path / "cache"))


def test_another_users_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(0o700)
    uid = os.geteuid()
    monkeypatch.setattr(file_cache, "is_safe_place", lambda _: True)
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        FileCache(tmp_path / "cache")


def test_a_place_where_others_could_put_another_one_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "scratch"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(PermissionError, match="others could put another directory"):
        FileCache(shared / "cache")
    assert not (shared / "cache").exists()
    shared.chmod(0o1777)
    FileCache(shared / "cache")


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError):
        FileCache(tmp_path / "cache")


@given(st.lists(st.integers(1, 4000), max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_transfer_goes_on_where_it_was_interrupted(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[int]
) -> None:
    cache = FileCache(tmp_path_factory.mktemp("any") / "cache")
    data = elf(ID, BODY)
    version = Version(len(data), 7)
    at = 0
    for piece in pieces:
        partial = cache.begin(KEY, version)
        assert partial.size_bytes == partial.resumed_bytes == at
        part = data[at : at + piece]
        partial.append(part)
        assert partial.read(0, len(data)) == data[: at + len(part)]
        at += len(part)
        partial.close()
    partial = cache.begin(KEY, version)
    partial.append(data[at:])
    assert partial.finish(partial.digest()).read_bytes() == data


def test_another_version_begins_anew(cache: FileCache) -> None:
    partial = cache.begin(KEY, Version(1000, 7))
    partial.append(b"x" * 10)
    partial.close()
    assert cache.begin(KEY, Version(1000, 8)).resumed_bytes == 0


def test_two_writers_do_not_meet(cache: FileCache, tmp_path: Path) -> None:
    data = elf(ID, BODY)
    version = Version(len(data), 7)
    one, other = cache.begin(KEY, version), FileCache(tmp_path / "cache").begin(KEY, version)
    one.append(data[:100])
    other.append(data)
    assert other.finish().read_bytes() == data
    one.append(data[100:])
    assert one.finish().read_bytes() == data


def test_a_closed_one_writes_into_no_other_file(cache: FileCache) -> None:
    partial = cache.begin(KEY, Version(10, 7))
    partial.close()
    with pytest.raises(OSError):
        partial.append(b"x")


def test_the_old_and_then_the_longest_unused_are_removed(tmp_path: Path) -> None:
    size_bytes = len(elf(ID, BODY))
    keys = [FileKey(build_id=f"{number:02x}" * 20) for number in range(5)]
    filling = FileCache(tmp_path / "cache")
    for number, key in enumerate(keys):
        path = put(filling, key, elf(key.build_id, BODY))
        os.utime(path, ns=(number * 10**9, 7))
    cache = FileCache(tmp_path / "cache", max_bytes=3 * size_bytes, max_age_s=100.0)
    cache.clean(now_s=100.5)

    def there() -> list[int]:
        return [number for number, key in enumerate(keys) if cache.path(key).exists()]

    assert there() == [2, 3, 4]
    cache.find(keys[2])
    cache.clean(now_s=100.5, room_bytes=size_bytes)
    assert there() == [2, 4]
    cache.clean(now_s=1e6)
    assert there() == [2], "what was used in this session stays"


def test_more_than_it_may_hold_is_refused(tmp_path: Path) -> None:
    data = elf(ID, BODY)
    cache = FileCache(tmp_path / "cache", max_bytes=len(data))
    put(cache, KEY, data)
    with pytest.raises(OSError) as error:
        cache.begin(FileKey(build_id=OTHER), Version(1, 1))
    assert error.value.errno == errno.EDQUOT
    assert "--sbd-cache-size" in str(error.value) and str(tmp_path) in str(error.value)


def test_the_rest_of_the_disk_is_left_to_others(
    cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_cache, "LEAST_FREE_SHARE", 1.0)
    with pytest.raises(OSError) as error:
        cache.begin(KEY, Version(10, 1))
    assert error.value.errno == errno.ENOSPC


@pytest.mark.parametrize("build_id", ["", "ab", "../../x", "AB" * 20, "ab" * 20 + "\n", "a" * 200])
def test_what_is_no_build_id_names_no_file(build_id: str) -> None:
    assert not is_key(FileKey(build_id=build_id))
    assert is_key(KEY)
