"""Steps of ranks that have stopped inside a call of MPI or of a library.

Such a stop selects the frame of the program that has made the call. GDB steps the innermost frame,
and says so only on ranks whose innermost function has no line information.
"""

from __future__ import annotations

from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.commands.table import Call
from pgdb.ranks import RankSet
from pgdb.records import Stop, is_fatal

_MOST_NAMED = 4


def note_steps(call: Call) -> None:
    """Note which ranks a step sets running inside a call, and how the call is completed."""
    state = call.session.state
    inside: dict[str, RankSet] = {}
    for each in state.latest(call.ranks & state.stopped - state.held):
        stop = each.record
        if isinstance(stop, Stop) and _is_inside(stop):
            inside[stop.inside] = inside.get(stop.inside, RankSet()) | each.ranks
    if not inside:
        return
    ranks = RankSet.union(inside.values())
    calls = ", ".join(f"[{part}] {function}" for function, part in inside.items())
    if len(inside) == 1:
        calls = next(iter(inside))
    elif len(inside) > _MOST_NAMED:
        calls = "calls of libraries"
    call.session.note(
        f"[{ranks}] {by_number(ranks, 'is', 'are')} inside {calls}: '{call.word}' steps the "
        "innermost frame there; 'down' and 'finish' run to the end of the call"
    )


def _is_inside(stop: Stop) -> bool:
    # A step of a Python frame is one of its lines, and one after a fatal signal ends the rank.
    is_python = stop.frame is not None and bool(stop.frame.language)
    return bool(stop.inside) and not is_python and not is_fatal(stop)
