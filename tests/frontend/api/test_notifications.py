"""Notifications: scripts that read any field of any kind, and those that ask for the class."""

from __future__ import annotations

import pytest

import pgdb
from pgdb.frontend.api.notifications import (
    JobEnded,
    JobOutput,
    Notification,
    RankEvents,
    RanksLost,
    SessionNotice,
    Starting,
)
from pgdb.ranks import RankSet


@pytest.mark.parametrize(
    ("notification", "kind"),
    [
        (Starting(text="aggregators 1/2"), "starting"),
        (RankEvents(classes=()), "event"),
        (RanksLost(ranks=RankSet([3]), text="no sign of life"), "lost"),
        (SessionNotice(text="breakpoint 1 cannot be set again"), "notice"),
        (JobOutput(text="x", stream="stderr", data=b"x"), "output"),
        (JobEnded(code=3), "ended"),
    ],
)
def test_each_notification_has_its_kind_and_is_a_informed_of_old_scripts(
    notification: Notification, kind: str
) -> None:
    assert notification.kind == kind
    assert isinstance(notification, pgdb.Told)
    assert isinstance(notification, pgdb.Notification)


def test_a_field_of_another_kind_has_its_neutral_value() -> None:
    ended = JobEnded(code=3)
    fields = ("classes", "answer", "ranks", "text", "hosts", "stream", "data")
    assert [getattr(ended, name) for name in fields] == [
        (), None, RankSet(), "", {}, "stdout", b"",
    ]  # fmt: skip
    assert getattr(SessionNotice(text="x"), "code") == 0  # noqa: B009  the type has none
    with pytest.raises(AttributeError, match="'JobEnded' object has no attribute 'colour'"):
        ended.colour  # type: ignore[attr-defined]  # noqa: B018
