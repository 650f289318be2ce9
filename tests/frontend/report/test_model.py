"""The model of a report: JSON and back, schema, versions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from pgdb.errors import CommandError
from pgdb.frontend.report import model
from pgdb.frontend.report.model import Cause, RankClass, Report, ReportFrame, ReportStop

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = ROOT / "docs" / "reference" / "report-schema.json"

REPORT = Report(
    time=1.5,
    title="a job",
    cause=Cause(kind="signal", what="rank 1 received SIGSEGV", who="1"),
    ranks="0-3",
    classes=(
        RankClass(number=1, ranks="1", count=1, frames=(ReportFrame(function="f", line=3),)),
        RankClass(number=2, ranks="0,2-3", count=3, error="it runs"),
    ),
    stops=(ReportStop(ranks="1", text="SIGSEGV", signal="SIGSEGV", is_error=True),),
)


def test_a_report_survives_json() -> None:
    assert model.decode(model.encode_part(REPORT), "r.json") == REPORT


def test_fields_of_later_releases_are_ignored() -> None:
    plain = json.loads(model.encode_part(REPORT))
    plain["later"] = 1
    plain["classes"][0]["later"] = [1]
    assert model.decode(json.dumps(plain).encode(), "r.json") == REPORT


def test_the_schema_has_its_number_in_the_file() -> None:
    # A reader must find the version, so it stands there although it is the default.
    assert json.loads(model.encode_part(REPORT))["schema"] == model.SCHEMA_VERSION


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is no report of PGDB"),
        (b"{}", "is no report of PGDB"),
        (b"\xff", "is no report of PGDB"),
        (b'{"type": "hello", "schema": 1}', "is no report of PGDB"),
        (b'{"type": "report", "schema": 1, "time": 1}', "is no report of PGDB"),
        (b'{"type": "report", "schema": 99}', "has schema 99, and this PGDB reads up to 1"),
    ],
)
def test_other_files_are_refused_by_name(data: bytes, words: str) -> None:
    with pytest.raises(CommandError, match=f"r.json.*{words}|r.json {words}"):
        model.decode(data, "r.json")


def test_schema_file_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgdb.frontend.report.model"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    way_out = "run: python -m pgdb.frontend.report.model > docs/reference/report-schema.json"
    assert SCHEMA.read_text(encoding="utf-8") == done.stdout, way_out


def test_every_field_is_explained_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "report.md").read_text(encoding="utf-8")
    for field in msgspec.structs.fields(Report):
        assert f"`{field.encode_name}`" in page, field.name
