"""Values of arguments that GDB evaluates as the source line has them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.written_arguments import written_arguments
from pgdb.mpi_calls import CallSite, MpiCall


class Evaluator:
    """Stand-in for a GDB that knows some variables."""

    def __init__(self, **values: str) -> None:
        self._values = values
        self.asked: list[str] = []

    def send_together(self, *commands: str) -> list[asyncio.Future[Result]]:
        loop = asyncio.get_running_loop()
        answers = []
        for command in commands:
            text = command.rpartition("(long)(")[2].rstrip('")')
            self.asked.append(text)
            answer: asyncio.Future[Result] = loop.create_future()
            value = self._values.get(text)
            known = value is not None
            answer.set_result(Result("done" if known else "error", text=value or ""))
            answers.append(answer)
        return answers


def values_of(line: str, gdb: Evaluator, folder: Path, **known: int) -> dict[str, int]:
    source = folder / "a.c"
    source.write_text(f"{line}\n")
    call = MpiCall("MPI_Recv", **known)  # type: ignore[arg-type]  # numbers only
    site = CallSite("main", "a.c", 1, fullname=str(source))

    async def ask() -> dict[str, int]:
        session: GdbSession = gdb  # type: ignore[assignment]  # all that is called of one
        return await written_arguments(session, "1", 3, call, site)

    return asyncio.run(ask())


def test_arguments_that_are_unknown_are_evaluated(tmp_path: Path) -> None:
    gdb = Evaluator(n="4", **{"h->left": "2"})
    line = "MPI_Recv(b, n, MPI_INT, h->left, tag, c, MPI_STATUS_IGNORE);"
    assert values_of(line, gdb, tmp_path, tag=7) == {"count": 4, "source": 2}
    assert gdb.asked == ["n", "h->left"]


@pytest.mark.parametrize("text", ["next()", "k++", "--k", "a = 3", "v.at(2)", "(k)", "f (x)"])
def test_nothing_is_evaluated_that_can_change_the_rank(tmp_path: Path, text: str) -> None:
    gdb = Evaluator()
    line = f"MPI_Recv(b, {text}, MPI_INT, 0, 1, c, MPI_STATUS_IGNORE);"
    assert values_of(line, gdb, tmp_path, source=0, tag=1) == {}
    assert gdb.asked == []


def test_values_that_gdb_does_not_have_stay_unknown(tmp_path: Path) -> None:
    gdb = Evaluator(n="<optimized out>")
    line = "MPI_Recv(b, n, MPI_INT, p, MPI_ANY_TAG, c, MPI_STATUS_IGNORE);"
    assert values_of(line, gdb, tmp_path) == {}
