"""The command that shows PyTorch's flight records."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

from pgdb.errors import CommandError
from pgdb.frontend.analysis import flight_records
from pgdb.frontend.analysis.flight_records import GroupState, RankRecord
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome, Shown
from pgdb.frontend.show.json.json_parts import FlightGroup, FlightPlace
from pgdb.frontend.show.json.json_waits import FlightLine
from pgdb.frontend.store import flight_files
from pgdb.frontend.system.typed_names import typed_path
from pgdb.ranks import RankSet


@COMMANDS.command(
    "flight-records",
    group=Group.STACK,
    usage="flight-records [PATH]",
    summary="show at which collective call of PyTorch each rank is (its records)",
    completes=Completes.FILES,
)
async def _flight_records(call: Call) -> Outcome:
    """Show for each process group of PyTorch at which collective call its ranks are.

    PATH is a folder with one file per rank, or the beginning of the names of such files, whose ends
    are the ranks. Without PATH PGDB looks where PyTorch writes them: at TORCH_FR_DUMP_TEMP_FILE,
    TORCH_NCCL_DEBUG_INFO_TEMP_FILE, ~/.cache/torch/comm_lib_trace_rank_ and /tmp/nccl_trace_rank_.

    PyTorch keeps the records where TORCH_FR_BUFFER_SIZE is above 0, and writes them when a call
    times out. So a file can be older than the state of the ranks. PGDB reads the files of the host
    on which it runs.
    """
    text = call.argument.strip()
    records, refused = await asyncio.to_thread(_read, _places(text), bool(text))
    groups = flight_records.group_states(records)
    lines = [f"flight records of [{RankSet(records)}]", *flight_records.lines(groups), *refused]
    unknown = RankSet(records) - call.session.set
    if unknown:
        lines.append(f"note: {_not_of_session(unknown)}")
    return Shown(
        "\n".join(lines),
        sets=tuple(each.missing for each in groups if each.missing),
        line=_line(groups, f"flight-records {text}".rstrip()),
    )


def _not_of_session(ranks: RankSet) -> str:
    are = by_number(ranks, "is no rank", "are no ranks")
    return f"[{ranks}] {are} of this session; the files may be of another job"


def _places(text: str) -> list[Path]:
    if text:
        return [typed_path(text)]
    return flight_files.places(os.environ, Path.home())


def _read(places: Iterable[Path], is_named: bool) -> tuple[dict[int, RankRecord], list[str]]:
    """Return the records at the first place that has some, and a line for each file without one.

    :raises CommandError: if there is none.
    """
    places = list(places)
    records, refused = flight_files.read(places)
    if records:
        return records, refused
    names = ", ".join(f"{each}*" for each in places)
    why = f": {'; '.join(refused[:4])}" if refused else ""
    way_out = "" if is_named else "; 'flight-records PATH' names other files"
    raise CommandError(f"no flight record of PyTorch at {names}{why}{way_out}")


def _line(groups: Iterable[GroupState], command: str) -> FlightLine:
    return FlightLine(
        time=0.0,
        command=command,
        groups=tuple(
            FlightGroup(
                name=each.name,
                description=each.description,
                members=str(each.members),
                unknown=str(each.unknown),
                places=tuple(
                    FlightPlace(
                        ranks=str(place.ranks),
                        state=place.state,
                        call=place.call.name,
                        sequence=place.call.sequence,
                        sizes=place.call.sizes,
                        where=place.call.where,
                    )
                    for place in each.places
                ),
            )
            for each in groups
        ),
    )
