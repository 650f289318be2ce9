"""GDB's language on many ranks: the lines of the chapters beside plain GDB.

``python -m tests.live.test_language [CHAPTER…]`` prints the score, line by line.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests.support.language import CHAPTERS, Chapter, Judged, gdb_version, report, run_chapter
from tests.support.programs import Builder, find_mpi

pytestmark = [pytest.mark.mpi, pytest.mark.gdb]

_FILES = sorted(CHAPTERS.glob("*.txt"))
_LINES_AT_LEAST = 400


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_every_line_is_judged_as_its_chapter_says(
    file: Path, builder: Builder, tmp_path: Path
) -> None:
    chapter = Chapter.read(file, gdb_version())
    mpi = find_mpi("openmpi")
    judged = run_chapter(chapter, mpi, builder.build(mpi, chapter.program), tmp_path)
    assert not (wrong := report(judged)), wrong


def test_the_chapters_have_enough_lines() -> None:
    chapters = [Chapter.read(file, gdb=13) for file in _FILES]
    assert sum(len(each.lines) for each in chapters) >= _LINES_AT_LEAST


def main(names: list[str]) -> None:
    """Print the judgement of every line, and the score."""
    total: Counter[str] = Counter()
    mpi = find_mpi("openmpi")
    with tempfile.TemporaryDirectory() as folder:
        builder = Builder(Path(folder))
        for file in _FILES:
            if names and file.stem not in names:
                continue
            chapter = Chapter.read(file, gdb_version())
            program = builder.build(mpi, chapter.program)
            judged = run_chapter(chapter, mpi, program, Path(folder))
            for each in judged:
                print(f"{file.stem}:{each.line.number}: {each.verdict}: {_first_line(each)}")
            print(report(judged))
            total.update(each.verdict for each in judged)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(total.items())))


def _first_line(judged: Judged) -> str:
    reason = f"  ({judged.line.reason})" if judged.line.reason else ""
    return judged.line.text.split("\n")[0] + reason


if __name__ == "__main__":
    main(sys.argv[1:])
