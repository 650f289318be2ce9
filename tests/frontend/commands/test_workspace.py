"""A workspace: rank sets and answers of one user interface, beside those of the session."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pgdb.errors import CommandError, RankSetError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.commands import workspace as workspace_module
from pgdb.frontend.commands.workspace import Workspace
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Value
from tests.fakes.bare_session import BareSession

ALL = RankSet.range(0, 8)


class EightRanks(BareSession):
    """A session of eight ranks."""

    def __init__(self) -> None:
        super().__init__(ALL)

    def ranks(self, which: RankSet) -> None:
        if unknown := which - ALL:
            raise RankSetError(f"no rank {unknown}; the job has {ALL}")


def workspace(session: EightRanks | None = None) -> Workspace:
    return Workspace(cast(Any, session or EightRanks()))


def answer(text: str, ranks: str = "0-7") -> Answer:
    members = RankSet.parse(ranks)
    return Answer("print x", members, (EquivalenceClass(members, Value(text=text)),))


def test_two_workspaces_of_a_session_do_not_see_each_other() -> None:
    session = EightRanks()
    one, two = workspace(session), workspace(session)
    one.focus, one.sets["odd"] = RankSet([1]), RankSet([1, 3])
    one.remember(answer("1"), (RankSet([5]),))
    assert str(two.focus) == "0-7" and not two.answers and not session.sets
    for name in ("@odd", "@1"):
        with pytest.raises(RankSetError):
            two.parse_ranks(name)
    assert (str(one.parse_ranks("@odd,@1")), str(two.parse_ranks("0-3"))) == ("1,3,5", "0-3")


def test_names_are_those_of_the_workspace_then_of_the_session() -> None:
    session = EightRanks()
    session.sets.update(a=RankSet([0]), b=RankSet([1]), none=RankSet())
    own = workspace(session)
    own.sets["a"] = RankSet([7])
    assert (str(own.parse_ranks("@a,@b")), str(own.parse_ranks("0,@stopped"))) == ("1,7", "0")
    assert not own.parse_ranks("@none")
    assert own.all_sets == {"a": RankSet([7]), "b": RankSet([1]), "none": RankSet()}
    assert own.forget_set("a") and not own.forget_set("a")
    assert own.named_set("a") is None and session.sets.keys() == {"b", "none"}


def test_ranks_that_the_job_does_not_have_are_refused() -> None:
    with pytest.raises(RankSetError, match=r"^no rank 8-9; the job has 0-7$"):
        workspace().parse_ranks("6-9")


def test_answers_have_numbers_and_their_classes_are_sets() -> None:
    own = workspace()
    with pytest.raises(CommandError, match=r"^there is no earlier answer$"):
        own.recall(0)
    own.without_answer = "tree"
    assert own.remember(answer("1"), (RankSet([0]), RankSet([1]))) == 1
    assert own.without_answer == ""
    # An answer without classes leaves the sets as they are.
    assert own.remember(Answer("delete", ALL, ()), ()) == 2
    assert (str(own.parse_ranks("@2")), own.named_set("3"), own.named_set("0")) == ("1", None, None)
    assert own.recall(1) == answer("1") and own.recall(0).command == "delete"
    with pytest.raises(CommandError, match=r"^there is no answer 3; the kept ones are 1 to 2$"):
        own.recall(3)


def test_the_oldest_answers_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    own = workspace()
    for _ in range(workspace_module.HISTORY + 3):
        own.remember(answer("1"), ())
    assert [number for number, _ in own.answers][:2] == [4, 5]
    monkeypatch.setattr(workspace_module, "HISTORY_BYTES", 0)
    own.remember(answer("1"), ())
    assert [number for number, _ in own.answers] == [workspace_module.HISTORY + 4]


def test_a_recording_restores_the_workspace() -> None:
    before = workspace()
    before.focus, before.sets["odd"] = RankSet([1]), RankSet([1, 3])
    before.remember(answer("1"), (RankSet([0]),))
    before.saved.put(Saved("a", answer("2"), 0.0, "job"))
    after = workspace()
    after.restore(before.state)
    assert after.state == before.state
    assert after.remember(answer("3"), ()) == 2
    # New answers do not push out the restored one.
    for _ in range(workspace_module.HISTORY - 1):
        after.remember(answer("3"), ())
    assert after.recall(1) == answer("1")
