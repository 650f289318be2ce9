"""Stops in files that do not exist here."""

from __future__ import annotations

from pathlib import Path

from pgdb.frontend.show.source_lines import Sources
from pgdb.frontend.show.text import event_text
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import normalize_record
from pgdb.ranks import RankSet
from pgdb.records import Event, Frame, Stop


def shown(path: str, line: int, sources: Sources) -> str:
    frame = Frame(level=0, function="main", file="ring.c", fullname=path, line=line)
    stop = normalize_record(Stop(reason="end-stepping-range", frame=frame))
    each = EquivalenceClass[Event](RankSet([0]), stop.record, stop.slots)  # type: ignore[arg-type]
    return event_text.events([each], sources.line, 0, sources.is_missing)


def test_a_stop_says_that_its_source_is_missing(tmp_path: Path) -> None:
    sources = Sources()
    there = tmp_path / "ring.c"
    there.write_text("int x;\n\n")
    stop = "[0] stopped in main () at ring.c"
    missing = "\tring.c: No such file or directory."
    assert shown(str(there), 1, sources) == f"{stop}:1\n1\tint x;"
    assert shown(str(there), 2, sources) == f"{stop}:2", "an empty line is no missing file"
    assert shown(str(tmp_path / "gone.c"), 7, sources) == f"{stop}:7\n7{missing}"
    assert shown("./csu/gone.c", 7, sources) == f"{stop}:7\n7{missing}"
    assert shown("", 0, sources) == "[0] stopped in main ()"
    assert shown(str(tmp_path), 3, sources) == f"{stop}:3", "not a file, and yet there"
