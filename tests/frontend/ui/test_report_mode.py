"""``pgdb report``: its command line, and reports in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.report import model
from pgdb.frontend.report.model import Cause, Report
from pgdb.frontend.ui.arguments import parse
from pgdb.frontend.ui.main import main

REPORT = Report(
    time=1.0,
    title="a job",
    cause=Cause(kind="none", what="no rank has failed", severity="note"),
    ranks="0-3",
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "r.json"
    path.write_bytes(model.encode_part(REPORT))
    return path


def test_a_job_and_files() -> None:
    found = parse(["report", "--attach", "4711", "-o", "a.html", "-o", "b.json", "--host", "n1"])
    assert found.report is not None
    assert (found.report.attach, found.report.output) == ("4711", ("a.html", "b.json"))
    assert found.report.options.host == "n1"


def test_the_only_job() -> None:
    report = parse(["report", "--attach", "-o", "a.html"]).report
    assert report is not None and report.attach == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("report", "give --attach JOB"),
        ("report --attach 1 a.json", "give --attach JOB"),
        ("report --compare a.json b.json c.json", "give --attach JOB"),
        ("report --compare a.json", "expected 2 arguments"),
        ("report --attach 1 --pids 2", "--pids takes the place of the job"),
        ("report a.json --title x", "--title needs"),
        ("report --compare a.json b.json --github", "--github is for one report"),
    ],
)
def test_lines_that_name_no_report_or_several(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse(line.split())


def test_a_report_is_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(file)]) == 0
    assert capsys.readouterr().out.endswith("who:   no rank\n")


def test_other_forms(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = [file.with_suffix(suffix) for suffix in (".html", ".md", ".xml", ".sarif", ".txt")]
    names = [word for path in others for word in ("-o", str(path))]
    assert main(["report", str(file), *names]) == 0
    assert capsys.readouterr().out == ""
    assert all("no rank has failed" in path.read_text() for path in others)


def test_an_unwritable_file_is_named_and_the_report_printed(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(file), "-o", str(file / "x.html"), "-o", f"{file}.md"]) == 1
    out, err = capsys.readouterr()
    assert f"{file}/x.html: cannot be written" in err
    assert "what:  no rank has failed" in out
    assert Path(f"{file}.md").exists()


def test_an_unknown_suffix(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(file), "-o", "x.pdf"]) == 2
    assert "must end in .json, .txt, .html, .xml, .sarif or .md" in capsys.readouterr().err


def test_annotations(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(file), "--github", "-o", f"{file}.md"]) == 0
    assert capsys.readouterr().out.startswith("::notice title=")


def test_a_comparison(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--compare", str(file), str(file)]) == 0
    assert "nothing differs" in capsys.readouterr().out
    assert main(["report", "--compare", str(file), str(file), "-o", f"{file}.xml"]) == 2
    assert "a comparison of reports has no form .xml" in capsys.readouterr().err
