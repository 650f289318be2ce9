"""Changes of settings in a running session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgdb.errors import UsageError
from pgdb.frontend.api.option_names import nearest
from pgdb.frontend.api.options import CHANGEABLE, SESSION_SETTINGS

if TYPE_CHECKING:
    from pgdb.frontend.analysis.answers import Answer
    from pgdb.frontend.api.session import Session


async def change(session: Session, **settings: Any) -> None:
    """Change settings as ``set`` does, by their names in :class:`SessionOptions`:
    ``session.change_settings(stop_mode="all", timeout_s=30.0)``.

    :raises UsageError: if one of them cannot be changed in a session, or a value is none of
        its setting; nothing is changed then.
    """
    names = [each.key for each in SESSION_SETTINGS if each in CHANGEABLE.values()]
    for key in settings:
        if key not in names:
            raise UsageError(
                f"change_settings: {key!r} is no setting that a session can change"
                f"; there are {', '.join(names)}{nearest(key, names)}"
            )
    session.options = session.options.changed(**settings)
    for key in settings:
        await take_effect(session, key)


async def take_effect(session: Session, key: str) -> Answer | None:
    """Do what belongs to a setting that has been changed; return the ranks' answer, if any."""
    if key == "stop_before_death":
        return await session.set_stop_before_death(session.options.stop_before_death)
    if key == "stop_on_report":
        await session.set_stop_on_report(session.options.stop_on_report)
    return None
