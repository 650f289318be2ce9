"""Commands about ranks: the focus, named sets, places and states, unfolded answers."""

from __future__ import annotations

import itertools
import re

from msgspec.structs import replace

from pgdb.errors import CommandError, RankSetError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.asked_conditions import truth, where
from pgdb.frontend.analysis.full_answers import is_kept_back, kept_back, pages, part_of
from pgdb.frontend.analysis.whole_values import with_known
from pgdb.frontend.api.named_sets import check_name
from pgdb.frontend.commands.options import Option, Rest, is_number
from pgdb.frontend.commands.table import (
    COMMANDS,
    Call,
    Completes,
    Group,
    Outcome,
    Shown,
    need_argument,
)
from pgdb.frontend.commands.whole_arguments import with_whole_arguments
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.show.text import layout, places_text, render
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.records import Record

_EXPRESSION = pattern(r"\A\s*[A-Za-z_]|[<>=(]")
"""The begin of an expression, or an operator that no rank set has."""
_SETS = """A rank set is a list such as 0-3,8 (also 0..3, and 0-31/2 with a step), all, or a name:
@running, @stopped, @exited, @lost, @held, @error, @bp2 (stopped at breakpoint 2), @3 (class 3 of
the last output), or a set of defset. Operators, from left to right: , union, ! without, & both,
^ either."""


@COMMANDS.command(
    "proc",
    group=Group.RANKS,
    usage="proc SET COMMAND",
    summary="run a command on some ranks",
    completes=Completes.RANKS_THEN_COMMAND,
    description=f"Run one command on some ranks, without regard to the focus.\n\n{_SETS}",
)
async def _proc(call: Call) -> Outcome:
    text, command = split_set(need_argument(call, "a rank set and a command"))
    if not command:
        raise UsageError("'proc' needs a command after the rank set; 'focus' selects ranks")
    ranks = call.workspace.parse_ranks(text)
    if not ranks:
        return f"{text} is an empty set: no rank for '{command}'"
    return await call.dispatcher.dispatch(command, ranks)


@COMMANDS.command(
    "focus",
    group=Group.RANKS,
    usage="focus [SET]",
    summary="select the ranks that commands act on",
    completes=Completes.RANKS,
    description=f"Select the ranks that commands act on from now on.\n\n{_SETS}",
)
async def _focus(call: Call) -> Outcome:
    if call.argument:
        ranks = call.workspace.parse_ranks(call.argument)
        if not ranks:
            raise UsageError(
                f"{call.argument} is an empty set; the focus stays [{call.workspace.focus}]"
            )
        call.workspace.focus = ranks
        return None
    return f"focus [{call.workspace.focus}]"


@COMMANDS.command(
    "defset",
    group=Group.RANKS,
    usage="defset NAME SET | if CONDITION",
    summary="give a rank set a name",
)
async def _defset(call: Call) -> Outcome:
    """Define @NAME as a set of ranks, or as the ranks on which a condition is true now.

    With 'if CONDITION' the GDBs of the selected ranks evaluate it: 'defset late if
    step < 10'. It has the forms of assert. The comparison of an array, as in 'u >= 0',
    is true if all elements meet it. The set stays the same when the ranks go on.
    """
    name, _, text = need_argument(call, "a name and a rank set").partition(" ")
    name, text = name.removeprefix("@"), text.strip()
    check_name("defset", name)
    word, _, condition = text.partition(" ")
    if not text or (word == "if" and not condition.strip()):
        raise UsageError(f"defset: @{name} needs a rank set, or 'if CONDITION'")
    if word == "if" or word.startswith("if("):
        return await _defset_where(call, name, text.removeprefix("if").strip())
    try:
        ranks = call.workspace.parse_ranks(text)
    except RankSetError as error:
        if not _EXPRESSION.search(text):
            raise
        raise UsageError(
            f"{error}; 'defset {name} if {text}' takes the ranks on which a condition is true"
        ) from None
    call.workspace.sets[name] = ranks
    return f"@{name} is {layout.brackets(ranks)}"


