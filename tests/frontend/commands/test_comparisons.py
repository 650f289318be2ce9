"""The commands compare, save and expand on sessions without a job."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from pgdb.errors import CommandError, PgdbError
from pgdb.frontend.analysis import values
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.full_answers import PAGE_RANKS, part_of
from pgdb.frontend.api.exit_status import EXIT_FAILED, EXIT_OK
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands.dispatch import Dispatcher, Display
from pgdb.frontend.commands.table import Shown
from pgdb.frontend.commands.workspace import Workspace
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import Evaluate
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    Failure,
    Record,
    Value,
    Various,
)
from tests.fakes.bare_session import BareSession
from tests.support.answers import answer, ranks


async def nothing_to_read(prompt: str) -> str | None:
    raise AssertionError(prompt)


class FakeRanks:
    """Ranks with the values of :attr:`ComparedSession.said`; other expressions fail."""

    def __init__(self, session: ComparedSession, asked: RankSet) -> None:
        self._session = session
        self._asked = asked

    async def evaluate_in_full(self, expression: str) -> Answer:
        values = self._session.said.get(expression, (("0-2999", Failure(message="No symbol")),))
        return part_of(answer(*values, command=f"print {expression}"), self._asked)

    evaluate = evaluate_in_full


class ComparedSession(BareSession):
    """A session of 3000 ranks, one of whose answers is no longer kept, for commands."""

    def __init__(self, **said: tuple[tuple[str, str], ...]) -> None:
        super().__init__(RankSet.range(0, 3000))
        self.said = said

    def ranks(self, asked: RankSet) -> FakeRanks:
        return FakeRanks(self, asked)

    async def ask(
        self,
        command: str,
        operation: Evaluate,
        asked: RankSet,
        *,
        timeout_s: float | None = None,
        of_ended: bool = False,
    ) -> Answer:
        assert not of_ended, "a comparison is about ranks that live"
        assert not operation.whole, f"{command}: nothing here is printed in part"
        return await FakeRanks(self, asked).evaluate_in_full(operation.expression)

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
        Workspace(cast(Session, ComparedSession())), cast(Display, None), read_line=nothing_to_read
    )
    dispatcher._remember(answer(("0-2999", Various(template=Value(text=PLACEHOLDER)))))
    texts = []
    for argument in arguments:
        outcome = asyncio.run(dispatcher.dispatch(f"expand {argument}", dispatcher.workspace.focus))
        assert isinstance(outcome, Shown)
        texts.append(outcome.text)
    return texts


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


def test_expand_goes_through_very_many_places_page_by_page() -> None:
    def structure(rank: int) -> Value:
        return Value(text="{" + ", ".join(f"f{n} = {rank + n}" for n in range(300)) + ", g = 1}")

    dispatcher = Dispatcher(
        Workspace(cast(Session, ComparedSession())), cast(Display, None), read_line=nothing_to_read
    )
    dispatcher._remember(answer(*((str(rank), structure(rank)) for rank in range(3))))

    def places(command: str) -> tuple[list[str], str]:
        outcome = asyncio.run(dispatcher.dispatch(command, dispatcher.workspace.focus))
        assert isinstance(outcome, Shown)
        lines = outcome.text.splitlines()
        return [line.split()[0] for line in lines if line.startswith("    .")], lines[-1]

    first, hint = places("expand")
    assert (first[0], first[-1], len(first)) == (".f0", ".f199", 200)
    assert hint == "(places 1-200 of 300; 'expand 201..' shows the next)"
    assert places("expand 1")[1] == "(places 1-200 of 300; 'expand 1 201..' shows the next)"
    last, hint = places("expand 201..")
    assert (last[0], last[-1], len(last)) == (".f200", ".f299", 100)
    assert hint == "(places 201-300 of 300)"
    assert places("expand 1 [0-1] 201..") == (last, hint)


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
        Workspace(cast(Session, ComparedSession(**said))),
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
    assert text == "@none is an empty set: no rank for 'print x'"
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
    assert (
        display[1] == "'delete' on [0-1]:\n'delete' was carried out on [0-1], and printed nothing"
    )
    assert display[2] == "1    print y  [0-1], 1 class\n2    delete  [0-1], 0 classes"
    assert display[4] == (
        "ERROR expand: 'compare x 0 with 1' has nothing to unfold; "
        "'expand -l' lists the answers before it"
    )


def test_long_values_are_compared_beside_the_loop_that_answers_aggregators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = ", ".join(f"[{key}] = {{id = {key}, mass = 1}}" for key in range(100))
    text = f"std::unordered_map with 100 elements = {{{cells}}}"
    said = {"m": (("0-2", text), ("3", text.replace("id = 50", "id = 51")))}
    threads: set[str] = set()
    read = values._Reader.value

    def noted(reader: values._Reader, *arguments: Any, **options: Any) -> Any:
        threads.add(threading.current_thread().name)
        return read(reader, *arguments, **options)

    monkeypatch.setattr(values._Reader, "value", noted)
    shown, _ = typed(
        "compare m 0 with 1-3", "assert m", "save before m", "compare m with before", **said
    )
    assert "[50].id" in shown[0]
    assert "FAILED on [3]" in shown[1]
    assert shown[3] == "m, before -> now: equal on [0-3]"
    assert threads
    assert all(each.startswith("pgdb ") for each in threads), threads
