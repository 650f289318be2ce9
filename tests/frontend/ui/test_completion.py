"""Completion at the prompt, by the real table of commands."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.ui.completion import CommandCompleter
from pgdb.ranks import RankSet


def completed(text: str) -> list[str]:
    """Return the completions of a line in a session with two breakpoints and two named sets."""
    session = SimpleNamespace(set=RankSet([0]), sets={"edge": RankSet([0])}, last_breakpoint=2)
    workspace = Workspace(cast(Any, session))
    workspace.sets["odd"] = RankSet()
    workspace.saved.put(Saved("before", Answer("print x", RankSet([0]), ()), 0.0, "job"))
    completer = CommandCompleter(workspace)
    return [each.text for each in completer.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("decom", ["decompose"]),
        ("focus @e", ["@exited", "@error", "@edge"]),
        ("proc @odd backt", ["backtrace"]),
        ("proc @o", ["@odd"]),
        ("delete ", ["1", "2"]),
        ("info sou", ["source", "sources"]),
        ("help plo", ["plot"]),
        ("tree --by ", ["function", "line", "pc"]),
        ("tree -by l", ["line"]),
        ("p x --", []),
        ("bt -t", ["-threads", "-tree"]),
        ("proc 0 plot u --h", ["--hist", "--heat"]),
        ("saved -d ", ["before"]),
        ("set -k", ["-keep"]),
        ("set -keep s", ["settle", "status-line", "stop-on-error", "stop-before-death"]),
        ("set stop-on-error ", ["on", "off"]),
        ("show compare", ["compare-pointers"]),
        ("set compare-pointers ", ["symbol", "raw"]),
        ("set var ", []),
        ("nosuch ", []),
    ],
)
def test_a_line_is_completed(text: str, candidates: list[str]) -> None:
    assert completed(text) == candidates
