"""Arguments as the user has written them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdb.backend.mpi_calls.source_line import words_of

C = """\
void exchange(struct halo *h)
{
    MPI_Recv(h->buffer, h->count, MPI_INT, /* left, here */ h->nbr[1],
             tags[f(0, ",)")], // the tag
             h->comm, MPI_STATUS_IGNORE);
    CHECK(MPI_Send(&x, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD));
    MPI_Barrier(a); MPI_Barrier(b);
    MPI_Bcast(ARGUMENTS);
}
"""
FORTRAN = """\
subroutine exchange()
  call mpi_recv(data, n, MPI_INTEGER, & ! not, this
       &        left(1, 2), 10*k, &
       sub, st, ierr)
  call MPI_BARRIER(comm=sub, ierror=ierr)
end subroutine
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "a.c").write_text(C)
    (tmp_path / "a.f90").write_text(FORTRAN)
    return tmp_path


def found(path: Path, line: int, function: str) -> dict[str, str]:
    return {each.argument: each.text for each in words_of(str(path), line, function)}


@pytest.mark.parametrize("line", [3, 4, 5])
def test_a_call_over_several_lines(sources: Path, line: int) -> None:
    assert found(sources / "a.c", line, "MPI_Recv") == {
        "count": "h->count",
        "datatype": "MPI_INT",
        "source": "h->nbr[1]",
        "tag": 'tags[f(0, ",)")]',
        "communicator": "h->comm",
    }


def test_a_call_inside_a_macro(sources: Path) -> None:
    words = found(sources / "a.c", 6, "MPI_Send")
    assert (words["dest"], words["communicator"]) == ("(rank + 1) % size", "MPI_COMM_WORLD")


@pytest.mark.parametrize(
    ("line", "function"),
    [(7, "MPI_Barrier"), (8, "MPI_Bcast"), (6, "MPI_Recv"), (0, "MPI_Recv"), (900, "MPI_Recv")],
)
def test_doubtful_calls_have_no_words(sources: Path, line: int, function: str) -> None:
    assert found(sources / "a.c", line, function) == {}


@pytest.mark.parametrize("line", [2, 3, 4])
def test_fortran_continues_lines(sources: Path, line: int) -> None:
    words = found(sources / "a.f90", line, "MPI_Recv")
    assert (words["source"], words["tag"]) == ("left(1, 2)", "10*k")
    assert words["communicator"] == "sub"


def test_keywords_of_fortran_have_no_order(sources: Path) -> None:
    assert found(sources / "a.f90", 5, "MPI_Barrier") == {}


def test_a_source_that_is_not_there_has_no_words(tmp_path: Path) -> None:
    assert words_of(str(tmp_path / "none.c"), 3, "MPI_Recv") == ()
