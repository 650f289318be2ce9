"""Ranks that step or meet together, as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.ways import distinguished, listed
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api import absentees
from pgdb.frontend.api.absentees import Barrier
from pgdb.frontend.api.lockstep import Lockstep, is_step
from pgdb.frontend.api.notifications import BarrierNews
from pgdb.frontend.api.until_differ import Differ
from pgdb.frontend.show.text import comparison_text, event_text
from pgdb.frontend.show.text.event_text import ReadSource, no_source
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Failure, Record, Stop, is_error


def lockstep(found: Lockstep, read_source: ReadSource = no_source, width: int = 0) -> str:
    """Return where ranks have stopped after steps together, and why they have not stepped on."""
    stops = [each for each in found.answer.classes if _is_step(each)]
    lines = []
    if stops:
        # The session has kept these stops to itself.
        lines.append(
            event_text.events(cast("list[EquivalenceClass[Event]]", stops), read_source, width)
        )
    lines.append(reason_of(found))
    if found.end != "waiting":
        lines += _left(found.answer)
    return "\n".join(line for line in lines if line)


def reason_of(found: Lockstep) -> str:
    """Return the reason for the end of a lockstep; empty for one step that is complete."""
    count = "1 step" if found.steps == 1 else f"{found.steps} steps"
    after, answer, missing = f"after {count}", found.answer, found.answer.missing
    places = f"; {listed(found.ways)}" if found.ways else ""
    match found.end:
        case "complete":
            return f"{count}, all together" if found.steps > 1 else ""
        case "parted":
            apart = distinguished(found.ways, found.start)
            return f"the ranks part {after}, {_beginning(found, 'at')}: {apart}"
        case "waiting":
            return _waiting(found, after)
        case "lost":
            gone = missing.late | (missing.lost & found.ranks)
            return f"the lockstep ends {after}: [{gone}] lost or silent{places}"
        case "failed":
            why = "; ".join(f"[{each.ranks}] {_message(each)}" for each in answer.errors)
            return f"the lockstep ends {after}: {why}"
        case "ended":
            holds = _is_end
        case "error":
            holds = _is_fault
        case "stopped":
            holds = _is_other_stop
        case "interrupted":
            return f"the lockstep was interrupted {after}{places}"
        case "timeout":
            return f"the time of the command is over {after}{places}"
    # The ends have the places of their ranks.
    named = RankSet.union(each.ranks for each in answer.classes if holds(each.record))
    others = [replace(way, ranks=left) for way in found.ways if (left := way.ranks - named)]
    places = f"; {listed(others)}" if others else ""
    at = _beginning(found, "at")
    return f"the lockstep ends {after}, {at}: {_ends_of(answer, holds)}{places}"


def _beginning(found: Lockstep, word: str, ranks: RankSet | None = None) -> str:
    """Return the place before the last step, behind *word* if it is one; that of *ranks*."""
    ranks = found.ranks if ranks is None else ranks
    starts = [replace(way, ranks=part) for way in found.starts if (part := way.ranks & ranks)]
    if len(starts) == 1:
        return f"{word} {starts[0].text}"
    return f"from {listed(starts)}"


def differ(found: Differ, width: int = 0) -> str:
    """Return how a run from hit to hit has ended, with the values that differ."""
    lines = [_differ(found, width)]
    if found.end != "waiting":
        lines += _left(found.answer)
    return "\n".join(lines)


def _differ(found: Differ, width: int) -> str:
    where = f"hit {found.hit} of {found.location}" if found.hit else f"here, at {found.location}"
    match found.end:
        case "differ" if found.comparison is not None:
            text = comparison_text.comparison(
                found.comparison, found.expression, before="recording", after="now", width=width
            )
            return f"{where}: {found.expression} is not as in the recording\n{text}"
        case "differ" if found.check is not None:
            text = comparison_text.check(found.check, width=width)
            return f"{where}: {found.expression} differs\n{text}"
        case "recording":
            return f"{found.expression} is as in the recording, whose values end before {where}"
        case "failed" if found.check is not None and not found.answer.errors:
            text = comparison_text.check(found.check, width=width)
            return f"{where}: {found.expression} was not compared\n{text}{_before(found)}"
        case "failed" if found.comparison is not None and not found.answer.errors:
            text = comparison_text.comparison(
                found.comparison, found.expression, before="recording", after="now", width=width
            )
            return f"{where}: {found.expression} was not compared\n{text}{_before(found)}"
        case "complete":
            return f"{_sameness(found, 'is')} of {found.location}"
    after = f"after {_hits(found.hit)} of {found.location}"
    if not found.hit:
        after = f"before the first hit of {found.location}"
    return f"{_run_end(found, after)}\n{_sameness(found, 'was')}"


def _sameness(found: Differ, verb: str) -> str:
    """Return how often the values were the same."""
    as_ = "as in the recording" if found.comparison is not None else "the same"
    same = f"{found.expression} {verb} {as_} on [{found.ranks}]"
    if found.same_hits:
        all_ = f"all {_hits(found.hit)}" if found.hit > 1 else _hits(found.hit)
        if found.same_hits < found.hit:
            all_ = f"the last {found.same_hits} of {_hits(found.hit)}"
        return f"{same} at {all_}"
    if found.check is not None or found.comparison is not None:
        return f"{same} at the start, at {found.location}"
    at = f" at all {_hits(found.hit)}" if found.hit > 1 else ""
    return f"{found.expression} was not compared{at}"


def _before(found: Differ) -> str:
    """Return how often the values were the same before a hit at which they are unknown."""
    if not found.same_hits:
        return ""
    return f"\n{_sameness(replace(found, hit=found.hit - 1), 'was')} before"


def _hits(count: int) -> str:
    return "1 hit" if count == 1 else f"{count} hits"


def _run_end(found: Differ, after: str) -> str:
    """Return the reason for which a run from hit to hit ends, where no value differs."""
    match found.end:
        case "waiting":
            return _hit_awaited(found, after)
        case "interrupted":
            return f"interrupted {after}"
        case "timeout":
            return f"the time of the command is over {after}"
        case "lost":
            missing = found.answer.missing
            return f"the run ends {after}: [{missing.late | missing.lost}] lost or silent"
    answer = found.answer
    # Ranks at the hit are no reason for the end.
    others = tuple(each for each in answer.classes if not each.ranks <= found.came)
    ends = _ends_of(replace(answer, classes=others), lambda record: True)
    came = f"; [{found.came}] came" if found.came else ""
    return f"the run ends {after}: {ends or 'a rank has failed'}{came}"


def barrier_news(news: BarrierNews) -> str:
    """Return an event at a barrier in words."""
    found = news.barrier
    title = f"barrier {found.number}"
    there = f"[{found.arrived}] {by_number(found.arrived, 'is', 'are')} there"
    if not found.arrived:
        there = "no rank is there"
    absent = absentees.listed(found.absent)
    match news.event:
        case "met":
            without = f"; {absent}" if absent else ""
            they = by_number(found.arrived, "it", "they")
            s = by_number(found.arrived, "s", "")
            then = f"{they} run{s} on" if news.going else f"{they} stay{s} stopped"
            if news.stepped:
                then = _after_steps(news)
            times = f" for the {_ordinal(found.met)} time" if found.met > 1 else ""
            return f"{title}: {there}{times}{without}; {then}"
        case "absent":
            return f"{title}: {absent}; {there}"
        case "waiting" if not found.arrived:
            return f"{title}: {there}; {absent}"
        case "waiting":
            enable = ""
            if disabled := found.disabled - found.arrived:
                them = by_number(disabled, "it", "them")
                enable = f"'enable {found.number}' lets {them} come, and "
            way_out = f"{enable}'release {found.arrived}' or 'delete {found.number}' ends the wait"
            waits = by_number(found.arrived, "waits", "wait")
            return f"{title}: [{found.arrived}] {waits}; {absent}; {way_out}{_later(found)}"


def _after_steps(news: BarrierNews) -> str:
    """Return which ranks run on from a barrier, of which some have come by a step."""
    stepped, going = news.stepped, news.going
    stays, its = by_number(stepped, "stays", "stay"), by_number(stepped, "its", "their")
    stop = f"[{stepped}] {stays} stopped, at the end of {its} step"
    return f"[{going}] {by_number(going, 'runs', 'run')} on; {stop}" if going else stop


def _later(found: Barrier) -> str:
    """Return the barrier that ranks of several iterations meet at, if some may wait in MPI."""
    if found.condition or all(each.kind != "in MPI" for each in found.absent):
        return ""
    # The words of '-function f -line 3' have no set behind them.
    ranks = "" if found.location.startswith("-") else f" {found.ranks}"
    which = f"'barrier {found.location}{ranks} if VAR == N'"
    return f", and {which} lets ranks of several iterations meet in a later one"


def barrier_line(found: Barrier) -> str:
    """Return a barrier as a line of ``info barriers``."""
    condition = f" if {found.condition}" if found.condition else ""
    then = "then they run on" if found.then == "release" else "then they stay stopped"
    times = f", deleted after {_times(found.times)}" if found.times else ""
    met = f"met {_times(found.met)}"
    if found.incomplete:
        which = "" if found.incomplete == found.met else f"{found.incomplete} of them "
        met += f", {which}not by all"
    if found.disabled:
        met += (
            "; disabled" if found.disabled == found.ranks else f"; disabled on [{found.disabled}]"
        )
    lines = [
        f"{found.number}  {found.location}{condition}, for [{found.ranks}], {then}{times}; {met}"
    ]
    if found.arrived:
        lines.append(f"    there: [{found.arrived}]")
    if found.absent:
        lines.append(f"    {absentees.listed(found.absent)}")
    return "\n".join(lines)


def barrier_made(found: Barrier, without: RankSet = RankSet()) -> str:
    """Return the effect of a barrier that was made; ranks *without* it could not set it."""
    then = "run on" if found.then == "release" else "stay stopped"
    held = f"[{found.ranks}] {by_number(found.ranks, 'is', 'are')} held there"
    lacking = f", without [{without}]" if without else ""
    return f"barrier {found.number}: {held} until all have come{lacking}, and then {then}"


def _times(count: int) -> str:
    return f"{count} time{'s' * (count != 1)}"


def _ordinal(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    is_teen = number // 10 % 10 == 1
    return f"{number}{'th' if is_teen else ends.get(number % 10, 'th')}"


def _waiting(found: Lockstep, after: str) -> str:
    out = found.answer.missing.running
    done = found.ranks - out
    one = len(out) == 1
    # GDB completes 'next' over a call only when the call returns.
    why = (
        f"; [{done}] {by_number(done, 'has', 'have')} completed the step, and "
        f"[{out}] may wait for {by_number(done, 'it', 'them')} in MPI"
        if done
        else ""
    )
    if held := found.answer.missing.held:
        they_are = by_number(held, "is", "are")
        why += (
            f"; [{held}] {they_are} held, and [{out}] may wait for {by_number(held, 'it', 'them')}"
        )
    start = _beginning(found, "from", out)
    return (
        f"[{out}] still {'steps' if one else 'step'} {after}, {start}{why}; "
        f"'wait' waits longer, 'interrupt' stops {'it' if one else 'them'}"
    )


def _hit_awaited(found: Differ, after: str) -> str:
    missing = found.answer.missing
    if not (out := missing.running):
        return f"the wait was over {after}, and the last ranks came behind it"
    runs, them = by_number(out, "runs", "run"), by_number(out, "it", "them")
    why = f"; [{found.came}] came and may be waited for in MPI" if found.came else ""
    if missing.held:
        why += f"; {_held_back(missing.held)}"
    longer = "'wait' waits longer, " if found.came else ""
    text = f"[{out}] still {runs} {after}{why}; {longer}'interrupt' stops {them}"
    if found.came and " if " not in found.location:
        way_out = f"--at '{found.location} if VAR >= N'"
        text += f"; ranks of several iterations meet in a later one with {way_out}"
    return text


def _left(answer: Answer) -> list[str]:
    """Return the ranks that still run, and those that were left out."""
    lines, missing = [], answer.missing
    if out := missing.running:
        runs, them = by_number(out, "runs", "run"), by_number(out, "it", "them")
        why = f"; {_held_back(missing.held)}" if missing.held else ""
        lines.append(f"[{out}] still {runs}{why}; 'wait' waits longer, 'interrupt' stops {them}")
    elif missing.held:
        lines.append(f"[{missing.held}] held")
    return lines


def _held_back(held: RankSet) -> str:
    return f"[{held}] {by_number(held, 'is', 'are')} held and may be waited for in MPI"


def _ends_of(answer: Answer, holds: Callable[[object], bool]) -> str:
    classes = cast("tuple[EquivalenceClass[Event], ...]", answer.classes)
    return "; ".join(
        f"[{each.ranks}] {_message(each) if each.is_error else _first_line(each)}"
        for each in classes
        if holds(each.record)
    )


def _first_line(each: EquivalenceClass[Event]) -> str:
    return event_text.event(each.filled).partition("\n")[0]


def _is_end(record: object) -> bool:
    return isinstance(record, Exit)


def _is_fault(record: object) -> bool:
    return isinstance(record, Stop) and is_error(record)


def _is_other_stop(record: object) -> bool:
    return isinstance(record, Stop) and not is_step(record)


def _is_step(each: EquivalenceClass[Record]) -> bool:
    return isinstance(each.record, Stop) and is_step(each.record)


def _message(each: EquivalenceClass[Any]) -> str:
    return each.record.message if isinstance(each.record, Failure) else "failed"
