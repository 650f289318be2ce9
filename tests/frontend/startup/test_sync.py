"""The synchronous API: the same calls as the coroutines, and the names of the package."""

from __future__ import annotations

import asyncio
import inspect
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import ForwardRef, cast

import pytest

import pgdb
from pgdb import records
from pgdb.errors import PgdbError, SessionEndedError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import (
    rank_data,
    rank_groups,
    rank_view,
    setting_changes,
    sync_generated,
)
from pgdb.frontend.api import session as aio
from pgdb.frontend.api.loop_thread import LoopThread
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.report import reporting
from pgdb.frontend.startup import start, sync
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Value

_GENERATOR = Path(__file__).resolve().parents[3] / "scripts" / "generate_sync.py"
INNER: dict[str, set[str]] = runpy.run_path(str(_GENERATOR))["INNER"]


def public(cls: type[object]) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def shape(function: object) -> list[tuple[str, object, object]]:
    assert callable(function)
    found = inspect.signature(function)
    each = [(name, part.kind, part.default) for name, part in found.parameters.items()]
    returned = "Ranks" if found.return_annotation == "RankView" else found.return_annotation
    return [*each, ("return", returned, None)]


# -- the same calls ----------------------------------------------------------------------------


def test_generated_calls_are_fresh() -> None:
    generated = runpy.run_path(str(_GENERATOR))["generate"]()
    target = _GENERATOR.parents[1] / "frontend" / "api" / "sync_generated.py"
    assert generated == target.read_text("utf-8"), "run: python scripts/generate_sync.py"


def test_every_call_on_ranks_is_there_with_the_same_arguments() -> None:
    classes = (rank_data.RankData, rank_groups.RankGroups, rank_view.RankView)
    calls = set().union(*map(public, classes))
    wanted = calls - INNER["RankData"] - INNER["RankView"] | {"set"}
    assert wanted - public(sync.Ranks) == set()
    for name in sorted(wanted - {"set"}):
        assert shape(getattr(sync.Ranks, name)) == shape(getattr(rank_view.RankView, name)), name


def test_every_call_on_a_session_is_there() -> None:
    calls = public(sync.Session) | public(sync_generated.SessionCalls)
    written = {"close", "subscribe", "ranks", "has_ended", "start_answer", "set"}
    assert public(aio.Session) - INNER["Session"] | written == calls & public(aio.Session) | {"set"}
    for name in ("close", "parse_ranks", "named_set", "__getitem__"):
        assert shape(getattr(sync.Session, name)) == shape(getattr(aio.Session, name)), name


@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("report", reporting.report),
        ("change_settings", setting_changes.change),
        ("ranks", aio.Session.ranks),
        ("__getitem__", aio.Session.__getitem__),
        ("start_answer", aio.Session.start_answer),
        ("has_ended", aio.Session.has_ended),
    ],
)
def test_written_members_are_those_of_the_asynchronous_session(name: str, original: object) -> None:
    written = getattr(sync.Session, name)
    assert inspect.getdoc(written) is not None
    assert _words(written) == _words(original)
    if isinstance(original, property):
        assert isinstance(written, property)
        return
    # An asynchronous function has the session as its first argument.
    own, theirs = shape(written), shape(original)
    assert own[1:] == theirs[1:]


def _words(documented: object) -> list[str]:
    """Return the words of a docstring; its lines are filled to the width of their place."""
    return (inspect.getdoc(documented) or "").split()


def test_every_option_is_a_keyword_argument() -> None:
    wanted = {field.name: field.type for field in fields(SessionOptions)}
    # attach() has `ranks` by itself, since it takes text; a launched job is taken whole.
    del wanted["ranks"]
    found: dict[str, ForwardRef] = sync_generated.Options.__annotations__
    assert {name: each.__forward_arg__ for name, each in found.items()} == wanted