async def _defset_where(call: Call, name: str, condition: str) -> Outcome:
    answer = await call.view.evaluate_condition(condition)
    ranks = where(answer)
    found = truth(answer)
    call.workspace.sets[name] = ranks
    lines = [
        f"@{name} is {layout.brackets(ranks) if ranks else 'empty'}: {len(ranks)} of "
        f"{len(answer.ranks)} ranks, on which '{condition}' is true now"
    ]
    lines += [
        f"{layout.brackets(each.ranks)} not in it: {render.record(each)}" for each in found.errors
    ]
    lines += [f"{line} (not in it)" for line in render.missing(answer)]
    return Shown("\n".join(lines), answer=answer, sets=(ranks, found.false))


@COMMANDS.command(
    "undefset", group=Group.RANKS, usage="undefset NAME", summary="forget a named set"
)
async def _undefset(call: Call) -> Outcome:
    """Forget a named set of ranks.

    A set that a breakpoint reads at each hit ('break LOCATION --ranks @NAME') is kept until the
    breakpoint is deleted. Barriers and traces have taken the ranks of a set when they were made.
    """
    name = need_argument(call, "the name of a set").removeprefix("@")
    if (readers := call.session.stop_modes.readers_of(name)) and name in call.workspace.all_sets:
        one = len(readers) == 1
        numbers = " ".join(map(str, readers))
        raise UsageError(
            f"undefset: breakpoint{'' if one else 's'} {numbers} read{'s' if one else ''} @{name} "
            f"at each hit, and would stop all ranks without it; 'delete {numbers}' deletes "
            f"{'it' if one else 'them'}, and 'defset {name} SET' changes the set"
        )
    if not call.workspace.forget_set(name):
        raise UsageError(f"undefset: there is no set @{name}")
    return None


@COMMANDS.command(
    "ranks",
    group=Group.RANKS,
    usage="ranks [SET]",
    summary="show place and state of each rank",
    completes=Completes.RANKS,
)
async def _ranks(call: Call) -> Outcome:
    """Show host, process ids and state of the selected ranks or of SET.

    Below stand the places where ranks have stopped or the ways they have ended, the held ranks, and
    the named sets.
    """
    session = call.session
    ranks = call.workspace.parse_ranks(call.argument) if call.argument else call.ranks
    state = session.state
    names = ("stopped", "running", "exited", "detached", "lost")
    states = {name: getattr(state, name) for name in names}
    found = places_text.places(session.table.only(ranks).processes, states)
    latest = state.latest((state.stopped | state.exited) & ranks)
    held = {why: part for why, members in state.held_for.items() if (part := members & ranks)}
    return Shown(
        places_text.place_lines(found, latest, call.workspace.all_sets, held),
        sets=tuple(each.ranks for each in found),
        line=json_lines.places(found, latest, call.workspace.all_sets, render.record, held),
    )


