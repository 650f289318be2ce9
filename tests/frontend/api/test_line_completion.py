"""Quiet questions of the user interface, on the way of all requests."""

from __future__ import annotations

from pgdb.frontend.api.line_completion import complete_line
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import Console
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Text
from tests.fakes.command_job import ALL, STOP, Job, run

FIRST, SECOND = RankSet([0]), RankSet([1])


def test_a_late_answer_is_nobodys() -> None:
    async def test(job: Job) -> None:
        session = job.session
        operation = Console(command="complete b m")
        await job.give_up(session.traffic.ask_quietly(operation, FIRST, timeout_s=60))  # type: ignore[arg-type]
        # While the GDB of rank 0 is silent, that of rank 1 is asked.
        line = complete_line(session, "p x", ALL, timeout_s=60)
        task = await job.begin(line)  # type: ignore[arg-type]
        assert job.requests[-1].ranks == SECOND
        first = job.requests[0].request_id
        late = (EquivalenceClass(FIRST, Text("b main")),)
        job.root.answered(Gathered(first, late, Missing(), is_late=True))
        assert not task.done()
        job.answer((SECOND, Text("p xyz")))
        assert (await task).lines == ("p xyz",)  # type: ignore[attr-defined]
        assert await job.late_answers() == [] and job.session.recorder.exchanges == ()
        assert not session.traffic.silent

    run(test)


def test_a_rank_whose_gdb_has_stopped_it_again_can_be_asked() -> None:
    async def test(job: Job) -> None:
        traffic = job.session.traffic
        await job.give_up(traffic.ask_quietly(Console(command="complete b"), FIRST, timeout_s=60))  # type: ignore[arg-type]
        assert traffic.silent == FIRST
        traffic.on_events((EquivalenceClass(FIRST, STOP),))
        assert not traffic.silent

    run(test)
