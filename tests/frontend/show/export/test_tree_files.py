"""Files of a call tree: formats, names with special characters, Graphviz."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import shutil
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from pgdb.errors import CommandError
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.show.export import tree_files
from pgdb.frontend.show.export.tree_files import Format
from pgdb.frontend.show.json import json_shapes
from pgdb.frontend.system import deadline, workers
from pgdb.frontend.system.user_files import check_place
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import Failure, Frame, Stack

NASTY = "operator<< <\"a&b\\n\", 'c'>\x1b\udc80 > ]]> </script><script>alert(1)</script>"


def stack(*names: str) -> Stack:
    return Stack(
        frames=tuple(
            Frame(level=0, function=name, file="a <b>.c", line=7) for name in reversed(names)
        )
    )


def sampled() -> CallTree:
    trees = [
        CallTree.from_classes(
            [
                EquivalenceClass(ranks=RankSet.range(0, 4), record=stack("main", "solve", NASTY)),
                EquivalenceClass(ranks=RankSet([4 + n]), record=stack("main", "log")),
                EquivalenceClass(ranks=RankSet([9]), record=Failure(message=NASTY)),
            ],
            at_s=float(n),
            missing=Missing(running=RankSet([10])),
        )
        for n in range(3)
    ]
    return CallTree.union(trees)


def written(tree: CallTree, kind: Format, path: Path) -> str:
    asyncio.run(tree_files.write(tree, kind, path, title="tree --samples 3"))
    return path.read_text("utf-8")


@pytest.fixture
def no_dot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def fake_dot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program in place of Graphviz that prints its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "dot"
    program.write_text('#!/bin/sh\necho "$1"\ncat\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return program


class Page(HTMLParser):
    """Parser that checks that every element is closed, and collects elements and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    text = written(sampled(), "html", tmp_path / "t.html")
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    tags = [tag for tag, _ in page.elements]
    assert "script" not in tags
    assert not {"link", "img", "iframe", "object"} & set(tags)
    assert not re.search(r"https?:|url\(|@import", text)
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    assert tags.count("details") == 1
    # Three nodes, each with a bar for each sample.
    assert [attrs["class"] for _, attrs in page.elements if "class" in attrs].count("times") == 3
    assert sum("title" in attrs for tag, attrs in page.elements if tag == "i") == 9
    everything = "".join(page.texts)
    assert "</script><script>alert(1)</script>" in everything
    assert "[10] running" in everything
    assert "[0-3] in the same place each time: @2" in everything


def test_svg_is_drawn_without_graphviz(tmp_path: Path, no_dot: None) -> None:
    text = written(sampled(), "svg", tmp_path / "t.svg")
    root = ElementTree.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{name}svg"
    groups = root.findall(f"{name}g")
    assert len(groups) == 3
    assert len(root.findall(f"{name}path")) == 2, "an edge for each node below another"
    boxes = [group.find(f"{name}rect") for group in groups]
    places = {(each.get("x"), each.get("y")) for each in boxes if each is not None}
    assert len(places) == 3, "none lies over another"
    assert "script" not in {each.tag for each in root.iter()}
    assert "[0-3]" in text


def test_dot_quotes_names(tmp_path: Path) -> None:
    text = written(sampled(), "dot", tmp_path / "t.dot")
    assert text.startswith("digraph calltree {\n")
    assert text.endswith("}\n")
    # Without the quoted parts, no text of the program is left, and quotes are in pairs.
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    assert "alert" not in bare
    assert set(re.findall(r"\w+", bare)) <= set(re.findall(
        r"\w+", 'digraph calltree node shape box style filled fontname fillcolor white edge label '
        'ranks tooltip n1 n2 n3 r1 plaintext'
    ))  # fmt: skip
    assert '[label="[0-3]"]' in text
    assert 'ranks="0-6"' in text


def test_json_is_a_line_of_the_schema(tmp_path: Path) -> None:
    text = written(sampled(), "json", tmp_path / "t.json")
    line = msgspec.json.decode(text, type=json_shapes.Line, strict=True)
    assert isinstance(line, json_shapes.TreeLine)
    assert line.command == "tree --samples 3"
    assert (line.ranks, line.stayed, line.moved) == ("0-6", "0-3", "")
    assert [each.samples for each in line.nodes if each.leaf] == [("0-3",) * 3, ("4", "5", "6")]
    assert line.missing.running == "10"
    found: dict[str, Any] = json.loads(text)
    assert [each["parent"] for each in found["nodes"][1:]] == [1, 1]
    assert line.errors[0].ranks == "9"


