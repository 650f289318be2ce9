"""The transport over core files refuses operations that need a process, before they are sent."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from pgdb.errors import CommandError
from pgdb.frontend.transport.cores import CoreTransport
from pgdb.frontend.transport.overlay_transport import Aggregators, OverlayTransport
from pgdb.overlay.messages import (
    AnyOperation,
    Console,
    Detach,
    Evaluate,
    ListBreakpoints,
    Request,
    Resume,
)
from pgdb.ranks import RankSet
from tests.support.wired_session import FrontEnd


class _Aggregators:
    """Aggregators that get requests and do not answer."""

    def __init__(self) -> None:
        self.sent: list[AnyOperation] = []
        self.root = FrontEnd(fan_out=2).root
        vars(self.root)["start_request"] = self._send

    def _send(self, request: Request) -> None:
        self.sent.append(request.operation)


def sent_by(kind: type[OverlayTransport], operation: AnyOperation) -> list[AnyOperation]:
    async def ask() -> list[AnyOperation]:
        below = _Aggregators()
        transport = kind(lambda calls: cast("Aggregators", below))
        asked = asyncio.create_task(transport.ask(1, RankSet([0]), operation, 9.0, "the line"))
        await asyncio.sleep(0)
        if asked.done():
            asked.result()
        asked.cancel()
        return below.sent

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "operation",
    [Resume(command="next"), Console(command="jump 3", run=True), Detach(), ListBreakpoints()],
)
def test_core_files_are_not_asked_for_what_needs_a_process(operation: AnyOperation) -> None:
    with pytest.raises(CommandError, match="'the line' needs a process"):
        sent_by(CoreTransport, operation)
    assert sent_by(OverlayTransport, operation) == [operation]


@pytest.mark.parametrize("operation", [Evaluate(expression="x"), Console(command="list")])
def test_core_files_answer_questions(operation: AnyOperation) -> None:
    assert sent_by(CoreTransport, operation) == [operation]
