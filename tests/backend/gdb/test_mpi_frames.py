"""The object that a frame lies in, not its name, decides its owner and where a stack is folded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdb.backend.gdb.mpi_frames import (
    Objects,
    Owner,
    Place,
    find_callback,
    find_mpi_call,
    internal_name,
    is_of_runtime,
    mpi_name,
    named,
    owner_of,
)
from pgdb.backend.sbd.rank_files import MappedFile
from pgdb.records import Frame, Variable

MPI, USER, RUNTIME, C = Owner.MPI, Owner.USER, Owner.RUNTIME, Owner.C_RUNTIME


def places(*frames: tuple[str, Owner], source: Path | None = None) -> tuple[Place, ...]:
    """Return frames, innermost first; the user's have the *source*."""
    return tuple(
        Place(
            frame=Frame(
                level=level,
                function=function,
                fullname=str(source) if source and owner is USER else "",
            ),
            address=level,
            owner=owner,
        )
        for level, (function, owner) in enumerate(frames)
    )


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        *[
            (f"/opt/mpi/lib/{name}", MPI)
            for name in (
                "libmpi.so.40",
                "libmpi.so.40.30.4",
                "libmpi.so.12.0.0",
                "libmpich.so.12",
                "libmpichfort.so.12",
                "libmpifort.so.12",
                "libmpicxx.so",
                "libmpi_mpifh.so.40",
                "libmpi_usempif08.so.40",
                "libmpi_usempi_ignore_tkr.so.40",
                "libmpi_cxx.so.40",
                "libmpi_abi.so.1",
                "libmpi_ilp64.so.4",
                "libmpi_gnu_91.so.12",
                "libmpi_ibm.so.3",
                "libpmpi.so",
            )
        ],
        *[
            (f"/usr/lib/{name}", RUNTIME)
            for name in (
                "libopen-pal.so.40",
                "libopen-rte.so.40",
                "libpmix.so.2",
                "libevent_core-2.1.so.7",
                "libhwloc.so.15",
                "libucp.so.0",
                "libucs.so.0",
                "libucs_signal.so.0",
                "libuct_ib.so.0",
                "mca_btl_vader.so",
                "libfabric.so.1",
                "libtcp-fi.so",
                "libpsm2.so.2",
            )
        ],
        *[
            (f"/usr/lib/x86_64-linux-gnu/{name}", C)
            for name in (
                "libc.so.6",
                "libc-2.31.so",
                "libpthread-2.31.so",
                "libm.so.6",
                "ld-linux-x86-64.so.2",
                "ld-2.31.so",
                "ld-musl-x86_64.so.1",
                "libstdc++.so.6",
            )
        ],
        ("/usr/lib/libgomp.so.1", Owner.SYSTEM),
        ("/usr/lib/libcuda.so.1", Owner.SYSTEM),
        ("/home/me/libsolver.so", USER),
        ("/home/me/libmpiP.so", USER),
        ("/home/me/libmpi_wrapper.so", USER),
        ("/home/me/MPI.cpython-311-x86_64-linux-gnu.so", USER),
        ("/home/me/libmpicture.so", USER),
        ("/usr/local/lib/libdata.so", USER),
        ("", Owner.UNKNOWN),
    ],
)
def test_whose_library(path: str, owner: Owner) -> None:
    assert owner_of(path) is owner


def test_whose_code_by_address() -> None:
    def mapping(start: int, path: str) -> MappedFile:
        return MappedFile(start, start + 0x1000, 0, path, is_deleted=False)

    objects = Objects(
        [mapping(0x9000, "/lib/libmpi.so.40"), mapping(0x1000, "/usr/lib/app")], "/usr/lib/app"
    )
    assert objects.has_mpi
    # A program is the user's even if it is installed beside the system's libraries.
    assert objects.owner(0x1000, "") is USER
    assert objects.owner(0x1FFF, "") is USER
    assert objects.owner(0x2000, "") is Owner.UNKNOWN
    assert objects.owner(0x9800, "") is MPI
    assert objects.owner(0x100, "/x/libmpi.so") is MPI
    assert not Objects([], "").has_mpi
    assert Objects([], "").owner(0x1000, "/lib/libc.so.6") is C


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("PMPI_Recv", "PMPI_Recv"),
        ("MPI_Recv", "PMPI_Recv"),
        ("PMPI_Recv_c", "PMPI_Recv"),
        ("mpi_recv", "PMPI_Recv"),
        ("mpi_recv_", "PMPI_Recv"),
        ("pmpi_recv__", "PMPI_Recv"),
        ("mpi_recv_f08_", "PMPI_Recv"),
        ("pmpi_recv_f08ts_", "PMPI_Recv"),
        ("MPI_RECV", "PMPI_Recv"),
        ("mpi_comm_rank_", "PMPI_Comm_rank"),
        ("PMPI_Init_thread", "PMPI_Init_thread"),
        ("PMPI_Win_fence", "PMPI_Win_fence"),
        ("mpi_type_create_f90_real_", "PMPI_Type_create_f90_real"),
        ("MPI_T_cvar_read", "PMPI_T_cvar_read"),
        ("MPI::Comm::Recv", "MPI::Comm::Recv"),
        ("MPIR_Wait_impl", ""),
        ("ompi_mpi_finalize", ""),
        ("??", ""),
    ],
)
def test_all_names_of_a_call_are_one(function: str, name: str) -> None:
    assert mpi_name(function) == name


