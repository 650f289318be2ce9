"""``pgdb report-bug``: contents of the archive."""

from __future__ import annotations

import json
import re
import stat
import tarfile
from pathlib import Path

import pytest

from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.store.log import open_log
from pgdb.frontend.ui import bug_report
from pgdb.frontend.ui.main import main
from pgdb.version import __version__


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prepare a home directory, and skip the slow examination of the host."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("A_SECRET_TOKEN", "tok-0123456789")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    async def examined() -> str:
        return f"Python is fine ({home}/venv), tok-0123456789\n"

    monkeypatch.setattr(bug_report, "_doctor", examined)
    return home


def begin_log(path: Path, *, log_values: bool = False) -> None:
    options = SessionOptions(log=str(path), log_values=log_values)
    log = open_log(options, {}, on_failure=lambda text: None)
    assert log is not None
    log.step("found 4 ranks")
    log.close()


def unpack(path: Path) -> dict[str, str]:
    """Return the texts of an archive by name, after a check that no member has an owner."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
            assert member.isfile() and member.mode == 0o600
            file = archive.extractfile(member)
            assert file is not None
            folder, _, name = member.name.partition("/")
            assert path.name.startswith(folder)
            found[name] = file.read().decode("utf-8")
    return found


def test_it_packs_logs_and_versions_and_says_what(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin_log(tmp_path / "s.log")
    begin_log(tmp_path / "s.log")
    assert main(["report-bug", "s.log", "-o", "bug.tar.gz"]) == 0
    out = capsys.readouterr().out
    target = tmp_path / "bug.tar.gz"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    found = unpack(target)
    assert list(found) == [
        "README.txt", "versions.txt", "doctor.txt", "session.log", "session.log.1",
    ]  # fmt: skip
    for name in list(found)[1:]:
        assert f"  {name} " in out and f"  {name} " in found["README.txt"]
    assert "tar -xzf bug.tar.gz" in out and "Nothing was sent" in out
    assert f"pgdb {__version__}" in found["versions.txt"] and "gdb:" in found["versions.txt"]
    assert found["doctor.txt"] == "Python is fine (~/venv), …\n"
    assert "found 4 ranks" in found["session.log"]
    for text in found.values():
        assert str(home) not in text and "tok-0123456789" not in text
    assert "Values of your program" in found["README.txt"]
    assert "--log-values" not in out + found["README.txt"]


def test_nothing_in_it_drives_the_terminal_that_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "\x9b2J \u202egnp.c"
    begin_log(tmp_path / "s.log")
    # As written by releases that escaped only a part of their logs.
    with (tmp_path / "s.log").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"event": "step", "text": hostile}, ensure_ascii=False) + "\n")

    async def examined() -> str:
        return f"a host is named \x1b]0;title\x07{hostile}\n"

    monkeypatch.setattr(bug_report, "_doctor", examined)
    assert main(["report-bug", "s.log", "-o", "bug.tar.gz"]) == 0
    found = unpack(tmp_path / "bug.tar.gz")
    for name, text in found.items():
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text), name
    assert json.loads(found["session.log"].splitlines()[-1])["text"] == hostile
    assert r"\033]0;title\007\2332J" in found["doctor.txt"]


def test_values_in_the_log_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin_log(tmp_path / "s.log", log_values=True)
    assert main(["report-bug", "s.log", "-o", "bug.tar.gz"]) == 0
    assert "has values of your program" in capsys.readouterr().out
    assert "was written with --log-values" in unpack(tmp_path / "bug.tar.gz")["README.txt"]


def test_without_a_log_it_says_how_to_get_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report-bug"]) == 0
    out = capsys.readouterr().out
    assert "No log is in it" in out and "--log FILE" in out
    (target,) = tmp_path.glob("pgdb-report-*.tar.gz")
    assert list(unpack(target)) == ["README.txt", "versions.txt", "doctor.txt"]


def test_what_is_no_log_is_not_packed_and_no_file_is_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "id_ed25519").write_text("private\n")
    for name, why in (
        ("id_ed25519", "no log that --log has written"),
        ("none", "not there"),
        (".", "no log that --log has written"),
    ):
        assert main(["report-bug", name, "-o", "bug.tar.gz"]) == 3
        assert why in capsys.readouterr().err
    begin_log(tmp_path / "s.log")
    (tmp_path / "s.log.1").write_text("private\n")
    (tmp_path / "there.tar.gz").write_text("mine")
    assert main(["report-bug", "s.log", "-o", "bug.zip"]) == 2
    assert main(["report-bug", "s.log", "-o", "there.tar.gz"]) == 2
    assert (tmp_path / "there.tar.gz").read_text() == "mine"
    assert main(["report-bug", "s.log", "-o", "bug.tar.gz"]) == 0
    assert "session.log.1" not in unpack(tmp_path / "bug.tar.gz")
    assert main(["report-bug", "-o", "no/bug.tar.gz"]) == 3
    assert "No such file" in capsys.readouterr().err
