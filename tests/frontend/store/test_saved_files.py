"""Files of saved answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgdb.errors import CommandError
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.store import saved_files
from pgdb.merge.classes import Missing
from pgdb.records import (
    Failure,
)
from tests.support.answers import answer, ranks


def test_a_file_gives_back_the_answer(tmp_path: Path) -> None:
    said = answer(
        ("0-3", "(int *) 0x5555555592a0"),
        ("4", Failure(message="No symbol")),
        missing=Missing(running=ranks("5")),
    )
    path = tmp_path / "a.json"
    path.write_text("old")
    saved_files.write(Saved("a", said, 12.5, "mpirun -n 6 ./a"), path)
    again = saved_files.read(path)
    assert (again.name, again.time_s, again.job) == ("a", 12.5, "mpirun -n 6 ./a")
    assert again.answer == said
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "x"}', b"\xff\xfe"])
def test_a_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(CommandError, match=r"a\.json is no saved answer"):
        saved_files.read(path)


def test_a_file_whose_sets_would_take_very_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    saved_files.write(Saved("a", answer(("0", "1")), 0.0), path)
    file = json.loads(path.read_text())
    file["classes"] = [{**file["classes"][0], "ranks": "0-16777214/2"}] * 300
    path.write_text(json.dumps(file))
    with pytest.raises(CommandError, match=r"a\.json is no saved answer.*rank sets are too large"):
        saved_files.read(path)


def test_files_that_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        saved_files.read(tmp_path / "none.json")
    with pytest.raises(CommandError, match="cannot be written: No such file"):
        saved_files.write(Saved("a", answer(("0", "1")), 0.0), tmp_path / "none" / "a.json")
    version = tmp_path / "new.json"
    saved_files.write(Saved("a", answer(("0", "1")), 0.0), version)
    version.write_text(version.read_text().replace('"version":1', '"version":2'))
    with pytest.raises(CommandError, match="of version 2, not"):
        saved_files.read(version)
