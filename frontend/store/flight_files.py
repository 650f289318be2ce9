"""Files with the flight records of PyTorch: their places, and those that a job has written."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from pgdb.frontend.analysis import flight_records
from pgdb.frontend.analysis.flight_records import RankRecord, RecordError
from pgdb.frontend.system.user_files import read_regular, reason, user_path
from pgdb.jobs import procfs
from pgdb.proctable import RankProcess

_MOST_BYTES = 64 << 20
_NAMED = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
# PyTorch 2.8 and newer; PyTorch before.
_IN_HOME, _IN_TMP = ".cache/torch/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_"
_RANK = re.compile(r"(\d+)(?:\.json|\.pickle|\.pkl)?\Z")
_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")


def places(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Return the beginnings of the names of the files that PyTorch writes in an environment."""
    named = [environment[name] for name in _NAMED if environment.get(name)]
    return [*map(user_path, named), home / _IN_HOME, Path(_IN_TMP)]


def read(beginnings: Iterable[Path]) -> tuple[dict[int, RankRecord], list[str]]:
    """Return the records at the first place that has some, and a line for each file without one."""
    refused: list[str] = []
    for place in beginnings:
        records: dict[int, RankRecord] = {}
        for rank, path in _files(place, refused):
            _read(rank, path, records, refused)
        if records:
            return records, refused
    return {}, refused


def of_job(processes: Iterable[RankProcess]) -> dict[int, RankRecord]:
    """Return the records that ranks of this host have written since they began.

    The files are where a rank's own environment says. Ranks without an environment that asks for
    records have none.
    """
    own = socket.gethostname().partition(".")[0]
    found: dict[int, RankRecord] = {}
    listed: dict[tuple[Path, ...], dict[int, Path]] = {}
    for process in processes:
        if process.host.partition(".")[0] not in (own, "localhost"):
            continue
        environment = procfs.environment(process.pid) or {}
        if not any(environment.get(name) for name in (*_NAMED, *_SIZES)):
            continue
        if not procfs.on_this_host(process.pid):
            continue
        begun_s = _begun_s(process.pid)
        own_places = tuple(places(environment, Path(environment.get("HOME") or Path.home())))
        if own_places not in listed:
            # The first place is the most specific, and wins.
            listed[own_places] = {
                rank: path for place in reversed(own_places) for rank, path in _files(place, [])
            }
        path = listed[own_places].get(process.rank)
        if path is not None and begun_s is not None and _written_s(path) > begun_s:
            _read(process.rank, path, found, [])
    return found


def _read(rank: int, path: Path, records: dict[int, RankRecord], refused: list[str]) -> None:
    try:
        records[rank] = flight_records.read_record(read_regular(path, _MOST_BYTES))
    except OSError as error:
        refused.append(f"[{rank}] {path}: {reason(error)}")
    except RecordError as error:
        refused.append(f"[{rank}] {path}: {error}")


def _begun_s(pid: int) -> float | None:
    """Return the time at which a process began, in seconds of the clock of files."""
    stat = procfs.read_stat(pid)
    if stat is None:
        return None
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + stat.start_time_ticks / os.sysconf("SC_CLK_TCK")
    return None


def _written_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _files(place: Path, refused: list[str]) -> list[tuple[int, Path]]:
    """Return the files of a folder, or those whose names begin as *place*, by rank."""
    if place.is_file() and (match := _RANK.search(place.name)):
        return [(int(match[1]), place)]
    folder, start = (place, "") if place.is_dir() else (place.parent, place.name)
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        if folder != place.parent or place.parent.exists():
            refused.append(f"{folder}: {reason(error)}")
        return []
    found: dict[int, Path] = {}
    for name in names:
        match = _RANK.search(name, len(start)) if name.startswith(start) else None
        if match is None:
            continue
        rank = int(match[1])
        if rank in found:
            refused.append(f"[{rank}] {folder / name}: {found[rank].name} is of the same rank")
        else:
            found[rank] = folder / name
    return sorted(found.items())
