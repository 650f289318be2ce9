"""Arguments that a stack has left out, asked for again when its answer is unfolded."""

from __future__ import annotations

import itertools

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.full_answers import pages
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.text import layout
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import Backtrace
from pgdb.ranks import RankSet
from pgdb.records import Record, Stack, Stop, Various

_LEFT_OUT = "..."
Place = tuple[str, str, int]
"""Function, file and line of a frame."""


def shows_more(session: Session, answer: Answer) -> bool:
    """Return whether :func:`with_whole_arguments` shows an argument that is only ``...`` here."""
    if answer.command.partition(" ")[0] != "backtrace" or session.is_recorded:
        return False
    return any(_has_bare_points(_stack_of(each)) for each in answer.classes)


def _has_bare_points(stack: Stack) -> bool:
    return any(item.value == _LEFT_OUT for frame in stack.frames for item in frame.arguments)


async def with_whole_arguments(
    session: Session, answer: Answer, notes: list[str]
) -> tuple[Answer, list[str]]:
    """Return an answer to ``backtrace`` with whole arguments, and notes for the user.

    Only ranks that stand where they stood are asked. Others keep the answer that they gave.
    """
    word, _, number = answer.command.partition(" ")
    if word != "backtrace" or session.is_recorded:
        return answer, notes
    wanted = RankSet.union(each.ranks for each in answer.classes if _has_left_out(each))
    if not wanted:
        return answer, notes
    if answer.request_id <= session.earlier_requests:
        why = "the job was launched again since: what was left out is not known"
        return answer, [*notes, why]
    stood = _not_moved(session, wanted, answer.request_id)
    if moved := wanted - stood:
        notes = [*notes, f"{layout.brackets(moved)} moved since: what was left out is not known"]
    page = next(itertools.islice(pages(stood), 1), RankSet())
    if not page:
        return answer, notes
    limit = int(number) if number.lstrip("-").isdecimal() else 0
    folds = any(bool(_stack_of(each).hidden) for each in answer.classes if _has_left_out(each))
    asked = Backtrace(limit=limit, fold=folds, split=True, whole=True)
    full = await session.ask(answer.command, asked, page)
    whole = [each for each in full.classes if _is_same_place(answer, each)]
    known = RankSet.union(each.ranks for each in whole)
    left = [part for each in answer.classes if (part := each.part(each.ranks - known)).ranks]
    classes = sorted((*left, *whole), key=lambda each: each.ranks.first)
    if unknown := page - known:
        notes = [
            *notes,
            f"{layout.brackets(unknown)} gave no answer about the arguments that were left out",
        ]
    return replace(answer, classes=tuple(classes)), notes


def _not_moved(session: Session, ranks: RankSet, request_id: int) -> RankSet:
    """Return the ranks that have been stopped since before a request."""
    latest = session.state.latest(ranks & session.state.stopped)
    return RankSet.union(
        each.ranks
        for each in latest
        if isinstance(each.record, Stop) and each.record.run < request_id
    )


def _stack_of(each: EquivalenceClass[Record]) -> Stack:
    filled = each.filled
    return filled if isinstance(filled, Stack) else Stack(frames=())


def _has_left_out(each: EquivalenceClass[Record]) -> bool:
    if isinstance(each.record, Various):
        return False
    return any(
        item.value.endswith(_LEFT_OUT)
        for frame in _stack_of(each).frames
        for item in frame.arguments
    )


def _is_same_place(answer: Answer, whole: EquivalenceClass[Record]) -> bool:
    """Return whether a class has the frames that its ranks had in an answer."""
    places = _places(whole)
    return bool(places) and all(
        _places(each) == places for each in answer.classes if not each.ranks.isdisjoint(whole.ranks)
    )


def _places(each: EquivalenceClass[Record]) -> list[Place]:
    return [(frame.function, frame.file, frame.line) for frame in _stack_of(each).frames]
