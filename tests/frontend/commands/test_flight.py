"""The command flight-records: its files, and its outcome."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import CommandError
from pgdb.frontend.commands.table import Shown
from tests.fakes.session import dispatch
from tests.support.flight_entries import WAITS, entry


def write(folder: Path, name: str, *entries: Any) -> None:
    content = {"entries": list(entries), "pg_config": {"": {"ranks": "[0, 1]"}}}
    (folder / name).write_text(json.dumps(content))


def shown(line: str) -> Shown:
    found = dispatch(line)
    assert isinstance(found, Shown)
    return found


@pytest.mark.parametrize("end", ["", "/trace_", "/trace_0"], ids=["folder", "start", "one"])
def test_a_path_is_a_folder_or_the_start_of_names(end: str, tmp_path: Path) -> None:
    write(tmp_path, "trace_0", entry(1, **WAITS))
    write(tmp_path, "trace_1.json")
    (tmp_path / "notes.txt").write_text("none")
    found = shown(f"flight-records {tmp_path}{end}")
    if end == "/trace_0":
        assert found.text.splitlines()[0] == "flight records of [0]"
        return
    assert found.text.splitlines() == [
        "flight records of [0-1]",
        "process group 0 (default_pg): [0-1]",
        "  [0] all_reduce 1, waits, [4, 8] Float, train.py:10",
        "  [1] no call yet; missing from all_reduce 1",
    ]
    assert [str(each) for each in found.sets] == ["1"]


def test_files_without_a_record_are_named_and_the_others_shown(tmp_path: Path) -> None:
    write(tmp_path, "trace_0", entry(1))
    (tmp_path / "trace_1").write_bytes(b"\x80\x04torn")
    (tmp_path / "trace_2").mkdir()
    write(tmp_path, "trace_77", entry(1))
    text = shown(f"flight-records {tmp_path}").text
    assert f"[1] {tmp_path}/trace_1: it is no flight record (" in text
    assert f"[2] {tmp_path}/trace_2: " in text
    assert "note: [77] is no rank of this session" in text


def test_no_record_at_all_is_an_error_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match="no flight record of PyTorch at "):
        dispatch(f"flight-records {tmp_path}/none_")
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", f"{tmp_path}/own_")
    write(tmp_path, "own_3", entry(1))
    assert shown("flight-records").text.startswith("flight records of [3]")
