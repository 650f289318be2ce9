"""The pytest plugin: a fixture that starts jobs under PGDB, and a report of a failing test's jobs.

pytest loads this module in every run of an environment that has PGDB. So it loads nothing of the
front end before a test asks for the fixture.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pgdb.frontend.report.model import Report
    from pgdb.frontend.startup.sync import Session

REPORT_S = 60.0
"""Longest time for the report of one job, in seconds."""
_FORMS = (".html", ".json")
_SESSIONS = pytest.StashKey[list["Session"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option for the folder of the reports."""
    parser.getgroup("pgdb").addoption(
        "--pgdb-reports",
        metavar="DIR",
        default="pgdb-reports",
        help="the directory for the reports of jobs whose test fails (%(default)s)",
    )


class Jobs:
    """Starter of jobs under PGDB for one test; it has ``launch`` and ``attach`` of pgdb."""

    def __init__(self, sessions: list[Session]) -> None:
        self._sessions = sessions

    def __call__(self, line: Sequence[str], **options: Any) -> Session:
        """Launch a job, as :meth:`launch`."""
        return self.launch(line, **options)

    def launch(self, line: Sequence[str], **options: Any) -> Session:
        """Launch a job by the launcher's whole line; all its ranks are stopped in ``main``.

        *options* are those of :func:`pgdb.launch`. The job is killed when the test is over.
        """
        import pgdb

        return self._kept(pgdb.launch(line, **options))

    def attach(self, target: int | str, **options: Any) -> Session:
        """Attach to a running job, which runs on when the test is over.

        *options* are those of :func:`pgdb.attach`.
        """
        import pgdb

        return self._kept(pgdb.attach(target, **options))

    def _kept(self, session: Session) -> Session:
        self._sessions.append(session)
        return session


@pytest.fixture(name="pgdb")
def pgdb_fixture(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """Start jobs under PGDB: ``job = pgdb(["mpirun", "-n", "2", "./program"])`` is a Session.

    If the test fails, a report of its jobs is attached to it: the text is a section of the failure,
    and files in HTML and JSON are in the directory of --pgdb-reports. The jobs end with the test.
    """
    sessions: list[Session] = request.node.stash.setdefault(_SESSIONS, [])
    yield Jobs(sessions)
    errors = []
    while sessions:
        try:
            sessions.pop().close()
        except Exception as error:  # noqa: BLE001  # the other jobs have to end as well
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach a report of the jobs to a failing test, while the jobs are there."""
    outcome = yield
    if outcome.failed and call.when == "call":
        sessions = item.stash[_SESSIONS] if _SESSIONS in item.stash else []
        for number, session in enumerate(sessions, 1):
            if session.has_ended:
                continue
            name = "PGDB report" if number == 1 else f"PGDB report {number}"
            try:
                text, paths = _report(item, session, number)
            except Exception as error:  # noqa: BLE001  # the failure of the test comes first
                text, paths = f"there is no report: {error}", ()
            outcome.sections.append((name, text))
            # --junitxml takes them from the report of the teardown, which copies the test's.
            item.user_properties += [("pgdb_report", str(path)) for path in paths]
    return outcome


def _report(item: pytest.Item, session: Session, number: int) -> tuple[str, Sequence[Path]]:
    """Return the text of a report, and the files that were written."""
    from pgdb.errors import PgdbError
    from pgdb.frontend.report import writing

    folder = item.config.rootpath / item.config.getoption("--pgdb-reports")
    stem = re.sub(r"[^\w.-]+", "_", item.nodeid)[-150:] + (f"-{number}" if number > 1 else "")
    notes: list[str] = []
    try:
        session.interrupt()
    except PgdbError as error:
        notes.append(f"ranks could not be stopped: {error}")
    found: Report = session.report(title=item.nodeid, watches=True, timeout_s=REPORT_S)
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in _FORMS:
            path = folder / f"{stem}{suffix}"
            path.write_text(writing.render(found, suffix), encoding="utf-8", errors="replace")
            paths.append(path)
    except OSError as error:
        notes.append(f"the report cannot be written: {error}")
    shown = [*notes, *(f"written: {path}" for path in paths)]
    return "\n".join((*shown, *([""] if shown else []), writing.printed(found))), paths
