"""Files that ranks write: the question before one is written over, and copies of them here."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import host_files
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.operations import ReadFile
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Block, Failure, FileWritten, Record, Text
from tests.fakes.typed import ALL, Typed, TypedSession


class WritingSession(TypedSession):
    """Ranks that say that they have written files, and have what *contents* holds."""

    def __init__(self) -> None:
        super().__init__()
        self.contents: dict[tuple[int, str], bytes] = {}
        self.table = ProcTable(
            processes=tuple(RankProcess(rank, "n1", 70 + rank, "") for rank in ALL), source=""
        )
        self.record: Record = FileWritten(path="/far/core.{rank}.{pid}", host="n1", process="…")

    def ranks(self, which: RankSet) -> TypedSession:
        self.asked_ranks = which
        return self

    async def execute_plain(self, line: str, timeout_s: float | None = None) -> Answer:
        self.lines.append(line)
        return Answer(line, ALL, (EquivalenceClass(ranks=ALL, record=self.record),))

    async def ask(self, line: str, operation: ReadFile, ranks: RankSet, **_: object) -> Answer:
        classes = []
        for rank in ranks:
            found: Record = Failure(f"{operation.path}: No such file or directory")
            if (data := self.contents.get((rank, operation.path))) is not None:
                part = data[operation.start :][: operation.most_bytes]
                found = Block(dtype="|u1", shape=(len(data),), data=part, start=operation.start)
            classes.append(EquivalenceClass(ranks=RankSet([rank]), record=found))
        return Answer(line, ranks, tuple(classes), Missing())


def typed(reply: bool | None = None) -> tuple[Typed, WritingSession]:
    made = Typed(reply=reply)
    session = WritingSession()
    made.session = session
    made.dispatcher.workspace.session = session  # type: ignore[assignment]
    return made, session


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("gcore core", "core.{rank}"),
        ("dump binary value u.bin u", "u.bin.{rank}"),
        ("record save log", "log.{rank}"),
        ("save tracepoints t", "t.{rank}"),
        ("maint print symbols s", "s.{rank}"),
    ],
)
def test_a_file_is_written_over_only_after_a_question(line: str, name: str) -> None:
    declined, session = typed(reply=False)
    session.contents = {(1, name): b"", (2, name): b""}
    assert declined(line) == "not carried out\n" and session.lines == []
    assert declined.questions == [f"{name}: the file of ranks [1-2] exists. Overwrite?"]
    for reply, before in ((True, ()), (None, ()), (False, ("set confirm off",))):
        written, session = typed(reply=reply)
        session.contents = {(1, name): b""}
        written(*before, line)
        assert len(session.lines) == 1


@pytest.mark.parametrize("line", ["gcore core", "append value u.bin u", "save gdb-index d"])
def test_nothing_is_asked_where_nothing_is_lost(line: str) -> None:
    asked, session = typed(reply=False)
    session.contents = {(1, "u.bin.{rank}"): b"", (1, "d.{rank}"): b""}
    asked(line)
    assert asked.questions == [] and len(session.lines) == 1


def test_all_ranks_that_write_are_one_line() -> None:
    shown, session = typed()
    session.record = FileWritten(path="/far/core.{rank}", host="n1", text="warning: a")
    assert shown("gcore core") == "[0-3]\nwrote /far/core.{0..3} on n1\nwarning: a\n"


def test_files_are_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_files, "PART_BYTES", 4)
    gathered, session = typed()
    path = "/far/core.{rank}.{pid}"
    session.contents = {(0, path): b"0123456789", (1, path): b"\0" * 9, (2, path): b""}
    said = gathered(f"gather {tmp_path}/new gcore")
    assert "wrote /far/core.{0..3}.… on n1" in said
    assert f"[0-2] copied to {tmp_path}/new: core.0.70 … core.2.72 (19 bytes)" in said
    assert f"[3] error: not copied: {path}: No such file" in said
    assert gathered.dispatcher.status != 0
    assert (tmp_path / "new/core.0.70").read_bytes() == b"0123456789"
    assert (tmp_path / "new/core.1.71").read_bytes() == b"\0" * 9
    assert (tmp_path / "new/core.2.72").read_bytes() == b""


def test_the_files_of_the_last_command_are_gathered(tmp_path: Path) -> None:
    gathered, session = typed()
    session.record = FileWritten(path="/far/m", host="n1")
    session.contents = {(rank, "/far/m"): bytes([rank]) for rank in ALL}
    gathered("append value m.%h u", f"gather {tmp_path}")
    # Files of one name come from several hosts.
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {
        f"m.{rank}": bytes([rank]) for rank in ALL
    }


def test_gather_says_why_there_is_nothing(tmp_path: Path) -> None:
    gathered, session = typed()
    session.record = Text("no file")
    assert "'gcore' has written no file" in gathered(f"gather {tmp_path} gcore")
    assert "the last command has written no file" in gathered(f"gather {tmp_path}")
    assert "needs a directory" in gathered("gather")
