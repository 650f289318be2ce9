"""The ranks of a set of core files: one job is chosen, and what does not belong to it is named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from pgdb import elf
from pgdb.cores.core_file import CoreFile
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.regular_files import open_regular

_NUMBER = pattern(r"\d+")
_NAMED_RANK = pattern(r"rank[-_.=]?(\d+)", re.I)
_MOST_LISTED = 3
_LARGEST_RANK = 1 << 24


class CoreSet(msgspec.Struct, frozen=True, kw_only=True):
    """The core files of one job, by rank."""

    cores: Mapping[int, CoreFile]
    size: int | None
    """Number of ranks of the job, if the environment has it."""
    source: str
    """The source of the ranks' numbers, in words."""
    notes: tuple[str, ...]
    """Facts for the user: ranks without a core, cores that are left out, truncated ones."""

    @property
    def ranks(self) -> RankSet:
        """The ranks that have a core."""
        return RankSet(self.cores)

    @property
    def missing(self) -> RankSet:
        """The ranks of the job that have no core; empty if the size of the job is unknown."""
        return RankSet(range(self.size)) - self.ranks if self.size else RankSet()


def assemble(
    cores: Sequence[CoreFile], *, executable: str = "", build_id: str | None = None
) -> CoreSet:
    """Return the core files of one job among *cores*, of which there is at least one.

    The job with the most cores is taken, of several the latest one. Ranks are those of the
    environment, else those that the files' names have, else the files are numbered.

    :param executable: the program of the job; cores of other programs are left out.
    :param build_id: the build-id of that program, if it is on other hosts.
    """
    notes: list[str] = []
    left = list(cores)
    if executable:
        is_of = _belongs_to(executable, build_id)
        left = [each for each in cores if is_of(each)]
        if foreign := [each for each in cores if each not in left]:
            notes.append(_about_foreign(foreign, f"not of {executable}"))
    if not left:
        return CoreSet(cores={}, size=None, source="", notes=tuple(notes))
    groups: dict[tuple[object, ...], list[CoreFile]] = {}
    for each in left:
        groups.setdefault(_job_of(each), []).append(each)

    def weight(members: Sequence[CoreFile]) -> tuple[bool, int, float]:
        latest_s = max(each.written_s for each in members)
        return members[0].identity is not None, len(members), latest_s

    chosen = max(groups.values(), key=weight)
    chosen = [*chosen, *_without_rank(left, chosen, notes)]
    others = [each for each in left if each not in chosen and not _is_stray(each, chosen)]
    if others:
        of_others = [each for each in others if each.program != chosen[0].program]
        notes += [_about_foreign(of_others, f"not of {_program(chosen[0])}")] if of_others else []
        if same := [each for each in others if each not in of_others]:
            notes.append(_about_foreign(same, "of another job with this program"))
    ranked, source, further = _ranked(chosen)
    notes += further
    size = max((each.identity.size or 0 for each in chosen if each.identity), default=0) or None
    found = CoreSet(cores=ranked, size=size, source=source, notes=())
    if found.missing:
        notes.append(
            f"no core of rank{'s' * (len(found.missing) != 1)} {found.missing} of {size} is among "
            "the files: they have ended in another way, or left it elsewhere"
        )
    notes += _about_truncated(ranked)
    return msgspec.structs.replace(found, notes=tuple(notes))


def mismatch(core: CoreFile, executable: str) -> str:
    """Return in words that a program's file is not the one that the core is of; empty if it is."""
    own = build_id_of(executable)
    if own and core.build_id and own != core.build_id:
        return (
            f"{executable} was built again after the core was written (its build-id is another "
            "one): functions, lines and values can be wrong"
        )
    return ""


def build_id_of(path: str) -> str:
    """Return the build-id of a program's file; empty if it has none or cannot be read."""
    try:
        with open_regular(path) as file:
            return elf.build_id_of_file(elf.reader(file.fileno()))
    except (OSError, elf.ElfError):
        return ""


def _belongs_to(executable: str, build_id: str | None) -> Callable[[CoreFile], bool]:
    build_id = build_id_of(executable) if build_id is None else build_id
    name = os.path.basename(executable)

    def is_of(core: CoreFile) -> bool:
        if build_id and core.build_id == build_id:
            return True
        # A program that was built again has the same name.
        return os.path.basename(core.program or core.command) in (name, name[:15])

    return is_of


def _job_of(core: CoreFile) -> tuple[object, ...]:
    """Return what is equal for the cores of one job."""
    identity = core.identity
    if identity is None:
        return "program", core.program or core.command
    return "job", identity.job_key, identity.size


def _ranked(
    cores: Sequence[CoreFile],
) -> tuple[dict[int, CoreFile], str, list[str]]:
    """Return the cores of one job by rank, the source of the numbers, and notes."""
    if cores[0].identity is None:
        by_name = _ranks_in_names(cores)
        if by_name is not None:
            return by_name, "numbers in the names of the files", []
        ordered = sorted(cores, key=lambda each: (each.host, each.pid, each.path))
        numbered = dict(enumerate(ordered))
        by = "host and process id" if len({each.host for each in cores}) > 1 else "process id"
        names = f"the cores do not say which rank they are of; they are numbered by {by}"
        return numbered, "order of the process ids", [names] if len(cores) > 1 else []
    found: dict[int, CoreFile] = {}
    left_out: dict[int, list[CoreFile]] = {}
    named = _named_like(cores)
    programs = [each.program for each in cores]
    # Wrappers around a rank have its environment, too.
    order = sorted(cores, key=lambda each: (programs.count(each.program), each.written_s))
    for each in order:
        rank = each.identity.rank if each.identity is not None else named[each.place]
        if rank in found:
            left_out.setdefault(rank, []).append(found[rank])
        found[rank] = each
    notes = [
        _about_several(rank, found[rank], left_out[rank])
        for rank in sorted(left_out)[:_MOST_LISTED]
    ]
    if rest := len(left_out) - len(notes):
        notes.append(f"{rest} further ranks have several cores; the latest of each is opened")
    return found, "environment in the cores", notes


