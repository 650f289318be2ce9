"""The call of torch.distributed that a thread has not returned from, read from its Python frames.

A process group is known by the tables of PyTorch's own module: its name and its global ranks. So
nothing has to be switched on in the job, and no code of it is executed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from pgdb.backend.python.arrays import ArrayPlace
from pgdb.backend.python.objects import UnknownError
from pgdb.backend.python.reader import PythonFrame
from pgdb.backend.python.values import Interpreter, Path
from pgdb.mpi_calls import ANY_SOURCE, CallKind, Communicator, MpiCall, Peer
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_MODULE = "/torch/distributed/distributed_c10d.py"
_LOGGER = "/torch/distributed/c10d_logger.py"
_KINDS: dict[str, CallKind] = {
    **dict.fromkeys(
        "all_reduce all_reduce_coalesced all_gather all_gather_coalesced all_gather_into_tensor"
        " all_gather_object all_gather_single all_to_all all_to_all_single barrier broadcast"
        " broadcast_object_list gather gather_object monitored_barrier reduce reduce_scatter"
        " reduce_scatter_single reduce_scatter_tensor scatter scatter_object_list".split(),
        "collective",
    ),
    "init_process_group": "init",
    **dict.fromkeys(("new_group", "new_subgroups", "split_group"), "comm"),
    **dict.fromkeys(("send", "send_object_list"), "send"),
    **dict.fromkeys(("recv", "recv_object_list"), "recv"),
    "batch_isend_irecv": "other",
}
"""Functions of the module that wait for other ranks, with their kinds."""
_SAME_SIZES = frozenset({"all_reduce", "broadcast", "reduce", "all_gather_into_tensor"})
"""Functions whose tensor has one size on all ranks."""
_TENSORS = ("tensor", "input_tensor")
_ROOTS = ("src", "dst")
_SOURCES = ("src", "group_src")
_REDUCER = pattern(r"c10d::Reducer::")
_WAITS = pattern(r"c10d::(?:\w+::)*(?:\w*Work\w*::wait|wait_tensors?)\b")
BACKWARD = "backward of DistributedDataParallel"
"""The call in which a reducer of gradients waits for those of the other ranks."""
WAIT = "Work.wait"


def call_of(
    frames: Sequence[PythonFrame], inner: Sequence[str], interpreter: Interpreter | None
) -> MpiCall | None:
    """Return the call of torch.distributed that a thread is in, None if it is in none.

    :param frames: its Python frames, innermost first.
    :param inner: names of the C functions inside the innermost Python frame.
    """
    frame = _called(frames)
    if frame is not None:
        call = MpiCall(function=frame.name, kind=_KINDS[frame.name], blocking=True)
        return call if interpreter is None else _described(call, frame, interpreter)
    if any(_REDUCER.match(each) for each in inner):
        return MpiCall(function=BACKWARD, kind="collective", blocking=True)
    if any(_WAITS.match(each) for each in inner):
        return MpiCall(function=WAIT, kind="wait", blocking=True)
    return None


def _called(frames: Sequence[PythonFrame]) -> PythonFrame | None:
    """Return the outermost frame of the innermost call of the module."""
    found = None
    for each in frames:
        if each.filename.endswith(_MODULE):
            found = each if each.name in _KINDS else found
        elif found is not None and not each.filename.endswith(_LOGGER):
            break
    return found


def _described(call: MpiCall, frame: PythonFrame, interpreter: Interpreter) -> MpiCall:
    """Return the call with its arguments, as far as they can be read."""
    parts = _Arguments(frame, interpreter)
    for step in (parts.group, parts.peers, parts.tensor):
        # A table may be in change, and the other arguments known all the same.
        with contextlib.suppress(UnknownError):
            call = step(call)
    return call


class _Arguments:
    """The arguments of one call."""

    def __init__(self, frame: PythonFrame, interpreter: Interpreter) -> None:
        self._frame = frame
        self._interpreter = interpreter
        self._objects = interpreter.objects
        self._ranks: dict[int, int] = {}
        """Global ranks of the group by their numbers in it."""

    def group(self, call: MpiCall) -> MpiCall:
        """Find the process group and its ranks."""
        if call.kind == "init":
            return call
        names, ranks = self._global("_pg_names"), self._global("_pg_group_ranks")
        # A new group is made by all ranks.
        given = 0 if call.kind == "comm" else self._argument("group")
        group = given or self._objects.attribute(self._global("_world"), "_default_pg")
        objects = self._objects
        if (members := dict(objects.items(ranks)).get(group)) is None:
            return call
        self._ranks = {
            objects.integer(number): objects.integer(rank)
            for rank, number in objects.items(members)
        }
        name = dict(objects.items(names)).get(group)
        title = f"process group {objects.text(name)}" if name is not None else "a process group"
        comm = Communicator(
            name=title,
            members=str(RankSet(self._ranks.values())),
            identity=title if name is not None else "",
        )
        return replace(call, communicator=comm)

    def peers(self, call: MpiCall) -> MpiCall:
        """Find the rank that the call names."""
        for name in _ROOTS:
            peer = self._peer(name)
            if peer is None:
                continue
            if call.kind == "collective":
                return replace(call, root=peer)
            return replace(call, **{"dest" if name == "dst" else "source": peer})
        if call.kind == "recv" and self._are_none(_SOURCES):
            return replace(call, source=ANY_SOURCE)
        return call

    def tensor(self, call: MpiCall) -> MpiCall:
        """Find the size and the type of the tensor, and the tag of a message."""
        if call.kind in ("send", "recv") and (tag := self._argument("tag")):
            call = replace(call, tag=self._objects.integer(tag))
        if call.function not in _SAME_SIZES:
            return call
        for name in _TENSORS:
            if address := self._argument(name):
                place = self._interpreter.at(address)
                if isinstance(place, ArrayPlace):
                    return replace(call, count=place.count, datatype=place.element_name)
        return call

    def _peer(self, name: str) -> Peer | None:
        if address := self._argument(name):
            return self._objects.integer(address)
        if address := self._argument(f"group_{name}"):
            return self._ranks.get(self._objects.integer(address))
        return None

    def _are_none(self, names: Collection[str]) -> bool:
        """Return whether the call has arguments of these names, and all of them are None."""
        texts = [each.repr for each in self._frame.locals or () if each.name in names]
        return bool(texts) and all(each == "None" for each in texts)

    def _argument(self, name: str) -> int:
        """Return the address of an argument, 0 for None and for one that is not there."""
        for each in self._frame.locals or ():
            if each.name == name and each.addr and each.repr != "None":
                return each.addr
        return 0

    def _global(self, name: str) -> int:
        # No variable of the function may stand for one of the module.
        found = self._interpreter.resolve(Path(name), replace(self._frame, locals=()))
        if not isinstance(found, int):
            raise UnknownError(f"{name} is an array")
        return found