def test_what_stands_in_for_a_call() -> None:
    assert internal_name("ompi_mpi_finalize") == "PMPI_Finalize"
    assert internal_name("MPID_Progress_wait") == "MPID_Progress_wait"


def test_a_wait_is_folded_at_the_call() -> None:
    waiting = places(
        ("sched_yield", C),
        ("ucp_worker_progress", RUNTIME),
        ("??", MPI),
        ("PMPI_Recv", MPI),
        ("solve", USER),
        ("main", USER),
    )
    assert find_mpi_call(waiting, has_mpi=True) == 3
    assert find_mpi_call(waiting[3:], has_mpi=True) == 0
    assert find_mpi_call(waiting[4:], has_mpi=True) is None
    assert find_mpi_call((), has_mpi=True) is None
    # Fortran's binding calls that of C.
    fortran = places(("??", MPI), ("PMPI_Recv", MPI), ("pmpi_recv__", MPI), ("MAIN__", USER))
    assert find_mpi_call(fortran, has_mpi=True) == 2


def test_a_function_without_a_symbol_is_a_call_too() -> None:
    stack = places(("sched_yield", C), ("MPIR_Wait", MPI), ("??", MPI), ("main", USER))
    assert find_mpi_call(stack, has_mpi=True) == 2


def test_what_mpi_calls_back_stays_visible() -> None:
    stack = places(
        ("my_sum", USER), ("ompi_op_reduce", MPI), ("PMPI_Allreduce", MPI), ("main", USER)
    )
    assert find_mpi_call(stack, has_mpi=True) is None
    nested = places(("poll", C), ("PMPI_Recv", MPI), ("on_delete", USER), ("PMPI_Comm_free", MPI))
    assert find_mpi_call(nested, has_mpi=True) == 1


def test_the_call_around_a_function_of_the_user_is_found() -> None:
    stack = places(
        ("my_sum", USER), ("ompi_op_reduce", MPI), ("PMPI_Allreduce", MPI), ("main", USER)
    )
    assert find_callback(stack, has_mpi=True) == 2
    assert find_callback((*places(("pause", C)), *stack), has_mpi=True) == 3
    assert find_callback(stack[1:], has_mpi=True) is None
    assert find_callback(stack[3:], has_mpi=True) is None
    # The C library calls back functions of MPI, such as handlers of signals.
    assert find_callback((*places(("poll", C)), *stack[1:]), has_mpi=True) is None


def test_the_users_own_wrapper_stays_visible() -> None:
    stack = places(("poll", C), ("PMPI_Send", MPI), ("MPI_Send", USER), ("main", USER))
    assert find_mpi_call(stack, has_mpi=True) == 1
    # A measuring tool that is installed in the system.
    stack = places(("poll", C), ("PMPI_Send", MPI), ("MPI_Send", Owner.SYSTEM), ("main", USER))
    assert find_mpi_call(stack, has_mpi=True) == 1


def test_a_users_function_with_such_a_name_is_no_call() -> None:
    stack = places(("compute", USER), ("mpi_exchange", USER), ("main", USER))
    assert find_mpi_call(stack, has_mpi=True) is None


def test_mpi_in_the_program_itself(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("")
    inner = places(("poll", USER), ("MPIR_Wait", USER), ("PMPI_Wait", USER))
    outer = places(("solve", USER), ("main", USER), source=source)
    assert find_mpi_call((*inner, *outer), has_mpi=False) == 2
    callback = places(("my_sum", USER), source=source)
    assert find_mpi_call((*callback, *inner, *outer), has_mpi=False) is None


def test_a_call_says_nothing_of_versions() -> None:
    argument = Variable(name="count", value="1", is_argument=True)
    frame = Frame(
        level=3,
        function="MPI_Recv",
        arguments=(argument,),
        file="recv.c",
        fullname="/build/recv.c",
        line=80,
        library="/opt/a/lib/libmpi.so.40.30.4",
        offset="+200",
    )
    assert named(frame, "PMPI_Recv") == Frame(
        level=3, function="PMPI_Recv", arguments=(argument,), library="libmpi.so"
    )


@pytest.mark.parametrize(
    ("frames", "is_runtime"),
    [
        ([("epoll_wait", C), ("ucs_event_set_wait", RUNTIME), ("??", RUNTIME)], True),
        ([("sched_yield", C), ("progress", MPI)], True),
        ([("on_event", USER), ("event_base_loop", RUNTIME)], False),
        ([("poll", C), ("PMPI_Recv", MPI), ("worker", USER)], False),
        ([("poll", C), ("PMPI_Recv", MPI), ("petsc_thread", Owner.SYSTEM)], False),
        ([("do_wait", Owner.SYSTEM), ("gomp_thread_start", Owner.SYSTEM)], False),
        ([("nanosleep", C)], False),
        ([("??", Owner.UNKNOWN)], False),
        ([], False),
    ],
)
def test_whose_thread(frames: list[tuple[str, Owner]], is_runtime: bool) -> None:
    started = places(*frames, ("start_thread", C), ("clone3", C))
    assert is_of_runtime(started) is is_runtime
