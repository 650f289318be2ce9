"""Words about the frame that a stop is shown with: how its rank dies, and what has called it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.deaths import SIGNAL_FRAME
from pgdb.backend.gdb.exit_frames import follows_main
from pgdb.backend.gdb.mpi_frames import mpi_name
from pgdb.records import Frame


def dying_before(shown: Frame | None, frames: Sequence[Frame]) -> str:
    """Return the words of the frame in which the rank dies, if the frame shown has called it."""
    inner = frames[: frames.index(shown) + 1] if shown is not None and shown in frames else frames
    return next((each.dying for each in inner if each.dying), "")


def called_back(shown: Frame | None, frames: Sequence[Frame]) -> str:
    """Return the words for the call in which a library has called the function that is shown.

    It is a handler: of a signal, of an error of MPI, of exceptions.
    """
    beyond = frames[frames.index(shown) + 1 :] if shown is not None and shown in frames else ()
    for at, each in enumerate(beyond):
        call = mpi_name(each.function)
        if not each.dying and not call:
            continue
        frame, inside = decode.place(beyond[at:])
        if frame is None or not frame.line or not inside:
            return ""
        place = f"{_place_of(frame)} ('frame {frame.level}' selects it)"
        if each.function == SIGNAL_FRAME:
            return f"{each.dying or 'in a handler of a signal'}, which came in {place}"
        words = f"{inside}, {each.dying}" if each.dying else call
        return f"called by {words}, in {place}"
    return ""


def dying_in(frames: Sequence[Frame], shown: Frame | None, inside: str, called: str) -> str:
    """Return the words for a stop before the death, such as ``MPI_Abort(comm, 3)``.

    An error that led to the call comes first: ``PMPI_Send, fatal error: MPI_ERR_RANK: …``.
    """
    words = dying_before(shown, frames)
    if words == "aborting the job" or words.startswith(("error code", "status")):
        words = ""
    if follows_main(frames):
        called = f"{called}, returned by main"
    if not words:
        is_explained = called.startswith(inside.removeprefix("P"))
        of_mpi = f"{inside}, " if mpi_name(inside) and called and not is_explained else ""
        return f"{of_mpi}{called}" or inside or "the process ends"
    function = inside or next(each.function for each in frames if each.dying == words)
    cause = f"{function}, {words}"
    return f"{cause}, {called}" if called else cause


def _place_of(frame: Frame) -> str:
    at = f" at {os.path.basename(frame.file)}:{frame.line}" if frame.line else ""
    return f"{frame.function}{at}"


def called_by(frame: Frame, inside: str, innermost: str) -> str:
    """Return the words for the user's frame that has called the function where a rank faulted."""
    place = _place_of(frame)
    if not inside:
        place = f"in {place}"
    elif inside == innermost:
        place = f"called by {place}"
    else:
        place = f"in {inside}, called by {place}"
    return f"{place} ('frame {frame.level}' selects it)"