def test_graphviz_draws_where_it_is_there(tmp_path: Path, fake_dot: Path) -> None:
    for kind in ("svg", "png"):
        path = tmp_path / f"t.{kind}"
        check_place(path)
        said = written(sampled(), kind, path)  # type: ignore[arg-type]
        assert said.startswith(f"-T{kind}\ndigraph calltree")


def test_failure_of_graphviz_is_reported(tmp_path: Path, fake_dot: Path) -> None:
    fake_dot.write_text('#!/bin/sh\necho "no such renderer" >&2\nexit 1\n')
    with pytest.raises(CommandError, match=r"t\.png: dot failed: no such renderer"):
        asyncio.run(tree_files.write(sampled(), "png", tmp_path / "t.png"))


def test_graphviz_that_hangs_is_ended(
    tmp_path: Path, fake_dot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_dot.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    monkeypatch.setattr(tree_files, "DOT_TIMEOUT_S", 0.5)
    with pytest.raises(CommandError, match=r"not drawn 3 nodes within 0\.5 s; --html"):
        asyncio.run(tree_files.write(sampled(), "png", tmp_path / "t.png"))
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(shutil.which("dot") is None, reason="this machine has no Graphviz")
def test_real_graphviz(tmp_path: Path) -> None:
    asyncio.run(tree_files.write(sampled(), "png", tmp_path / "t.png"))
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    ElementTree.fromstring(written(sampled(), "svg", tmp_path / "t.svg"))


def test_files_that_cannot_be_written(tmp_path: Path, no_dot: None) -> None:
    with pytest.raises(CommandError, match=r"nowhere/t\.dot: cannot be written: there is no dir"):
        check_place(tmp_path / "nowhere" / "t.dot")
    with pytest.raises(CommandError, match="it is a directory"):
        check_place(tmp_path)
    with pytest.raises(CommandError, match="install graphviz, or write --svg or --html"):
        asyncio.run(tree_files.write(sampled(), "png", tmp_path / "t.png"))
    assert not (tmp_path / "t.png").exists()
    with pytest.raises(CommandError, match="cannot be written: No such file"):
        asyncio.run(tree_files.write(sampled(), "dot", tmp_path / "nowhere" / "t.dot"))
    check_place(tmp_path / "t.svg")


@pytest.mark.parametrize("kind", ["dot", "json", "svg", "html"])
def test_a_full_disk_leaves_what_there_was(
    tmp_path: Path, no_dot: None, monkeypatch: pytest.MonkeyPatch, kind: Format
) -> None:
    before = tmp_path / "before"
    before.write_text("mine")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for path in (before, tmp_path / "new"):
        with pytest.raises(CommandError, match=f"{path.name}: cannot be written: No space left"):
            asyncio.run(tree_files.write(sampled(), kind, path))
    assert os.listdir(tmp_path) == ["before"] and before.read_text() == "mine"


def test_a_device_and_a_file_in_a_directory_of_others_are_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(tree_files.write(sampled(), "dot", Path(os.devnull)))
    assert not Path(os.devnull).is_file()
    path = tmp_path / "t.dot"
    path.touch()
    number = path.stat().st_ino
    monkeypatch.setattr(os, "access", lambda name, mode: Path(name) != tmp_path)
    assert "digraph" in written(sampled(), "dot", path)
    assert path.stat().st_ino == number


@pytest.mark.timeout(60)
def test_named_pipe_that_nobody_reads_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "LEAST_S", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def write() -> None:
        with deadline.within(0.1):
            await tree_files.write(sampled(), "dot", pipe)

    with pytest.raises(CommandError, match=r"pipe: not done within 0\.1 s"):
        asyncio.run(write())
    assert b"digraph" in pipe.read_bytes()  # it still waits


@pytest.mark.slow
def test_deep_and_empty_trees(tmp_path: Path, no_dot: None) -> None:
    classes = [
        EquivalenceClass(ranks=RankSet([n]), record=stack(*["f"] * (n + 1))) for n in range(1200)
    ]
    for tree in (CallTree.from_classes(classes), CallTree()):  # type: ignore[arg-type]
        for kind in ("dot", "json", "svg", "html"):
            assert written(tree, kind, tmp_path / f"t.{kind}")  # type: ignore[arg-type]
