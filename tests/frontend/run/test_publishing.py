"""The files of a run's reports, and the words about those that cannot be written."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from pgdb.frontend.report.model import Cause, Report
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.publishing import Publisher

REPORT = Report(time=0.0, title="job", cause=Cause(kind="signal", what="rank 1 died"), ranks="0-3")


def test_a_full_disk_is_named_before_the_report_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(*arguments: object, **keywords: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def run() -> None:
        publisher = Publisher(RunOptions(line=("job",), outputs=(str(tmp_path / "r.txt"),)))
        await publisher.check()
        monkeypatch.setattr("os.write", fill)
        monkeypatch.setattr("os.replace", fill)
        await publisher.write(REPORT)
        monkeypatch.undo()
        publisher.conclude(REPORT, is_event=True)

    asyncio.run(run())
    said = capsys.readouterr().err
    assert "No space left on device; the report is printed" in said
    assert said.index("No space") < said.index("what:  rank 1 died")