def test_unknown_option_is_refused() -> None:
    for call, message in (
        (
            lambda: pgdb.attach(1, agregators=2),  # type: ignore[call-arg]
            "attach: there is no option 'agregators'; did you mean 'aggregators'?",
        ),
        (
            lambda: pgdb.attach(1, on_events=print),  # type: ignore[call-arg]
            "attach: there is no option 'on_events'; did you mean 'on_event'?",
        ),
        (
            lambda: pgdb.launch(["mpirun", "x"], timeout=2),  # type: ignore[call-arg]
            "launch: there is no option 'timeout'; did you mean 'timeout_s'?",
        ),
        (
            lambda: pgdb.open_cores("x", qqq=2),  # type: ignore[call-arg]
            "open_cores: there is no option 'qqq'; pgdb.SessionOptions describes all",
        ),
    ):
        with pytest.raises(UsageError) as error:
            call()
        assert str(error.value) == message
    with pytest.raises(UsageError, match="--fan-out 0"):
        pgdb.launch(["mpirun", "x"], fan_out=0)
    with pytest.raises(pgdb.RankSetError, match="7-5"):
        pgdb.attach(1, ranks="7-5")


class _Side:
    """A session of one side of a comparison, whose ranks all have the same value."""

    def __init__(self, value: str, *, takes_s: float = 0.0) -> None:
        self.options = SessionOptions()
        self.left_s: list[float] = []
        self._value = value
        self._takes_s = takes_s

    async def ask(
        self,
        command: str,
        operation: object,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
        of_ended: bool = False,
    ) -> Answer:
        assert not of_ended
        self.left_s.append(deadline.answers_s(60.0, timeout_s))
        await asyncio.sleep(self._takes_s)
        return Answer(command, ranks, (EquivalenceClass(ranks, Value(text=self._value)),))

    async def recall(self, answer: Answer, ranks: RankSet) -> Answer:
        raise AssertionError("there is nothing to recall")

    def on(self, loop_thread: LoopThread) -> sync.Ranks:
        return sync.Ranks(
            loop_thread, rank_view.RankView(cast("aio.Session", self), RankSet.range(0, 2))
        )


@pytest.mark.slow
@pytest.mark.parametrize("same_loop", [True, False])
def test_both_sides_of_a_comparison_share_the_time(
    loop_thread: LoopThread, same_loop: bool
) -> None:
    one, other = _Side("1", takes_s=0.3), _Side("2")
    other_loop = loop_thread if same_loop else LoopThread()
    found = one.on(loop_thread).compare("x", other.on(other_loop), timeout_s=20.0)
    assert found.differing
    assert 19.0 < one.left_s[0] <= 20.0
    assert other.left_s[0] <= one.left_s[0] - 0.3
    assert one.on(loop_thread).compare("x", other.on(other_loop)).differing
    assert (one.left_s[1], other.left_s[1]) == (60.0, 60.0)
    if not same_loop:
        other_loop.end(lambda: asyncio.sleep(0))
        with pytest.raises(SessionEndedError, match="the session has ended"):
            one.on(loop_thread).compare("x", other.on(other_loop))


def test_compare_refuses_what_has_no_values(loop_thread: LoopThread) -> None:
    with pytest.raises(UsageError, match="other is '2-3', and neither a Ranks nor an Answer"):
        _Side("1").on(loop_thread).compare("x", cast("Answer", "2-3"))


# -- what `import pgdb` gives ------------------------------------------------------------------


def test_every_name_of_the_package_can_be_had() -> None:
    for name in pgdb.__all__:
        assert getattr(pgdb, name) is not None
    assert set(pgdb._HOMES) | set(pgdb._MODULES) | {"__version__"} == set(pgdb.__all__)
    assert dir(pgdb) == sorted(pgdb.__all__)
    assert pgdb.attach is sync.attach
    assert pgdb.aio.attach is start.attach
    assert pgdb.records is records
    with pytest.raises(AttributeError, match="no attribute 'atach'"):
        pgdb.atach  # noqa: B018


def test_every_error_is_exported() -> None:
    errors = {
        name
        for name, each in vars(pgdb.errors).items()
        if isinstance(each, type) and issubclass(each, PgdbError)
    }
    assert errors <= set(pgdb.__all__)


def test_import_alone_loads_nothing() -> None:
    code = "import pgdb, sys; print(*sorted(m for m in sys.modules if m.startswith('pgdb')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pgdb", "pgdb.version"]
