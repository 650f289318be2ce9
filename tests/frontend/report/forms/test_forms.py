"""The forms of a report: whatever is in it, each stays what it is."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.analysis.why.verdict import VerdictKind
from pgdb.frontend.report import comparing, writing
from pgdb.frontend.report.forms import github, sarif
from pgdb.frontend.report.model import (
    Cause,
    Environment,
    EnvironmentVariable,
    HostRanks,
    Job,
    NumberRange,
    OutputTail,
    RankClass,
    RankStates,
    RankValue,
    Report,
    ReportFrame,
    ReportNode,
    ReportStop,
    ReportThreads,
    ReportVariable,
    SourceLines,
    TimedEvent,
    ValuePlace,
    Verdict,
    Versions,
    Wait,
)
from pgdb.frontend.run import exit_status
from pgdb.ranks import RankSet

HOSTILE = (
    "<script>alert(1)</script>\"'&{{7*7}}{% x %}]]>`````\x1b[2J\x00\u202e\u2028\n::error::x|*a* %0A"
)


def report_with(text: str, *, severity: str = "error") -> Report:
    """Return a report that has *text* in each field that programs and users fill."""
    frame = ReportFrame(function=text, file="/src/solver.c", fullname="/src/solver.c", line=41)
    variable = ReportVariable(
        name=text,
        ranks="0-2",
        differs=True,
        text=text,
        places=(ValuePlace(path=text, values=(RankValue(ranks="0", text=text),), more=3),),
        numbers=NumberRange(low="0", high="9", at_low="0", at_high="2", distinct=3),
    )
    return Report(
        time=1.0,
        title=text,
        cause=Cause(
            kind="signal",
            what=text,
            where=text,
            who="3",
            file="/src/solver.c",
            line=41,
            severity=severity,  # type: ignore[arg-type]
        ),
        ranks="0-3",
        job=Job(line=(text, "b"), description=text, mpi=text, begun=0.5, exit_code=-9),
        versions=Versions(pgdb="1", python=text, gdb=text, system=text),
        hosts=(HostRanks(host=text, ranks="0-3", pids=(1, 2, 3, 4)),),
        states=RankStates(stopped="0-2", exited="3"),
        verdicts=(Verdict(kind="deadlock", text=text, ranks="0-1", details=(text,)),),
        waits=(Wait(ranks="0", on="1", text=text),),
        classes=(
            RankClass(
                number=1,
                ranks="0-2",
                count=3,
                frames=(frame,),
                hidden="2",
                source=SourceLines(file=text, first=40, marked=41, lines=(text, text)),
                variables=(variable, ReportVariable(name="n", ranks="0-2", text=text)),
            ),
            RankClass(number=2, ranks="3", count=1, error=text, is_odd=True),
        ),
        tree=(
            ReportNode(number=1, parent=0, ranks="0-3", count=4, frames=(text,), lines=(text,)),
            ReportNode(number=2, parent=1, ranks="0-2", count=3, frames=(), is_leaf=True),
            ReportNode(number=3, parent=1, ranks="3", count=1, frames=(text,), is_odd=True),
        ),
        stops=(
            ReportStop(ranks="3", text=text, signal="SIGSEGV", is_error=True, is_first=True),
            ReportStop(ranks="2", text=text, signal="SIGABRT", is_error=True),
            ReportStop(ranks="0-1", text=text),
        ),
        threads=(
            ReportThreads(
                ranks="0", threads=2, counts=(RankValue(ranks="0", text="2"),), frames=(frame,)
            ),
        ),
        output=(OutputTail(stream="stdout", ranks="0", text=text, dropped_bytes=5, file=text),),
        environment=Environment(
            source=text,
            variables=(
                EnvironmentVariable(name=text, value=text),
                EnvironmentVariable(name="KEY", is_secret=True),
            ),
        ),
        timeline=(TimedEvent(time=0.5, kind="stop", text=text, ranks="3", is_error=True),),
        notes=(text,),
    )


class Page(HTMLParser):
    """Collector of the elements and the text of a page."""

    # Elements without an end (HTML standard, 13.1.2).
    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.urls: list[str] = []
        self.ids: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src"):
                self.urls.append(value or "")
            if name == "id":
                self.ids.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> behind {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_hostile_text_stays_text_in_html() -> None:
    page = Page(writing.render(report_with(HOSTILE), ".html"))
    assert not page.open
    assert not page.tags & {"script", "iframe", "object", "img", "link", "form", "base"}
    assert not [name for name in page.attributes if name.startswith("on")]
    assert all(url.startswith("#") for url in page.urls)
    assert {url[1:] for url in page.urls} <= page.ids
    assert "<script>alert(1)</script>\"'&{{7*7}}{% x %}" in page.text
    assert not set("\x1b\x00\u202e\u2028") & set(page.text)


def test_html_has_what_the_model_has() -> None:
    report = report_with("something")
    page = Page(writing.render(report, ".html"))
    for words in (
        "first to fail",
        "fewest ranks",
        "left out, may be a secret",
        "▶41",
        "2 on each of rank 0",
        "5 bytes before are not kept",
        "0 on rank 0 … 9 on rank 2",
        "wait for",
        "-9",
    ):
        assert words in page.text, words
    assert page.text.count("something") > 30


def test_html_marks_whose_class_a_rank_is_in() -> None:
    text = writing.render(report_with("x"), ".html")
    assert text.count('<span class="cell g1"') == 2
    # Ranks 2 and 3 have failed.
    assert text.count('<span class="cell g1 failed"') == 1
    assert text.count('<span class="cell g2 failed"') == 1
    assert 'title="rank 3, process 4, exited, failed"' in text


def test_html_of_very_many_ranks_has_runs() -> None:
    count = 20_000
    odd = RankSet(range(1, count, 2))
    report = replace(
        report_with("x"),
        ranks=f"0-{count - 1}",
        hosts=(HostRanks(host="h", ranks=f"0-{count - 1}"),),
        classes=(RankClass(number=1, ranks=str(odd), count=len(odd), frames=()),),
    )
    text = writing.render(report, ".html")
    assert text.count('<span class="cell') <= 6
    assert len(text) < 300_000


def test_html_of_a_deep_tree() -> None:
    nodes = tuple(
        ReportNode(number=n + 1, parent=n, ranks="0", count=1, frames=(f"f{n}",))
        for n in range(3000)
    )
    page = Page(writing.render(replace(report_with("x"), tree=nodes), ".html"))
    assert "f2999" in page.text


def test_html_of_a_report_with_nothing() -> None:
    report = Report(time=0, title="", cause=Cause(kind="none", what="nothing"), ranks="")
    assert "nothing" in Page(writing.render(report, ".html")).text


@pytest.mark.parametrize("suffix", writing.SUFFIXES)
def test_every_form_of_a_report_with_nothing(suffix: str) -> None:
    report = Report(time=1e300, title="", cause=Cause(kind="none", what="nothing"), ranks="")
    assert "nothing" in writing.render(report, suffix)


def test_junit_has_a_failure_for_the_job_and_for_each_failed_class() -> None:
    root = ET.fromstring(writing.render(report_with(HOSTILE), ".xml"))
    (suite,) = root
    assert suite.attrib["tests"] == suite.attrib["failures"] == "3"
    assert suite.attrib["time"] == "0.500"
    cases = suite.findall("testcase")
    assert [case.find("failure") is not None for case in cases] == [True] * 3
    message = cases[0].find("failure")
    assert message is not None and "<script>alert(1)</script>" in message.attrib["message"]


def test_junit_of_a_job_that_has_not_failed() -> None:
    report = replace(report_with("x", severity="note"), stops=())
    (suite,) = ET.fromstring(writing.render(report, ".xml"))
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("1", "0")
    assert not list(suite.iter("failure"))
    out = suite.find("system-out")
    assert out is not None and out.text is not None and "x" in out.text


@pytest.mark.parametrize("severity", ["error", "note"])
def test_junit_is_as_the_schema_of_ant_wants_it(severity: str) -> None:
    report = report_with(HOSTILE, severity=severity)
    (suite,) = ET.fromstring(writing.render(report, ".xml"))
    needed = {"name", "package", "id", "hostname", "timestamp", "time"}
    assert needed | {"tests", "failures", "errors"} <= suite.attrib.keys()
    assert all(suite.attrib.values())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    kinds = [each.tag for each in suite]
    count = int(suite.attrib["tests"])
    assert kinds == ["properties", *["testcase"] * count, "system-out", "system-err"]
    for case in suite.findall("testcase"):
        assert {"name", "classname", "time"} <= case.attrib.keys()
        assert [each.tag for each in case] in ([], ["failure"])


@pytest.mark.parametrize(("severity", "colour"), [("error", "warning"), ("note", "note")])
def test_a_finding_about_a_job_that_has_failed_is_not_green(severity: str, colour: str) -> None:
    finding = Verdict(kind="victims", text="ranks wait", ranks="0", is_error=False)
    report = replace(report_with("x", severity=severity), verdicts=(finding,))
    page = writing.render(report, ".html")
    assert f'<div class="cause {colour}">\n<strong>ranks wait' in page


def test_sarif_has_a_result_with_its_place_and_its_stacks() -> None:
    report = replace(
        report_with(HOSTILE), cause=replace(report_with("x").cause, who="0-2", what="it failed")
    )
    whole = json.loads(writing.render(report, ".sarif"))
    (run,) = whole["runs"]
    first, *others = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "/src/solver.c"
    assert place["region"] == {"startLine": 41}
    assert first["message"]["text"].startswith("what: it failed; where: ")
    assert first["stacks"][0]["message"]["text"] == "ranks 0-2"
    assert [each["level"] for each in others] == ["error", "error", "error"]
    kinds = {each["ruleId"] for each in run["results"]}
    assert kinds == {each["id"] for each in run["tool"]["driver"]["rules"]}
    assert not run["invocations"][0]["executionSuccessful"]


def test_sarif_has_a_sentence_for_each_kind() -> None:
    kinds = {*exit_status.KINDS, *get_args(VerdictKind)}
    assert sarif.RULES.keys() == kinds
    assert all(each.endswith(".") for each in sarif.RULES.values())
    page = (Path(__file__).parents[4] / "docs" / "reference" / "report.md").read_text("utf-8")
    assert [each for each in exit_status.KINDS if f"`{each}`" not in page] == []


def test_files_of_the_checkout_are_named_from_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("checkout")
    monkeypatch.chdir(folder)
    cause = replace(report_with("x").cause, file=f"{folder}/src/a b.c")
    report = replace(report_with("x"), cause=cause)
    assert '"uri": "src/a%20b.c"' in writing.render(report, ".sarif")
    assert github.render(report).startswith("::error file=src/a b.c,line=41,")


def test_annotations_are_one_line_each_and_give_no_commands() -> None:
    lines = github.render(report_with(HOSTILE)).removesuffix("\n").split("\n")
    assert len(lines) == 2
    assert all(line.startswith("::error ") for line in lines)
    assert all("::error::x" in line and "%250A" in line for line in lines)


def test_a_hostile_text_ends_no_block_of_markdown() -> None:
    text = writing.render(report_with(HOSTILE), ".md")
    fence = ""
    outside = []
    for line in text.split("\n"):
        if not fence and line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
        elif fence and line == fence:
            fence = ""
        elif not fence:
            outside.append(line)
    assert not fence
    # Code in a line ends with as many backticks as it begins with (CommonMark 6.1).
    rest = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", "\n".join(outside))
    assert "<script>" not in rest.replace("\\<script\\>", "")
    assert not [line for line in outside if line.startswith("::")]


def test_long_lines_of_output_are_cut_in_the_text() -> None:
    report = report_with("x")
    tail = OutputTail(stream="stdout", text="b" * 5000 + "\nshort\n")
    text = writing.render(replace(report, output=(tail,)), ".txt")
    assert "    " + "b" * 400 + "… (5000 characters)\n    short\n" in text
    assert "b" * 401 not in text


def test_a_report_without_a_rank_says_so() -> None:
    report = replace(report_with("x"), ranks="")
    assert ", no rank\n" in writing.render(report, ".txt")


def test_the_same_report_has_no_differences() -> None:
    report = report_with("x")
    found = comparing.compare(report, replace(report, time=9.0))
    assert found.same and not found.sections
    assert "nothing differs" in writing.render(found, ".txt")


def test_variables_of_one_run_and_equal_classes_are_no_difference() -> None:
    def with_variable(name: str, value: str) -> Report:
        variables = (EnvironmentVariable(name=name, value=value),)
        return replace(report_with("x"), environment=Environment(source="r", variables=variables))

    for name in ("PMIX_SERVER_URI2", "OMPI_MCA_orte_hnp_uri", "SLURM_JOB_ID", "_"):
        assert comparing.compare(with_variable(name, "1"), with_variable(name, "2")).same, name
    for name in ("OMP_NUM_THREADS", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"):
        assert not comparing.compare(with_variable(name, "1"), with_variable(name, "2")).same, name
    first = report_with("x").classes[0]
    frame = ReportFrame(function="main", line=9)
    one = replace(report_with("x"), classes=(replace(first, frames=(*first.frames, frame)),))
    twice = replace(one, classes=(one.classes[0], replace(one.classes[0], number=2)))
    assert comparing.compare(one, twice).same


def test_addresses_are_no_difference() -> None:
    def with_address(address: str) -> Report:
        report = report_with("x")
        variable = ReportVariable(name="kind", ranks="0-2", text=f'{address} "segv"')
        stop = ReportStop(ranks="3", text=f"received SIGSEGV: fail (kind={address})")
        first = replace(report.classes[0], variables=(variable,))
        return replace(report, classes=(first, *report.classes[1:]), stops=(stop,))

    assert comparing.compare(with_address("0x7ffe425d31a2"), with_address("0x7ffec7d958f6")).same
    assert not comparing.compare(with_address("0x7ffe425d31a2"), with_address("0x0")).same


def test_functions_inside_of_mpi_are_no_difference() -> None:
    def with_level(text: str) -> Report:
        stop = ReportStop(ranks="0", text=f"interrupted in PMPI_Recv <- main () at a.c:3{text}")
        return replace(report_with("x"), stops=(stop,))

    near, far = with_level(" (selected #4 main)"), with_level(" (selected #6 main)")
    assert comparing.compare(near, far).same
    assert not comparing.compare(near, with_level(" (selected #4 work)")).same


def test_differences_of_two_reports() -> None:
    before = report_with("x")
    after = replace(
        before,
        cause=replace(before.cause, what="y", severity="note"),
        classes=(replace(before.classes[0], ranks="0-3"),),
        environment=None,
    )
    found = comparing.compare(before, after, names=("a.json", "b.json"))
    rows = {section.title: section.rows for section in found.sections}
    assert [(each.name, each.before, each.after) for each in rows["summary"]] == [
        ("what", "x", "y")
    ]
    assert [(each.before, each.after) for each in rows["ranks by stack"]] == [
        ("[0-2]", "[0-3]"),
        ("[3]", ""),
    ]
    assert {each.name for each in rows["environment"]} == {"x", "KEY"}
    for suffix in (".txt", ".md", ".html"):
        text = writing.render(found, suffix)
        assert "a.json" in text and "[0-3]" in text
    assert json.loads(writing.render(found, ".json"))["type"] == "report-comparison"
    page = writing.render(found, ".html")
    assert not Page(page).open
    boxes = re.findall(r'<div class="cause (\w+)">', page)
    assert boxes == ["error", "note"]
    with pytest.raises(UsageError, match=r"no form \.xml"):
        writing.render(found, ".xml")
