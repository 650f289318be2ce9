"""Compare generated pages with their sources, and names in written pages with the code."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import pgdb
from pgdb.backend.node.answer_cache import LIMIT_BYTES
from pgdb.frontend.analysis import saved
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.notifications import Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.rank_data import STAT_LIMIT_BYTES
from pgdb.frontend.commands import workspace
from pgdb.frontend.commands.__main__ import page
from pgdb.frontend.commands.table import COMMANDS
from pgdb.frontend.show.text import layout
from pgdb.merge.classes import MOST_COLUMNS, MOST_DISTINCT

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "guide"
ANSWERS = GUIDE / "reading-answers.md"
NUMBERS = GUIDE / "wrong-numbers.md"
API = ROOT / "docs" / "reference" / "api.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    ROOT / "fuzz" / "README.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
WIDTH = 80
_LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")


def text_of(path: Path) -> str:
    """Return a page."""
    return path.read_text("utf-8")


def screens(path: Path) -> Iterator[str]:
    """Yield the lines of all screens of a page."""
    for screen in re.findall(r"^```(?:console)?\n(.*?)^```$", text_of(path), re.M | re.S):
        yield from screen.splitlines()


def test_command_page_is_what_the_table_says() -> None:
    written = text_of(ROOT / "docs" / "reference" / "commands.md")
    assert written == page(), "run: python -m pgdb.frontend.commands > docs/reference/commands.md"


def test_readme_names_every_exit_status() -> None:
    readme = text_of(ROOT / "README.md")
    for status in range(6):
        assert f"{status} " in readme.partition("Exit status:")[2][:300]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(path: Path) -> None:
    for link in _LINK.findall(re.sub(r"^```.*?^```$", "", text_of(path), flags=re.M | re.S)):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.*)$", text_of(target), re.M)
            anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
            assert anchor in anchors, link


OF_GPUS = ("cuda",)
"""Commands of the debuggers of GPUs, which GDB does not have."""


@pytest.mark.parametrize("path", sorted(GUIDE.glob("*.md")), ids=lambda path: path.stem)
def test_guide_shows_commands_that_there_are(path: Path) -> None:
    typed = [line.partition(") ")[2] for line in screens(path) if line.startswith("(pgdb ")]
    assert len(typed) > 10 or path != ANSWERS
    for line in filter(None, typed):
        word = gdb_commands.first_word(line)
        if path.stem == "gpu" and word in OF_GPUS:
            continue
        resolved = gdb_commands.resolve(line)
        assert COMMANDS.find(word) or COMMANDS.find(resolved) or resolved in gdb_commands.KINDS, (
            line
        )


_ONE_LINE = re.compile(r"#|(?:\[[^]]*\] +)?\d+\t")


@pytest.mark.parametrize("path", [ANSWERS, NUMBERS], ids=lambda path: path.stem)
def test_screens_about_answers_are_of_80_columns(path: Path) -> None:
    # A frame is one line, as in GDB; a line of source is one too.
    long = [line for line in screens(path) if len(line) > WIDTH and not _ONE_LINE.match(line)]
    assert long == []


def test_description_for_the_index_has_no_link_into_the_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, str] = {}
    monkeypatch.setattr("setuptools.setup", lambda **words: given.update(words))
    runpy.run_path(str(ROOT / "setup.py"))
    links = _LINK.findall(given["long_description"])
    assert [link for link in links if not link.startswith("http")] == []
    assert "docs/guide/tutorial.md" in given["long_description"]


@pytest.mark.parametrize(
    "words",
    [
        f"{MOST_DISTINCT} of one kind",
        f"summed up | {MOST_COLUMNS} |",
        f"{layout.MOST_CLASSES}; of more the {layout.SHOWN_OF_MANY} biggest",
        f"Up to {layout.HANDFUL} different values",
        f"the last {workspace.HISTORY}, up to {workspace.HISTORY_BYTES >> 20} MiB",
        f"{LIMIT_BYTES >> 20} MiB for each aggregator",
        f"{saved.MOST_SAVED}, up to {saved.MOST_SAVED_BYTES >> 20} MiB",
        f"{SessionOptions().array_limit_bytes >> 30} GiB on all ranks together",
        f"for `stat` | {STAT_LIMIT_BYTES >> 30} GiB",
    ],
)
def test_limits_are_what_the_page_says(words: str) -> None:
    assert words in text_of(ANSWERS)


def test_page_about_the_api_names_what_there_is() -> None:
    text = text_of(API)
    for name in set(re.findall(r"\bpgdb\.([A-Za-z]\w*)", text)):
        assert name in pgdb.__all__, name
    for call in set(re.findall(r"^\| .*?\|", text, re.M)):
        for name in re.findall(r"`(?:session\.)?([a-z]\w*)\(", call):
            assert hasattr(pgdb.Session, name) or hasattr(Answer, name), name
    for name in set(re.findall(r"\b(?:job|session)(?:\[[^\]]*\])?\.([a-z]\w*)", text)):
        assert hasattr(pgdb.Session, name), name


@pytest.mark.parametrize("name", sorted({*pgdb.__all__} - {"__version__"}))
def test_page_about_the_api_has_every_public_name(name: str) -> None:
    assert re.search(rf"`(?:pgdb\.)?{name}\b|\bpgdb\.{name}\b", text_of(API))


def test_page_about_the_api_has_every_option() -> None:
    for name in set(SessionOptions.__dataclass_fields__) - {"ranks"}:
        assert f"`{name}`" in text_of(API), name


def test_page_about_the_api_has_every_kind_of_notification() -> None:
    for each in get_args(Notification):
        assert f"`{each.kind}`" in text_of(API), each.kind


@pytest.mark.parametrize("name", ["architecture.md", "decisions.md", "soak.md"])
def test_page_names_files_that_there_are(name: str) -> None:
    found = re.findall(
        r"`((?:pgdb|frontend|backend|tests|docs|bench)/[\w/.-]+)`",
        text_of(ROOT / "docs" / "internals" / name),
    )
    assert len(found) > 3
    for each in found:
        assert (ROOT / each).exists(), each