def _without_rank(
    cores: Sequence[CoreFile], chosen: Sequence[CoreFile], notes: list[str]
) -> list[CoreFile]:
    """Return the cores of the job's program that do not say their rank, but whose names do.

    A truncated core often lacks the environment, which is at the end of the memory.
    """
    if chosen[0].identity is None:
        return []
    programs = {each.program for each in chosen}
    strays = [each for each in cores if each.identity is None and each.program in programs]
    by_name = _named_like([*chosen, *strays])
    known = {each.identity.rank for each in chosen if each.identity is not None}
    found = [each for each in strays if by_name.get(each.place, 0) not in known]
    if not by_name:
        found = []
    if unknown := [each.place for each in strays if each not in found]:
        listed = ", ".join(unknown[:_MOST_LISTED])
        more = f" and {len(unknown) - _MOST_LISTED} more" if len(unknown) > _MOST_LISTED else ""
        notes.append(
            f"left out, as neither the environment in the core nor the name says which rank it is "
            f"of: {listed}{more}"
        )
    return found


def _is_stray(core: CoreFile, chosen: Sequence[CoreFile]) -> bool:
    is_ranked = chosen[0].identity is not None
    return is_ranked and core.identity is None and core.program == chosen[0].program


def _named_like(cores: Sequence[CoreFile]) -> dict[str, int]:
    """Return the ranks of all cores by name, if the names have a number at one place that is the
    rank wherever the rank is known; else nothing."""
    rows = {each.place: [int(number) for number in _NUMBER.findall(each.name)] for each in cores}
    lengths = {len(row) for row in rows.values()}
    known = [each for each in cores if each.identity is not None]
    for place in range(min(lengths, default=0) - 1, -1, -1):
        values = {file: row[place] for file, row in rows.items()}
        is_rank = all(
            each.identity is not None and values[each.place] == each.identity.rank for each in known
        )
        if known and is_rank and len(set(values.values())) == len(values):
            return values
    return {}


def _about_several(rank: int, opened: CoreFile, left_out: Sequence[CoreFile]) -> str:
    """Return a note about the cores of one rank of which the last one is opened."""
    listed = [
        each.place if each.program == opened.program else f"{each.place} (of {_program(each)})"
        for each in left_out[:_MOST_LISTED]
    ]
    if rest := len(left_out) - len(listed):
        listed.append(f"{rest} more")
    is_one = all(each.program == opened.program for each in left_out)
    which = "its latest core" if is_one else f"its latest core of {_program(opened)}"
    return f"rank {rank}: {opened.place} is opened, {which}; left out: {', '.join(listed)}"


def _ranks_in_names(cores: Sequence[CoreFile]) -> dict[int, CoreFile] | None:
    """Return the cores by the numbers in their names, None if these do not serve.

    A number serves if all names have one at that place and all are different. Process ids and
    times do not.
    """
    named = [_NAMED_RANK.search(each.name) for each in cores]
    if all(named):
        found = {int(match[1]): each for match, each in zip(named, cores, strict=True) if match}
        if len(found) == len(cores) and max(found) < _LARGEST_RANK:
            return found
    rows = [[int(number) for number in _NUMBER.findall(each.name)] for each in cores]
    if len({len(row) for row in rows}) != 1:
        return None
    for place in range(len(rows[0]) - 1, -1, -1):
        values = [row[place] for row in rows]
        is_pid = any(value == each.pid for value, each in zip(values, cores, strict=True))
        if not is_pid and len(set(values)) == len(cores) > 1 and max(values) < 8 * len(cores):
            return dict(zip(values, cores, strict=True))
    return None


def _program(core: CoreFile) -> str:
    return core.program or core.command or "an unknown program"


def _about_foreign(cores: Sequence[CoreFile], what: str) -> str:
    """Return a note about cores that are left out."""
    listed = [
        f"{each.place} (of {_program(each)}{', truncated' * bool(each.missing_bytes)})"
        for each in cores[:_MOST_LISTED]
    ]
    if len(cores) > _MOST_LISTED:
        listed.append(f"{len(cores) - _MOST_LISTED} more")
    verb = "is" if len(cores) == 1 else "are"
    return f"left out, as {'it' if len(cores) == 1 else 'they'} {verb} {what}: {', '.join(listed)}"


def _about_truncated(ranked: Mapping[int, CoreFile]) -> list[str]:
    cut = {rank: each.missing_bytes for rank, each in ranked.items() if each.missing_bytes}
    if not cut:
        return []
    ranks = RankSet(cut)
    most = max(cut.values())
    return [
        f"the core{'s' * (len(cut) != 1)} of rank{'s' * (len(cut) != 1)} {ranks} "
        f"{'is' if len(cut) == 1 else 'are'} truncated (up to {most} bytes are missing): parts of "
        "stacks and data cannot be read; a limit (ulimit -c), a quota or a full disk does that"
    ]