@COMMANDS.command(
    "expand",
    group=Group.RANKS,
    usage="expand [N] [SET] [FIRST..]",
    summary="unfold an earlier answer",
    rest=Rest.OPERAND,
    options=(
        Option(
            name="-l",
            help="list the answers that are kept, with their numbers",
            argument="is_list",
        ),
    ),
)
async def _expand(call: Call, which: str, *, is_list: bool) -> Outcome:
    """Show all of answer N, or of the last one, for the ranks of SET: every class, and every place
    at which the values of its ranks differ, addresses too.

    Places are listed 200 at a time; 'expand 201..' goes on with place 201. PGDB asks again for the
    details that the answer left out (addresses shown as …, values that were only summed up), for
    1024 ranks at a time. Arguments that 'bt' shows as ... are shown whole if the ranks have not
    moved since. 'expand [3]' is about rank 3 of the last answer, 'expand 3' about answer 3. The
    whole value of one rank, without a comparison, is 'expand [3]', too.
    """
    if is_list:
        if which:
            raise UsageError(f"expand: -l takes no ranks, not {which!r}")
        return _kept(call)
    which, first_place = _first_place(which)
    number, _, text = which.partition(" ")
    if number and not is_number(number):
        number, text = "", which
    if number and not int(number):
        raise CommandError("there is no answer 0; 'expand' alone shows the last")
    workspace = call.workspace
    if not number and workspace.without_answer:
        raise CommandError(
            f"expand: '{workspace.without_answer}' has nothing to unfold; "
            "'expand -l' lists the answers before it"
        )
    answer = workspace.recall(int(number) if number else 0)
    title = f"'{answer.command}' on {layout.brackets(answer.ranks)}" if number else ""
    word, _, expression = answer.command.partition(" ")
    if word == "stat":
        raise CommandError(f"'stat' keeps only sums; 'print {expression}' shows every value")
    if text.strip():
        ranks = workspace.parse_ranks(text)
        if answer.ranks.isdisjoint(ranks):
            raise CommandError(f"expand: '{answer.command}' was for [{answer.ranks}]")
        answer = part_of(answer, ranks)

    async def shown(answer: Answer, notes: list[str]) -> Shown:
        named = int(number) if number else 0
        unfolded = await call.dispatcher.expand(answer, number=named, first_place=first_place)
        return _expanded(answer, unfolded, notes, title)

    left = kept_back(answer)
    if not left:
        return await shown(*await with_whole_arguments(call.session, answer, []))
    first, *further = itertools.islice(pages(left), 2)
    full = with_known(await call.session.recall(answer, first), answer)
    others = [each for each in answer.classes if not is_kept_back(each)]
    classes = sorted((*others, *full.classes), key=lambda each: each.ranks.first)
    lost = full.missing.lost
    notes = [f"{layout.brackets(lost)} no longer kept"] if lost else []
    if further:
        command = f"expand {number} " if number else "expand "
        notes.append(
            f"({len(first)} of {len(left)} ranks; "
            f"'{command}{further[0].first}-{further[0].last}' shows the next)"
        )
    missing = answer.missing | full.missing - lost
    answer = replace(answer, classes=tuple(classes), missing=missing)
    return await shown(*await with_whole_arguments(call.session, answer, notes))


def _first_place(text: str) -> tuple[str, int]:
    """Split ``201..``, the first place to list, off the end of the operand of ``expand``."""
    rest, _, last = text.strip().rpartition(" ")
    first = last.removesuffix("..")
    if first == last or not is_number(first):
        return text, 1
    return rest.strip(), max(1, int(first))


def _kept(call: Call) -> str:
    """Return the list of the answers that are kept."""
    lines = []
    for number, answer in call.workspace.answers:
        count = len(answer.classes)
        classes = f"{count} {'class' if count == 1 else 'classes'}"
        lines.append(f"{number:<4} {answer.command}  {layout.brackets(answer.ranks)}, {classes}")
    return "\n".join(lines) or "there is no earlier answer"


def _expanded(answer: Answer, text: str, notes: list[str], title: str) -> Shown:
    def text_of(each: EquivalenceClass[Record]) -> str:
        return render.record(each, answer.command)

    if not text and not notes:
        where = layout.brackets(answer.ranks)
        notes = [f"'{answer.command}' was carried out on {where}, and printed nothing"]
    return Shown(
        "\n".join(each for each in (title and f"{title}:", text, *notes) if each),
        sets=tuple(each.ranks for each in answer.classes),
        line=json_lines.answer(answer, text_of, 0.0),
    )


def split_set(text: str) -> tuple[str, str]:
    """Split a text into a rank set, which can have blanks around its operators, and the rest."""
    match = re.match(r"\s*(\[[^\]]*\]|[^\s,!&^]+(?:\s*[,!&^]\s*[^\s,!&^]+)*)\s*(.*)", text, re.S)
    if match is None:
        return "", text
    if match[2][:1] in (*",!&^",):
        # The text has an operator too many: it is a malformed set, not a command.
        word, _, rest = match[2].partition(" ")
        return match[1] + word, rest.strip()
    return match[1], match[2]
