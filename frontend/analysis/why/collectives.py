"""Rules about collective calls, one-sided synchronisation and connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from pgdb.frontend.analysis.why import matching, neighbours, words
from pgdb.frontend.analysis.why.knot import ASK_RECORDER, Knot
from pgdb.frontend.analysis.why.matching import Difference
from pgdb.frontend.analysis.why.needs import CONNECTIONS, ROOTED, is_meeting
from pgdb.frontend.analysis.why.parties import Party, part
from pgdb.frontend.analysis.why.verdict import Step, Verdict, VerdictKind
from pgdb.mpi_calls import Communicator, MpiCall
from pgdb.mpi_functions import GATHERING, NEIGHBOURHOOD
from pgdb.ranks import RankSet

_KINDS: dict[Difference, VerdictKind] = {
    "function": "different-collectives",
    "root": "different-roots",
    "operation": "different-operations",
    "count": "different-counts",
    "datatype": "different-datatypes",
    "communicator": "collective-order",
}
_DIFFERENCES: dict[Difference, str] = {
    "function": "the collective calls of one communicator differ",
    "root": "the roots of one collective call differ",
    "operation": "the operations of one collective call differ",
    "count": "the counts of one collective call differ",
    "datatype": "the datatypes of one collective call differ",
    "communicator": "the communicators have ranks in common, so that the order of the calls "
    "differs, or a rank has left one out",
}
_MIXED_UP = "the communicators differ, so that one was taken for another"
_MOST_NAMED = 3
_SOMEBODY_PASSED = Step(
    "a member may leave a call with a root, or a scan, before others have made it, so that the "
    "calls do not show who left it out; the recorder of MPI calls counts the calls of each rank"
)
_WHICH_ROOT = Step(
    "no root is that of most ranks in the call: most programs have the first rank as root, and the "
    "source says which one is right here",
    ("why --all",),
)
_WHO_LEFT = Step(
    "a rank that has left the call, and one that has not made it, stand at the same place; the "
    "recorder of MPI calls counts the calls of each rank",
    ("mpi-calls --last 8",),
)
_WHOSE_CALL = Step(
    "whether all ranks make that call there, by the source; the recorder of MPI calls keeps the "
    "last calls of each rank",
    ("mpi-calls --last 8",),
)
Calls = list[tuple[MpiCall, Party]]


def connection(knot: Knot) -> Verdict | None:
    """Find ranks that wait for a connection from another job, or to one."""
    parties = [
        each
        for each in knot.parties
        if any(made.function in CONNECTIONS and not made.thread for made in each.calls)
    ]
    if not parties or knot.having("message receiver"):
        return None
    ranks = RankSet.union(each.ranks for each in parties)
    accepts = any(each.call is not None and "accept" in each.call.function for each in parties)
    which = "connects" if accepts else "accepts"
    function = "MPI_Comm_connect" if accepts else "MPI_Comm_accept"
    return knot.verdict(
        "no-connection",
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} {words.in_calls(parties)} for a "
        f"connection, and no process {which}",
        f"the call returns when other processes call {function} with the same port",
        ranks=ranks,
        known=False,
        step=Step(f"a server that is idle waits so too, unless a process is in {function}"),
    )


def left(knot: Knot) -> Verdict | None:
    """Find ranks that are in MPI_Finalize while others wait for them."""
    finalizing = knot.calling("MPI_Finalize")
    if not finalizing or finalizing == knot.ranks or knot.having("message receiver"):
        return None
    others = [each for each in knot.parties if each.ranks.isdisjoint(finalizing)]
    found = _differences(_meetings(others))
    is_apart = found is None or found[0] == "communicator"
    if not is_apart and not (found and found[0] == "function" and _are_stages(others, finalizing)):
        # The ranks that have left may have done their part of the call before.
        return None
    ranks = RankSet.union(each.ranks for each in others)
    gone = [each for each in knot.parties if not each.ranks.isdisjoint(finalizing)]
    if len(ranks) < len(finalizing) and (missed := _untaken_functions(others)):
        return knot.verdict(
            "different-collectives",
            f"{_stands(others)}, and {words.verb(ranks, 'has')} not taken what has come to "
            f"{words.pronoun(ranks)} in {missed}, while {words.named(finalizing)} "
            f"{words.verb(finalizing, 'has')} left for MPI_Finalize{words.at(gone[0])}: "
            f"{words.named(ranks)} {words.verb(ranks, 'has')} made another call, or the others "
            "have left one out",
            "a rank that makes the calls of the others takes its parts of them",
            ranks=ranks,
            known=False,
            step=_WHOSE_CALL,
        )
    return knot.verdict(
        "rank-left",
        f"{words.named(finalizing)} {words.verb(finalizing, 'has')} left for MPI_Finalize"
        f"{words.at(gone[0])}, while {words.named(ranks)} {words.verb(ranks, 'waits')} for "
        f"{words.pronoun(finalizing)} {words.in_calls(others)}",
        "a rank in MPI_Finalize takes part in no other collective call",
        ranks=finalizing,
    )


def _untaken_functions(parties: Sequence[Party]) -> str:
    """Return in words the collective calls whose parts have come to ranks that are in another call
    of the same communicator; empty if that is not so for each party."""
    found: list[str] = []
    for party in parties:
        own = [
            message.function
            for message in party.status.arrived
            if message.function
            and any(
                made.function != message.function
                and matching.same_communicator(made.communicator, message.communicator) is True
                for made in party.calls
            )
        ]
        if not own:
            return ""
        found += own
    return " and ".join(dict.fromkeys(found))


def _are_stages(others: Sequence[Party], left: RankSet) -> bool:
    """Return whether calls with a root may follow one another, and a few ranks have *left* them.

    A member may leave such a call before others have come, so that its next one is no fault.
    """
    made = {each.function for each, _ in _meetings(others)}
    return made <= ROOTED and len(left) < sum(len(each.ranks) for each in others)


def _meetings(parties: Sequence[Party]) -> Calls:
    return [(made, each) for each in parties for made in each.calls if is_meeting(made)]


def _differences(calls: Calls) -> tuple[Difference, MpiCall, Calls] | None:
    """Return the first difference, the call of most ranks, and the calls that differ from it."""
    if len({*(party.ranks for _, party in calls)}) < 2:
        return None
    sizes: Counter[MpiCall] = Counter()
    for made, party in calls:
        sizes[matching.plain(made)] += len(party.ranks)
    usual = max(sizes, key=lambda each: sizes[each])
    differing: Calls = []
    first: Difference | None = None
    for made, party in calls:
        difference = matching.difference_of(usual, made)
        if difference is not None:
            first = first or difference
            differing.append((made, party))
    return (first, usual, differing) if first is not None else None


def different(knot: Knot) -> Verdict | None:
    """Find collective calls that differ."""
    calls = _meetings(knot.parties)
    without = [each for each in calls if each[0].kind != "finalize"]
    found = _roots(without) or _differences(_earliest(without)) or _differences(calls)
    if found is not None and found[0] == "communicator":
        calls = without = _of_each_other(knot, calls)
        found = _differences(calls)
    if found is None:
        return None
    difference, usual, differing = found
    others = RankSet.union(party.ranks for _, party in differing)
    concerned = RankSet.union(party.ranks for _, party in _earliest(without)) | others
    same: list[Party] = []
    if difference == "root":
        same = [party for each, party in calls if each.function == usual.function]
        concerned = RankSet.union(party.ranks for party in same)
    cause, is_sure = _odd_ones(usual, differing, concerned - others, difference)
    step = ASK_RECORDER if is_sure else _SOMEBODY_PASSED
    if difference == "root" and cause is None:
        unusual = RankSet.union(
            party.ranks for made, party in calls if party in same and _is_unusual(made)
        )
        if unusual and unusual != concerned:
            cause, is_sure, step = unusual, False, _WHICH_ROOT
    if difference == "communicator" and cause is None:
        cause = _absent(calls, concerned)
        is_sure, step = (is_sure, step) if cause is None else (False, _WHO_LEFT)
    kind = _KINDS[difference]
    reason = _DIFFERENCES[difference]
    made = differing[0][0]
    is_undecided = difference == "function" and _may_await(differing)
    groups = [matching.group_of(each) for each in (usual, made)]
    are_alike = matching.members_of(groups[0]) == matching.members_of(groups[1]) and not any(
        each is not None and each.remote for each in groups
    )
    if difference == "communicator" and usual.function == made.function and are_alike:
        kind, reason = "communicator-mixup", _MIXED_UP
    most = [each for call, each in calls if matching.plain(call) == usual]
    text = f"{_stands(most)}, but {_list([_stands([party]) for _, party in differing])}: {reason}"
    verdict = knot.verdict(
        kind,
        text,
        "all members of a communicator make the same collective calls in one order",
        ranks=concerned if cause is None else cause,
        known=knot.is_known and is_sure,
        step=step,
    )
    if is_undecided and cause is not None and verdict.confidence == "likely":
        return replace(verdict, confidence="cannot tell")
    return verdict


def _may_await(differing: Calls) -> bool:
    """Return whether the ranks that differ may wait for one that has left their call out.

    They are then in a call that the others may have left, and whose part is missing is unknown.
    """
    return all(
        made.function in GATHERING
        and made.awaits is None
        and (not isinstance(made.root, int) or made.root in party.ranks)
        and not (made.communicator and made.communicator.collectives)
        for made, party in differing
    )


def _of_each_other(knot: Knot, calls: Calls) -> Calls:
    """Return the calls of parties that wait for each other; all calls if there are no such two.

    A party that waits for one of two such parties, and not the reverse, is their victim.
    """
    waits = {(each.waiter, each.target) for each in knot.edges if each.waiter != each.target}
    both = {waiter for waiter, target in waits if (target, waiter) in waits}
    parties = [
        party for number, party in zip(knot.members, knot.parties, strict=True) if number in both
    ]
    return [each for each in calls if each[1] in parties] or calls


def _is_unusual(made: MpiCall) -> bool:
    """Return whether the root of a call is known, and is not the first member."""
    members = matching.members_of(made.communicator)
    return members is not None and isinstance(made.root, int) and made.root != members.first


def _roots(calls: Calls) -> tuple[Difference, MpiCall, Calls] | None:
    """Return calls of one function that have different roots, where other ranks are elsewhere.

    A rank may leave such a call before others have come, and the next call of that rank is none of
    the cause.
    """
    rooted = [
        (made.function, matching.plain(made).communicator)
        for made, _ in calls
        if made.function in ROOTED and isinstance(made.root, int)
    ]
    for function, communicator in dict.fromkeys(rooted):
        group = [
            each
            for each in calls
            if each[0].function == function
            and matching.same_communicator(each[0].communicator, communicator) is not False
        ]
        found = _differences(group)
        if found is not None and found[0] == "root" and len(group) < len(calls):
            return found
    return None


def _earliest(calls: Calls) -> Calls:
    """Return the calls that are the earliest of their communicator, where all are counted."""
    counts = [made.communicator and made.communicator.collectives for made, _ in calls]
    are_one = all(
        matching.same_communicator(calls[0][0].communicator, made.communicator) is True
        for made, _ in calls
    )
    known = [each for each in counts if each]
    if not are_one or len(known) < len(calls) or not known:
        return calls
    return [each for each, count in zip(calls, counts, strict=True) if count == min(known)]


def _odd_ones(
    usual: MpiCall, differing: Calls, majority: RankSet, difference: Difference
) -> tuple[RankSet | None, bool]:
    """Return the ranks to blame, None if the calls do not say it, and whether that is sure."""
    others = RankSet.union(party.ranks for _, party in differing)
    is_minority = len(others) < len(majority)
    rooted = [made for made, _ in differing if made.function in ROOTED]
    # A rank elsewhere may have left the call with a root before, as it should.
    is_passed = bool(rooted) or (usual.function in ROOTED and len(others) > 1)
    is_sure = difference != "function" or not is_passed
    return (others if is_minority else None), is_sure


def _absent(calls: Calls, concerned: RankSet) -> RankSet | None:
    """Return the few members that most members of one communicator wait for in one function, None
    if there are none, or if this holds for several communicators."""
    inside: dict[tuple[RankSet, str], RankSet] = {}
    for made, party in calls:
        members = matching.members_of(made.communicator)
        if members is not None:
            key = (members, made.function)
            inside[key] = inside.get(key, RankSet()) | party.ranks
    absent = [
        members - own
        for (members, _), own in inside.items()
        if len(members - own) < len(own) and members - own <= concerned
    ]
    return absent[0] if len(absent) == 1 and absent[0] else None


def _stands(parties: Sequence[Party]) -> str:
    ranks = RankSet.union(each.ranks for each in parties)
    return f"{words.named(ranks)} {words.verb(ranks, 'is')} {words.in_calls(parties)}"


def _list(texts: Sequence[str]) -> str:
    if len(texts) > _MOST_NAMED:
        texts = [*texts[:_MOST_NAMED], f"{len(texts) - _MOST_NAMED} more"]
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def requests(knot: Knot) -> Verdict | None:
    """Find ranks that all wait for collective operations that they began without waiting."""
    numbers = [
        each
        for each in knot.having("meeting")
        if any(made.kind in ("wait", "test") for made in knot.party(each).calls)
    ]
    if not numbers:
        return None
    parties = [knot.party(each) for each in numbers]
    ranks = RankSet.union(each.ranks for each in parties)
    others = [each for each in knot.parties if each.ranks.isdisjoint(ranks)]
    text = (
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} {words.in_calls(parties)} for a "
        "collective operation"
    )
    if others:
        cause, is_sure = _cause(parties, ranks, others)
        elsewhere = RankSet.union(each.ranks for each in others)
        if _communicators(parties) is None and min(map(len, (ranks, elsewhere))) > 1:
            # It may be an operation that some of the others have completed.
            is_sure = False
        return _decided(
            knot.verdict(
                "missing-from-collective",
                f"{text}, which not all have begun: {_places(others, cause)}",
                "a collective operation is complete when all members have begun it",
                ranks=cause,
                known=False,
                step=Step(
                    "no request shows who has begun the operation; the recorder of MPI calls does"
                ),
            ),
            is_sure,
        )
    if (alone := _in_another(knot, parties)) is not None:
        return alone
    return knot.verdict(
        "different-collectives",
        f"{text}, and no operation is complete: their kinds, their order or their arguments differ",
        "all members of a communicator begin the same collective operations in one order",
        ranks=ranks,
        known=False,
        step=Step("no request names its operation; the recorder of MPI calls does"),
    )


def _communicators(parties: Sequence[Party]) -> list[tuple[Communicator, Party]] | None:
    """Return the communicators of collective requests, None if one of them is unknown."""
    found = []
    for party in parties:
        for request in (each for made in party.calls for each in made.requests):
            if request.complete or request.kind not in ("collective", "persistent collective"):
                continue
            if request.communicator is None:
                return None
            found.append((request.communicator, party))
    return found


def _in_another(knot: Knot, parties: Sequence[Party]) -> Verdict | None:
    """Find ranks that wait for an operation in another communicator than most do."""
    found = _communicators(parties)
    if not found:
        return None
    sizes: Counter[Communicator] = Counter()
    for communicator, party in found:
        sizes[communicator] += len(party.ranks)
    usual = max(sizes, key=lambda each: sizes[each])
    apart = [
        (communicator, party)
        for communicator, party in found
        if matching.same_communicator(usual, communicator) is False
        and matching.members_of(usual) == matching.members_of(communicator)
    ]
    ranks = RankSet.union(party.ranks for _, party in apart)
    others = RankSet.union(each.ranks for each in parties) - ranks
    if not ranks or len(ranks) >= len(others):
        return None
    there = [words.communicator(each) or "a communicator" for each in (apart[0][0], usual)]
    return knot.verdict(
        "communicator-mixup",
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} for a collective operation in "
        f"{there[0]}{words.at(apart[0][1])}, but {words.named(others)} "
        f"{words.verb(others, 'waits')} for one in {there[1]}: {_MIXED_UP}",
        "a collective operation is complete when all members have begun it in one communicator",
        ranks=ranks,
        known=False,
        step=Step("no request names its operation; the recorder of MPI calls does"),
    )


def _to_blame(waiting: RankSet, others: Sequence[Party]) -> RankSet:
    """Return the ranks to blame: the *others*, or the waiting ones if these have begun alone an
    operation that most have not."""
    elsewhere = RankSet.union(each.ranks for each in others)
    meet = all(any(map(is_meeting, each.calls)) for each in others)
    return waiting if meet and len(waiting) < len(elsewhere) else elsewhere


def _cause(
    waiting: Sequence[Party], ranks: RankSet, others: Sequence[Party]
) -> tuple[RankSet, bool]:
    """Return the ranks to blame, and whether no others explain the waits as well."""
    elsewhere = RankSet.union(each.ranks for each in others)
    awaited = neighbours.awaited(waiting, elsewhere)
    # Ranks that have not begun the call, and ranks that have left it, stand at the same place.
    if not awaited:
        return _to_blame(ranks, others), awaited is None or len(elsewhere) == 1
    found = neighbours.missing(awaited)
    return (found, True) if found is not None else (RankSet.union(awaited), False)


def _decided(verdict: Verdict, is_sure: bool) -> Verdict:
    return verdict if is_sure else replace(verdict, confidence="cannot tell", step=_WHO_LEFT)


def _places(others: Sequence[Party], cause: RankSet) -> str:
    """Return the places of ranks that wait elsewhere, of the cause alone if it is among them."""
    concerned = [part(each, cause) for each in others if not each.ranks.isdisjoint(cause)]
    return _list([_stands([each]) for each in concerned or others])


def open_ended(knot: Knot) -> Verdict | None:
    """Find collective calls of a part of the members, whom no call names, and others elsewhere."""
    own = [
        each
        for each in knot.parties
        if any(
            made.kind in ("collective", "comm")
            and made.blocking is not False
            and not is_meeting(made)
            for made in each.calls
        )
    ]
    others = [each for each in knot.parties if each not in own]
    if not own:
        return None
    ranks = RankSet.union(each.ranks for each in own)
    if not others:
        return None
    among = "neighbour" if own[0].calls[0].function.startswith(NEIGHBOURHOOD) else "member"
    listed = " or does not have it as a neighbour" if among == "neighbour" else ""
    cause, is_sure = _cause(own, ranks, others)
    found = knot.verdict(
        "missing-from-collective",
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} {words.in_calls(own)} for a {among} "
        f"that does not make the call{listed}: {_places(others, cause)}",
        "the call waits for some of the members, and every other member is blocked elsewhere",
        ranks=cause,
        known=False,
        step=Step(
            f"the call does not name the missing {among}; the recorder of MPI calls counts the "
            "calls of each rank"
        ),
    )
    return _decided(found, is_sure)
