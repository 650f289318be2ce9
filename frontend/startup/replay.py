"""The start of a session from a recording."""

from __future__ import annotations

from pathlib import Path

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.argument_types import checks_call
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.notifications import Listener
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.store import recording_file
from pgdb.frontend.store.recording_file import Loaded
from pgdb.frontend.system.user_files import user_path
from pgdb.frontend.transport.recording import RecordingTransport
from pgdb.merge.classes import EquivalenceClass
from pgdb.records import Exit, Record, Stop


@checks_call
async def replay(path: Path | str, *, listener: Listener | None = None) -> Session:
    """Open a recording; call *listener* with each notification.

    It starts no process and creates no file.

    :raises CommandError: if the file cannot be read, or is no recording.
    """
    path = user_path(path)
    loaded = recording_file.read(path)
    file = loaded.file
    options = SessionOptions(fan_out=max(1, file.fan_out), compare_pointers=file.compare_pointers)
    session = Session(file.mode, options, RecordingTransport(loaded, path.name))
    session.table = loaded.table
    session.description = file.description
    session.mpi_version = file.mpi
    session.gdb_version = file.gdb
    session.sets.take_over(file.sets)
    session.breakpoint_numbers.next = file.last_breakpoint + 1
    state = _state(loaded)
    stops = tuple(
        EquivalenceClass[Record](ranks=each.ranks, record=each.record, slots=each.slots)
        for each in state.latest(state.stopped | state.exited)
        if isinstance(each.record, Stop | Exit)
    )
    session.opening.begin_recorded(
        state, Answer(command="replay", ranks=state.ranks, classes=stops)
    )
    if listener is not None:
        session.subscribe(listener)
    return session


def _state(loaded: Loaded) -> JobState:
    states = loaded.file.states
    state = JobState(loaded.ranks)
    state.apply(states.latest)
    # The states may be newer than the last event of each rank.
    for name in ("stopped", "running", "exited", "lost", "detached"):
        setattr(state, name, getattr(states, name))
    return state
