"""Comparisons of answers, saved answers, and the texts of comparisons."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import ClassVar, cast

import pytest

from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.analysis import saved
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.comparing import compare
from pgdb.frontend.analysis.full_answers import PAGE_RANKS, in_full, pages, part_of
from pgdb.frontend.analysis.saved import Saved, SavedAnswers
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands.dispatch import EXIT_FAILED, EXIT_OK, Dispatcher, Display
from pgdb.frontend.commands.table import Shown
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.text import comparison_text
from pgdb.frontend.store import saved_files
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.normalize import normalize_record
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    Failure,
    Frame,
    Record,
    Stack,
    Value,
    Variable,
    Variables,
    Various,
)


def ranks(text: str) -> RankSet:
    return RankSet.parse(text) if text else RankSet()


def answer(
    *said: tuple[str, str | Record], missing: Missing | None = None, command: str = "print x"
) -> Answer:
    """Return an answer; a text becomes a value, normalized as by the leaves."""
    classes = []
    for members, record in said:
        normalized = normalize_record(Value(text=record) if isinstance(record, str) else record)
        assert isinstance(normalized.record, Record)
        classes.append(
            EquivalenceClass[Record](
                ranks=ranks(members), record=normalized.record, slots=normalized.slots
            )
        )
    gone = missing or Missing()
    asked = RankSet.union([each.ranks for each in classes]) | gone.ranks
    return Answer(command=command, ranks=asked, classes=tuple(classes), missing=gone)


# -- by rank -----------------------------------------------------------------------------------


def test_ranks_that_say_the_same_are_equal_however_they_are_classed() -> None:
    found = compare(answer(("0-3", "1"), ("4-7", "2")), answer(("4-7", "2"), ("0-3", "1")))
    assert found.same
    assert found.equal == found.equal_others == ranks("0-7")


def test_a_difference_has_its_ranks_and_its_size() -> None:
    found = compare(answer(("0-3", "4")), answer(("0,3", "4"), ("1", "3"), ("2", "nan(0x8)")))
    assert not found.same
    assert found.equal == ranks("0,3")
    odd, by_one = found.differences
    assert (odd.ranks, odd.absolute) == (ranks("2"), None)  # no number: the first to be shown
    assert (by_one.ranks, by_one.absolute, by_one.relative) == (ranks("1"), 1.0, 0.25)


def test_the_largest_difference_comes_first() -> None:
    found = compare(answer(("0-2", "100")), answer(("0", "101"), ("1", "900"), ("2", "110")))
    assert [each.ranks.first for each in found.differences] == [1, 2, 0]


@pytest.mark.parametrize(
    ("one", "other", "options", "is_equal"),
    [
        ("1.0", "1.001", {"tolerance": 1e-2}, True),
        ("1.0", "1.001", {"tolerance": 1e-4}, False),
        ("0", "1e-9", {"tolerance": 1e-2}, False),
        ("0", "1e-9", {"absolute_tolerance": 1e-8}, True),
        ("nan(0x8000000000000)", "-nan(0x8000000000000)", {}, True),
        ("nan(0x8000000000000)", "0", {"absolute_tolerance": 1e300}, False),
        ("inf", "1e300", {"tolerance": 1.0}, False),
        ("97 'a'", "98 'b'", {"absolute_tolerance": 1.0}, True),
        ("(int *) 0x5555555592a0", "(int *) 0x7ffe10203040", {}, True),
        ("(int *) 0x5555555592a0", "(int *) 0x0", {}, False),
        ("{1, 2.5, 3}", "{1, 2.6, 3}", {"tolerance": 0.1}, True),
        ("{0 <repeats 20 times>}", "{0 <repeats 19 times>, 1}", {"tolerance": 0.1}, False),
        ('"abc"', '"abd"', {"tolerance": 1.0}, False),
    ],
)
def test_what_counts_as_equal(
    one: str, other: str, options: dict[str, float], is_equal: bool
) -> None:
    for before, after in ((one, other), (other, one)):
        found = compare(answer(("0", before)), answer(("0", after)), **options)  # type: ignore[arg-type]
        assert found.same == is_equal
        in_values = compare(
            answer(("0", before)),
            answer(("1", after)),
            by="value",
            **options,  # type: ignore[arg-type]
        )
        # As a value, a NaN is the text that GDB prints.
        assert in_values.same == is_equal or "nan" in one


def test_structures_are_compared_field_by_field() -> None:
    one = '{x = {0, 1, 2}, id = 7, name = 0x5555555592a0 "odd"}'
    other = '{x = {0, 1.5, 2}, id = 7, name = 0x7f55555592a0 "even"}'
    (difference,) = compare(answer(("0-3", one)), answer(("0-3", other))).differences
    number, name = difference.parts
    assert (number.path, number.before, number.after, number.absolute) == (".x[1]", "1", "1.5", 0.5)
    assert (name.path, name.absolute) == (".name", None)
    # A tolerance ignores the number and keeps the name.
    (difference,) = compare(
        answer(("0", one)), answer(("0", other)), absolute_tolerance=0.5
    ).differences
    assert [part.path for part in difference.parts] == [".name"]


def test_neighbouring_elements_that_differ_are_one_place() -> None:
    (difference,) = compare(
        answer(("0", "{0, 0, 0, 0, 5}")), answer(("0", "{0, 1, 2, 3, 5}"))
    ).differences
    (part,) = difference.parts
    assert (part.path, part.absolute, part.relative) == ("[1]@3", 3.0, 1.0)


def test_variables_are_compared_by_name() -> None:
    def locals_are(**values: str) -> Variables:
        items = tuple(Variable(name=name, value=value) for name, value in values.items())
        return Variables(items=items)

    one = locals_are(p="(int *) 0x5555555592a0", n="3", only="1", q="(int *) 0x7ffe10203040")
    other = locals_are(p="(int *) 0x7f55555592a0", n="4", q="(int *) 0x0")
    (difference,) = compare(answer(("0", one)), answer(("0", other))).differences
    assert [(part.path, part.before, part.after) for part in difference.parts] == [
        ("n", "3", "4"),
        ("only", "1", ""),
        ("q", "(int *) 0x7ffe10203040", "(int *) 0x0"),
    ]


def test_other_records_are_equal_or_not() -> None:
    def stack(line: int) -> Stack:
        return Stack(frames=(Frame(level=0, function="main", file="a.c", line=line),))

    found = compare(answer(("0-1", stack(3))), answer(("0", stack(3)), ("1", stack(4))))
    assert found.equal == ranks("0")
    (difference,) = found.differences
    assert (difference.ranks, difference.parts) == (ranks("1"), ())


def test_every_rank_is_in_one_set() -> None:
    before = answer(
        ("0-1", "1"), ("2", Failure(message="No symbol")), missing=Missing(running=ranks("3"))
    )
    after = answer(
        ("0,3", "1"),
        ("2", Failure(message="No symbol")),
        ("5", "2"),
        missing=Missing(lost=ranks("1")),
    )
    found = compare(before, after)
    assert not found.same
    assert found.equal == ranks("0")
    left = {(str(each.ranks), each.side): each.why for each in found.left_out}
    assert left == {
        ("2", "both"): "error: No symbol",
        ("1", "after"): "ended, detached or lost",
        ("3", "before"): "running",
        ("5", "before"): "not asked",
    }


def test_an_error_on_one_side_is_a_difference() -> None:
    found = compare(answer(("0", "1")), answer(("0", Failure(message="No symbol"))))
    assert [each.ranks for each in found.differences] == [ranks("0")]


def test_summed_up_values_are_not_taken_for_equal() -> None:
    various = answer(("0-2000", Various(template=Value(text=PLACEHOLDER))))
    found = compare(various, various)
    assert not found.same
    assert found.left_out[0].ranks == ranks("0-2000")


def test_very_many_classes() -> None:
    many = answer(*((str(rank), str(rank)) for rank in range(2000)))
    moved = answer(*((str(rank), str(rank + (rank == 77))) for rank in range(2000)))
    found = compare(many, moved)
    assert found.equal == ranks("0-76,78-1999")
    assert [each.ranks for each in found.differences] == [ranks("77")]


# -- by position and by value ------------------------------------------------------------------


def test_by_position() -> None:
    before = answer(("0", "1"), ("1", "2"), missing=Missing(late=ranks("2")))
    after = answer(("4", "1"), ("6,8", "3"))
    found = compare(before, after, by="position")
    assert (found.equal, found.equal_others) == (ranks("0"), ranks("4"))
    (difference,) = found.differences
    assert (difference.ranks, difference.others) == (ranks("1"), ranks("6"))
    (left,) = found.left_out
    assert (left.ranks, left.side, left.why) == (ranks("2"), "before", "no answer in time")
    with pytest.raises(UsageError, match="cannot be paired"):
        compare(before, answer(("4", "1")), by="position")


def test_by_value() -> None:
    before = answer(("0-5", "1"), ("6", "7"), ("7", Failure(message="No symbol")))
    after = answer(("8-9", "1"), ("10-12", "3"), ("13", "4"))
    found = compare(before, after, by="value")
    assert (found.equal, found.equal_others) == (ranks("0-5"), ranks("8-9"))
    assert [each.ranks for each in found.only_before] == [ranks("6")]
    assert [each.ranks for each in found.only_after] == [ranks("13"), ranks("10-12")]
    assert [(each.ranks, each.side) for each in found.left_out] == [(ranks("7"), "before")]


def test_a_tolerance_must_be_one() -> None:
    for bad in (-1.0, math.nan):
        with pytest.raises(UsageError, match="tolerance"):
            compare(answer(("0", "1")), answer(("0", "1")), tolerance=bad)


# -- in full -----------------------------------------------------------------------------------


def test_what_was_summed_up_is_asked_for_page_by_page() -> None:
    said = answer(("0-2999", Various(template=Value(text=PLACEHOLDER))), ("3000", "7"))
    asked: list[RankSet] = []

    async def recall(of: Answer, page: RankSet) -> Answer:
        assert of is said
        asked.append(page)
        gone = page & ranks("5")
        kept = ((str(rank), f"(int *) 0x7ffe{rank % 2:08x}") for rank in page - gone)
        classes = tuple(
            EquivalenceClass[Record](ranks=ranks(members), record=Value(text=text))
            for members, text in kept
        )
        return Answer(command="", ranks=page, classes=classes, missing=Missing(lost=gone))

    whole = asyncio.run(in_full(said, recall))
    assert asked == [ranks("0-1023"), ranks("1024-2047"), ranks("2048-2999")]
    # Addresses do not split classes, as in answers that are not summarized.
    assert [each.ranks for each in whole.classes] == [ranks("0-4,6-2999"), ranks("3000")]
    assert whole.missing.lost == ranks("5")


def test_pages_and_parts() -> None:
    assert [*pages(ranks("0-4"), 2)] == [ranks("0-1"), ranks("2-3"), ranks("4")]
    said = answer(("0-3", "1"), ("4", "2"), missing=Missing(running=ranks("5-6")))
    part = part_of(said, ranks("2-5"))
    assert part.ranks == ranks("2-5")
    assert [each.ranks for each in part.classes] == [ranks("2-3"), ranks("4")]
    assert part.missing == Missing(running=ranks("5"))


class FakeRanks:
    """Ranks with the values of :attr:`FakeSession.said`; other expressions fail."""

    def __init__(self, session: FakeSession, asked: RankSet) -> None:
        self._session = session
        self._asked = asked

    async def evaluate_in_full(self, expression: str) -> Answer:
        values = self._session.said.get(expression, (("0-2999", Failure(message="No symbol")),))
        return part_of(answer(*values, command=f"print {expression}"), self._asked)

    evaluate = evaluate_in_full


class FakeSession:
    """A session of 3000 ranks, one of whose answers is no longer kept, for commands."""

    set = RankSet.range(0, 3000)
    sets: ClassVar[dict[str, RankSet]] = {}
    description = "fake"
    state = JobState(RankSet.range(0, 3000))

    def __init__(self, **said: tuple[tuple[str, str], ...]) -> None:
        self.said = said

    def ranks(self, asked: RankSet) -> FakeRanks:
        return FakeRanks(self, asked)

    def named_set(self, name: str) -> RankSet | None:
        return RankSet()

    async def recall(self, answer: Answer, page: RankSet) -> Answer:
        assert len(page) <= PAGE_RANKS
        gone = page & ranks("5")
        classes = tuple(
            EquivalenceClass[Record](ranks=RankSet([rank]), record=Value(text=f"{rank}.5"))
            for rank in page - gone
        )
        return Answer(answer.command, page, classes, missing=Missing(lost=gone))


def expanded(*arguments: str) -> list[str]:
    """Return the output of ``expand``, for each of *arguments*, of one answer of 3000 ranks."""
    dispatcher = Dispatcher(
        Workspace(cast(Session, FakeSession())), cast(Display, None), read_line=nothing_to_read
    )
    dispatcher._remember(answer(("0-2999", Various(template=Value(text=PLACEHOLDER)))))
    texts = []
    for argument in arguments:
        outcome = asyncio.run(dispatcher.dispatch(f"expand {argument}", dispatcher.workspace.focus))
        assert isinstance(outcome, Shown)
        texts.append(outcome.text)
    return texts


async def nothing_to_read(prompt: str) -> str | None:
    raise AssertionError(prompt)


def test_expand_goes_through_very_many_ranks_page_by_page() -> None:
    first, last, one = expanded("", "1 2048-2999", "[5,2000]")
    assert "[1023] x = 1023.5" in first
    assert "[1024]" not in first
    assert first.splitlines()[-2:] == [
        "[5] no longer kept",
        "(1024 of 3000 ranks; 'expand 1024-2047' shows the next)",
    ]
    assert "[2999] x = 2999.5" in last
    assert "shows the next" not in last
    assert last.startswith("'print x' on [0-2999]:\n")
    assert one.splitlines() == ["[2000] x = 2000.5", "[5] no longer kept"]
    with pytest.raises(CommandError, match="there is no answer 3"):
        expanded("3")


class FakeDisplay:
    """A display that keeps the output; 50 columns wide."""

    width = 50

    def __init__(self) -> None:
        self.said: list[str] = []

    def flush(self) -> None:
        pass

    def answer(self, answer: Answer, text: str, *, is_source: bool) -> None:
        self.said.append(text)

    def text(self, text: str) -> None:
        self.said.append(text)

    def shown(self, shown: Shown) -> None:
        self.said.append(shown.text)

    def error(self, error: PgdbError, command: str) -> None:
        self.said.append(f"ERROR {error}")


def typed(*lines: str, **said: tuple[tuple[str, str], ...]) -> tuple[list[str], Dispatcher]:
    """Execute lines; return the output of each."""
    display = FakeDisplay()
    dispatcher = Dispatcher(
        Workspace(cast(Session, FakeSession(**said))),
        cast(Display, display),
        read_line=nothing_to_read,
    )

    async def run() -> None:
        for line in lines:
            await dispatcher.run_line(line)

    asyncio.run(run())
    return display.said, dispatcher


LONG = ", ".join(str(number) for number in range(200))


def test_arrays_are_compared_element_by_element_and_cut_to_the_width() -> None:
    said = {"u": (("0-2", f"{{1, 5, {LONG}}}"), ("3", f"{{1, 7, {LONG}}}"))}
    (text,), _ = typed("compare u 0-1 with 2-3", **said)
    assert text.splitlines() == [
        "u, [0-1] with [2-3]: 1 value on one side only",
        "[0-1] and [2] on both sides",
        "[0-3] u = {1, …, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10…",
        "    [1]  [0-2] 5",
        "         [3]   7  <-- differs  @2",
        "(--all shows all of it)",
    ]
    (text,), _ = typed("compare u 0-1 with 2-3 --all", **said)
    assert LONG in text


def test_a_changed_array_is_cut_to_the_width() -> None:
    before, after = (f"{{{number}, {LONG}}}" for number in ("{1}", "2"))
    found = compare(answer(("0", before)), answer(("0", after)))
    text = comparison_text.comparison(found, "u", before="then", after="now", width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert " -> " in text
    found = compare(answer(("0", "13"), ("1-9", "2")), answer(("0", "0.33333333333"), ("1-9", "2")))
    assert comparison_text.comparison(
        found, "u", before="then", after="now", width=50
    ).splitlines() == [
        "u, then -> now: 1 of 10 ranks differs",
        "[1-9] equal",
        "[0]   13 -> 0.33333333333",
        "        (by 12.7, relative 0.974)",
    ]


def test_a_comparison_of_nothing_fails() -> None:
    (text,), dispatcher = typed("compare nosuch 0 with 1")
    assert text.splitlines() == [
        "nosuch, [0] with [1]: nothing could be compared",
        "[0-1] not compared: error: No symbol",
    ]
    assert dispatcher.status == EXIT_FAILED
    _, dispatcher = typed("compare x 0 with 1", x=(("0-1", "3"),))
    assert dispatcher.status == EXIT_OK


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("compare x 0 with 1 --foo", "compare: no option '--foo'; there are --pairwise, --all"),
        ("compare x 0 with 1 --tolerance", "compare: --tolerance needs a value"),
        ("stat --foo x", "stat: no option '--foo'; there are --bins"),
        ("stat x --bins", "stat: --bins needs a value"),
        ("stat x --bins 101", "stat: --bins 101 is too many; 100 is the limit"),
        ("stat x --bins 99999999999", "too many"),
        ("assert x == 1 --foo", "assert: no option '--foo'"),
        ("saved -d", "saved: -d needs the name of a saved answer"),
        ("saved -d a", "there is no answer 'a' (nothing is saved)"),
        ("save typo -o a.json", "save: nothing is saved as 'typo' (nothing is saved)"),
        ("compare with none.rec", "none.rec cannot be read: No such file"),
        ("save typo -o", "save: -o needs a FILE: 'save NAME -o FILE'"),
        ("save typo x -o", "save: -o needs a FILE: 'save NAME -o FILE'"),
    ],
)
def test_what_cannot_be_understood_is_named(line: str, why: str) -> None:
    (text,), dispatcher = typed(line)
    assert text.startswith("ERROR ")
    assert why in text
    assert dispatcher.status == EXIT_FAILED


def test_what_c_decrements_is_no_option() -> None:
    (text,), _ = typed("assert --x > 0", **{"--x > 0": (("0-2999", "1"),)})
    assert text == "--x > 0: passed on [0-2999]"


def test_a_failed_answer_is_not_saved() -> None:
    dispatcher = typed()[1]
    dispatcher._remember(answer(("0", Failure(message="No symbol")), command="print nosuch"))
    with pytest.raises(CommandError, match="'print nosuch' has failed"):
        asyncio.run(dispatcher.dispatch("save a", dispatcher.workspace.focus))
    assert not len(dispatcher.workspace.saved)


def test_a_file_that_cannot_be_written_is_reported_with_what_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "none" / "a.json"
    (text,), dispatcher = typed(f"save a x -o {file}", x=(("0-2999", "3"),))
    assert "cannot be written" in text
    assert "it is saved as a in this session only" in text
    assert dispatcher.workspace.saved.get("a") is not None


def test_a_command_for_nobody_says_so() -> None:
    (text,), dispatcher = typed("proc @none print x")
    assert text == "@none is an empty set: nobody to carry out 'print x'"
    assert dispatcher.status == EXIT_OK


def test_expand_is_about_the_last_command() -> None:
    display, dispatcher = typed()
    dispatcher._remember(answer(("0-1", "3"), command="print y"))
    dispatcher._remember(Answer("delete", ranks("0-1"), ()))

    async def run(*lines: str) -> None:
        for line in lines:
            await dispatcher.run_line(line)

    asyncio.run(run("expand 1 [1]", "expand 2", "expand -l", "compare x 0 with 1", "expand"))
    assert display[0] == "'print y' on [0-1]:\n[1] y = 3"
    assert display[1] == "'delete' on [0-1]:\n'delete' has no text on [0-1]: done, without a word"
    assert display[2] == "1    print y  [0-1], 1 class\n2    delete  [0-1], 0 classes"
    assert display[4] == (
        "ERROR expand: 'compare x 0 with 1' has nothing to unfold; "
        "'expand -l' lists the answers before it"
    )


# -- texts -------------------------------------------------------------------------------------


def test_text_by_rank() -> None:
    found = compare(
        answer(("0-31", "3.5"), command="print x"),
        answer(("0-6,9-31", "3.5"), ("7", "nan(0x8)"), ("8", "4")),
    )
    assert comparison_text.comparison(found, "x", before="then", after="now") == (
        "x, then -> now: 2 of 32 ranks differ, by up to 0.5 (relative 0.125)\n"
        "[0-6,9-31] equal\n"
        "[7]        3.5 -> nan(0x8)\n"
        "[8]        3.5 -> 4  (by 0.5, relative 0.125)"
    )
    same = compare(answer(("0-31", "3.5")), answer(("0-31", "3.5")))
    assert comparison_text.comparison(same, "x", before="then", after="now") == (
        "x, then -> now: equal on [0-31]"
    )


def test_text_of_many_differences_is_folded_and_says_so() -> None:
    found = compare(
        answer(("0-99", "0")), answer(*((str(rank), str(rank + 1)) for rank in range(100)))
    )
    text = comparison_text.comparison(found, "x", before="then", after="now")
    assert "100 of 100 ranks differ, by up to 100 (relative 1)" in text
    assert "(90 more classes with 90 ranks; --all shows them)" in text
    assert len(text.splitlines()) == 12
    whole = comparison_text.comparison(found, "x", before="then", after="now", whole=True)
    assert len(whole.splitlines()) == 101


def test_text_by_value() -> None:
    found = compare(answer(("0-2", "1"), ("3", "5")), answer(("4-7", "1")), by="value")
    assert comparison_text.comparison(found, "x", before="[0-3]", after="[4-7]") == (
        "x, [0-3] with [4-7]: 1 value on one side only\n"
        "[0-2] and [4-7] on both sides\n"
        "[3]             only [0-3]: 5"
    )


# -- saved answers -----------------------------------------------------------------------------


def test_a_file_gives_back_the_answer(tmp_path: Path) -> None:
    said = answer(
        ("0-3", "(int *) 0x5555555592a0"),
        ("4", Failure(message="No symbol")),
        missing=Missing(running=ranks("5")),
    )
    path = tmp_path / "a.json"
    path.write_text("old")
    saved_files.write(Saved("a", said, 12.5, "mpirun -n 6 ./a"), path)
    again = saved_files.read(path)
    assert (again.name, again.time_s, again.job) == ("a", 12.5, "mpirun -n 6 ./a")
    assert again.answer == said
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "x"}', b"\xff\xfe"])
def test_a_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(CommandError, match=r"a\.json is no saved answer"):
        saved_files.read(path)


def test_a_file_whose_sets_would_take_very_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    saved_files.write(Saved("a", answer(("0", "1")), 0.0), path)
    file = json.loads(path.read_text())
    file["classes"] = [{**file["classes"][0], "ranks": "0-16777214/2"}] * 300
    path.write_text(json.dumps(file))
    with pytest.raises(CommandError, match=r"a\.json is no saved answer.*rank sets are too large"):
        saved_files.read(path)


def test_files_that_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        saved_files.read(tmp_path / "none.json")
    with pytest.raises(CommandError, match="cannot be written: No such file"):
        saved_files.write(Saved("a", answer(("0", "1")), 0.0), tmp_path / "none" / "a.json")
    version = tmp_path / "new.json"
    saved_files.write(Saved("a", answer(("0", "1")), 0.0), version)
    version.write_text(version.read_text().replace('"version":1', '"version":2'))
    with pytest.raises(CommandError, match="of version 2, not"):
        saved_files.read(version)


def test_saved_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = SavedAnswers()
    one = Saved("one", answer(("0", "1")), 0.0)
    assert kept.put(one) is None
    assert kept.put(Saved("one", answer(("0", "2")), 0.0)) is one
    for name in ("", "0-3", "a b", "all"):
        with pytest.raises(UsageError, match="cannot be a name"):
            kept.put(Saved(name, one.answer, 0.0))
    monkeypatch.setattr(saved, "MOST_SAVED", 2)
    kept.put(Saved("two", one.answer, 0.0))
    with pytest.raises(CommandError, match="2 answers are kept already"):
        kept.put(Saved("three", one.answer, 0.0))
    monkeypatch.setattr(saved, "MOST_SAVED_BYTES", 1 << 20)
    with pytest.raises(CommandError, match="MiB"):
        kept.put(Saved("two", answer(("0", "x" * (3 << 20))), 0.0))
    assert [each.name for each in kept] == ["one", "two"]
    assert kept.forget("one")
    assert not kept.forget("one")
