"""An explanation as text, as a JSON line, and as files."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec

from pgdb.frontend.analysis.why.explain import Explanation, explain
from pgdb.frontend.analysis.why.parties import Elsewhere
from pgdb.frontend.analysis.why.waiting import Watch
from pgdb.frontend.show.export import why_files
from pgdb.frontend.show.json import json_lines, json_why
from pgdb.frontend.show.text import why_text
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import CallSite, Communicator, FieldSource, MpiCall, MpiCallStatus
from pgdb.ranks import RankSet

HOSTILE = '<b>"x\\y\n'


def explanation(*, name: str = "MPI_COMM_WORLD", ranks: int = 4) -> Explanation:
    """Return a rank that waits for one that has ended, and the others in a barrier."""
    world = Communicator(name=name, members=f"0-{ranks - 1}")
    where = CallSite(function=HOSTILE, file="/src/a.c", line=7)
    recv = MpiCall(
        function="MPI_Recv",
        kind="recv",
        blocking=True,
        source=1,
        tag=5,
        communicator=world,
        sources=(FieldSource("tag", "caller code"),),
    )
    barrier = MpiCall(function="MPI_Barrier", kind="collective", blocking=True, communicator=world)
    classes = [
        EquivalenceClass(RankSet([0]), MpiCallStatus("in_call", where, calls=(recv,))),
        EquivalenceClass(
            RankSet(range(2, ranks)), MpiCallStatus("in_call", where, calls=(barrier,))
        ),
    ]
    gone = Elsewhere(RankSet([1]), "ended with status 3", "ended")
    watch = Watch(still=RankSet(range(ranks)) - RankSet([1]), seconds=1.0)
    return explain(classes, (gone,), watch)


ALL = RankSet.parse("0-3")


def test_first_line_is_the_verdict() -> None:
    lines = why_text.text(explanation(), ALL).split("\n")
    assert lines[0].startswith("Rank 1 has ended with status 3, and ranks 0,2-3 wait for it")
    assert lines[0].endswith("(certain)")
    assert "  ranks 0,2-3 wait because of that" in lines
    assert "  [0] ──MPI_Recv──▶ [1]" in lines


def test_all_shows_the_rule_and_every_call() -> None:
    text = why_text.text(explanation(), ALL, full=True)
    assert "kind: rank-left; rule:" in text
    assert "calls:" in text
    assert "--all" not in text


def test_a_set_without_a_part_in_the_hang_says_whose_it_is() -> None:
    found = explanation(ranks=9)
    verdict = msgspec.structs.replace(found.verdicts[0], victims=RankSet([0]))
    found = msgspec.structs.replace(found, verdicts=(verdict,))
    assert why_text.text(found, RankSet([8])).startswith("[8] have no part in a hang; [0-1] have")


def test_line_has_every_rank_in_one_wait() -> None:
    line = json_why.why(explanation(), "why")
    assert [(each.ranks, each.state, each.call) for each in line.waits] == [
        ("0", "in_call", "MPI_Recv"),
        ("1", "ended", ""),
        ("2-3", "in_call", "MPI_Barrier"),
    ]
    first = line.waits[0]
    assert (first.peers, first.tag, first.members, first.line) == ("1", 5, "0-3", 7)
    assert first.source == "caller code"
    decoded = msgspec.json.decode(json_lines.encode(line))
    assert decoded["verdicts"][0]["victims"] == "0,2-3"
    assert decoded["verdicts"][0]["kind"] == "rank-left"


def test_files_escape_the_names_of_the_program(tmp_path: Path) -> None:
    found = explanation(name="<i>&")
    root = ET.fromstring(why_files.svg(found))
    assert any(HOSTILE.strip() in (each.text or "") for each in root.iter())
    page = why_files.page(found, "why <x>")
    assert "<b>" not in page and "<i>" not in page and "why &lt;x&gt;" in page
    dot = why_files.dot(found)
    assert '\\"x\\\\y' in dot and HOSTILE not in dot
    for kind in why_files.FORMATS:
        path = tmp_path / f"graph.{kind}"
        asyncio.run(why_files.write(found, kind, path))
        assert path.read_text(encoding="utf-8")


def test_picture_of_many_parties_counts_those_it_leaves_out() -> None:
    world = Communicator(name="w", members="0-99")
    classes = [
        EquivalenceClass(
            RankSet([rank]),
            MpiCallStatus(
                "in_call",
                calls=(
                    MpiCall(
                        function="MPI_Recv",
                        kind="recv",
                        blocking=True,
                        source=(rank + 1) % 100,
                        communicator=world,
                    ),
                ),
            ),
        )
        for rank in range(100)
    ]
    found = explain(classes)
    assert f"and {100 - why_files.MOST_DRAWN} more" in why_files.svg(found)
    text = why_text.text(found, RankSet(range(100)))
    assert f"… and {100 - why_text.MOST_LINES} more" in text
