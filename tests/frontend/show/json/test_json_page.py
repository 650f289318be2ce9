"""The page about ``--json`` and its schema describe all output."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from pgdb.frontend.show.json import json_parts, json_records, json_shapes
from pgdb.frontend.show.json.json_lines import Line, encode
from pgdb.records import (
    Breakpoint,
    Frame,
    Progress,
    Stop,
    ThreadStack,
    Variable,
)

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "reference" / "json.md"
SCHEMA = ROOT / "docs" / "reference" / "json-schema.json"
DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line, strict=True)


def sections() -> dict[str, str]:
    """Return the sections of the page by type of line."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    titles = zip(parts[1::2], parts[2::2], strict=True)
    return {title.strip("`"): body for title, body in titles if title.startswith("`")}


def examples() -> Iterator[tuple[str, str]]:
    for title, body in sections().items():
        for example in re.findall(r"^```json\n(.*?)^```$", body, re.MULTILINE | re.DOTALL):
            yield title, example


def tag(kind: type[msgspec.Struct]) -> str:
    return str(kind.__struct_config__.tag)


@pytest.mark.parametrize(("title", "example"), list(examples()))
def test_example_in_the_page_is_what_is_written(title: str, example: str) -> None:
    line = DECODER.decode(example)
    assert tag(type(line)) == title
    # The example has no field with its default.
    assert json.loads(encode(line)) == json.loads(example)


def test_page_has_an_example_of_every_type_and_no_other() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("```json\n") == len(list(examples()))
    assert {title for title, _ in examples()} == {tag(kind) for kind in get_args(Line)}


def test_page_explains_every_field() -> None:
    for kind in get_args(Line):
        for name in set(kind.__struct_fields__) - {"time"}:
            assert f"`{name}`" in sections()[tag(kind)], f"{tag(kind)}: {name}"
    parts = {
        "answer": (json_parts.AnswerClass, json_parts.MissingRanks, json_parts.Column),
        "stop": (json_parts.StopClass,),
        "exit": (json_parts.ExitClass, json_parts.LauncherEnd),
        "hello": (json_parts.HostRanks,),
        "tree": (
            json_parts.TreeNode,
            json_parts.TreeFrame,
            json_parts.TreeSource,
            json_parts.TreeFailure,
        ),
        "compare": (
            json_parts.ComparedRanks,
            json_parts.ComparedPart,
            json_parts.LeftOutRanks,
        ),
        "assert": (json_parts.FailingRanks,),
        "stat": (json_parts.HistogramBin,),
        "ranks": (json_parts.PlacedRanks,),
        "arrays": (json_parts.ArrayForm, json_parts.ArrayFailure),
    }
    for title, kinds in parts.items():
        for kind in kinds:
            for name in kind.__struct_fields__:
                assert f"`{name}`" in sections()[title], f"{title}: {name}"
    _, _, records = PAGE.read_text(encoding="utf-8").partition("\n## Records\n")
    records_and_parts = (
        *get_args(json_records.RecordObject),
        ThreadStack,
        Frame,
        Variable,
        Breakpoint,
    )
    for kind in records_and_parts:
        for name in kind.__struct_encode_fields__:
            assert f"`{name}`" in records, f"{kind.__name__}: {name}"
    for kind in get_args(json_records.RecordObject):
        assert f"| `{tag(kind)}` |" in records


def test_page_names_every_reason_and_stage() -> None:
    reasons = get_args(msgspec.structs.fields(Stop)[0].type)
    stages = get_args(
        next(
            each.type
            for each in msgspec.structs.fields(json_shapes.ProgressLine)
            if each.name == "stage"
        )
    )
    assert len(reasons) > 5 and len(stages) > 3
    for word in reasons:
        assert f"`{word}`" in sections()["stop"]
    for word in stages:
        assert f"`{word}`" in sections()["progress"]
    assert set(get_args(msgspec.structs.fields(Progress)[0].type)) < set(stages)
    for word in ("stdout", "stderr", "gdb", "pgdb"):
        assert f"`{word}`" in sections()["output"]


def test_schema_file_is_up_to_date() -> None:
    way_out = "run: python -m pgdb.frontend.show.json.json_lines > docs/reference/json-schema.json"
    # Through JSON, since msgspec has tuples where a file has lists.
    expected = json.loads(json.dumps(json_shapes.schema()))
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == expected, way_out


def test_schema_module_writes_the_file() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgdb.frontend.show.json.json_lines"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == json.loads(SCHEMA.read_text(encoding="utf-8"))


def test_schema_lets_later_releases_add_fields() -> None:
    # The schema of a mapping has additionalProperties for its values.
    assert '"additionalProperties": false' not in SCHEMA.read_text(encoding="utf-8")
    names = set(json_shapes.schema()["$defs"])  # type: ignore[call-overload]
    assert {kind.__name__ for kind in get_args(Line)} <= names
    assert not any("." in name for name in names), "two structs of one name"
