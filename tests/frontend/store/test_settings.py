"""Settings for later sessions: atomic, shared, and never an obstacle."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.table import Outcome
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.store import settings as settings_module
from pgdb.frontend.store.settings import (
    Settings,
    keep_settings,
    read_settings,
    settings_path,
)
from pgdb.frontend.system.user_files import locked
from pgdb.frontend.ui.arguments import parse
from pgdb.ranks import RankSet
from tests.fakes.bare_session import BareSession


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "pgdb" / "settings.json"


def dispatcher() -> Dispatcher:
    async def never(_: str) -> str | None:
        raise AssertionError("nothing is to be read")

    display = TextDisplay(io.StringIO())
    return Dispatcher(Workspace(BareSession()), display, read_line=never)  # type: ignore[arg-type]


def typed(line: str, at: Dispatcher) -> Outcome:
    return asyncio.run(at.dispatch(line, RankSet()))


LINES: list[tuple[str, dict[str, Any]]] = [
    ("settle 2.5", {"settle_s": 2.5}),
    ("timeout 90", {"timeout_s": 90.0}),
    ("stop-on-error off", {"stop_on_error": False}),
    ("array-limit 4G", {"array_limit_bytes": 4 << 30}),
    ("compare-pointers raw", {"compare_pointers": "raw"}),
    ("confirm off", {"confirm": False}),
    ("pagination off", {"pagination": False}),
    ("height 0", {"height": 0}),
    ("width 132", {"width": 132}),
    ("status-line off", {"status_line": False}),
]


def value_at(at: Dispatcher, key: str) -> object:
    """Return the value that a setting has, wherever it is kept."""
    for place in (at.workspace, at.workspace.interface, at.session.options):
        if hasattr(place, key):
            return getattr(place, key)
    raise AssertionError(key)


@pytest.mark.parametrize(("line", "kept_values"), LINES)
def test_what_is_kept_is_there_the_next_time(
    path: Path, line: str, kept_values: dict[str, Any]
) -> None:
    now = dispatcher()
    assert typed(f"set {line}", now) is None and not path.exists()
    said = typed(f"set -keep {line}", now)
    assert isinstance(said, str) and str(path) in said
    assert read_settings(path) == Settings(**kept_values)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    later = dispatcher()
    later.apply(read_settings(settings_path()))
    (name, value), *_ = kept_values.items()
    assert value == value_at(later, name)


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("set confirm", "confirm", True),
        ("set con 0", "confirm", False),
        ("set pag no", "pagination", False),
        ("set pagination disable", "pagination", False),
        ("set he 0", "height", 0),
        ("set height unlimited", "height", 0),
        ("set wi 60", "width", 60),
        ("set width un", "width", 0),
        ("set stop-on-error 0", "stop_on_error", False),
    ],
)
def test_the_settings_of_the_terminal_have_gdbs_words(line: str, key: str, value: object) -> None:
    now = dispatcher()
    assert typed(line, now) is None and value_at(now, key) == value
    name = line.split()[1]
    assert str(typed(f"show {name}", now)).partition(": ")[2] in ("on", "off", "60", "unlimited")


def test_the_terminal_decides_the_size_of_a_page_unless_it_is_set() -> None:
    assert typed("show height", dispatcher()) == "height: the terminal's"


def test_a_limit_is_shown_in_the_unit_of_its_error() -> None:
    now = dispatcher()
    assert typed("show array-limit", now) == "array-limit: 1.0 GiB"
    typed("set array-limit 500000", now)
    assert typed("show array-limit", now) == "array-limit: 488.3 KiB"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("height -1", "'-1' is neither a whole number"),
        ("height", "'' is neither"),
        ("width 99999999999", "neither a whole number"),
        ("height 9999999999", "out of range"),
        ("pagination maybe", "neither on nor off"),
        ("print pretty on", "is no setting of PGDB's"),
        ("settle 0", "0.001 s to"),
        ("settle nan", "'nan' is no time"),
        ("timeout soon", "no number of seconds"),
        ("timeout", "needs a number of seconds"),
        ("timeout inf", "'inf' is no time; 0.001 s to 1e9 s is one"),
        ("timeout 1e300", "'1e300' is no time"),
        ("stop-on-error maybe", "neither on nor off"),
        ("compare-pointers both", "none of symbol, raw"),
        ("array-limit 0", "no number of bytes"),
    ],
)
def test_what_cannot_be_kept_changes_nothing(path: Path, line: str, why: str) -> None:
    now = dispatcher()
    with pytest.raises(UsageError, match=why):
        typed(f"set -keep {line}", now)
    assert not path.exists() and now.session.options == SessionOptions()


def test_sessions_at_once_keep_each_others_settings(path: Path) -> None:
    kept = [Settings(**kept_values) for _, kept_values in LINES]
    threads = [threading.Thread(target=keep_settings, args=(path, each)) for each in kept]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = {name: value for _, kept_values in LINES for name, value in kept_values.items()}
    assert read_settings(path) == Settings(**everything)


def test_links_live_while_another_session_holds_the_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_module, "LOCK_TIMEOUT_S", 20.0)
    is_waited_for = threading.Event()

    def noted(lock: Path, *, timeout_s: float) -> AbstractContextManager[None]:
        is_waited_for.set()
        return locked(lock, timeout_s=timeout_s)

    monkeypatch.setattr(settings_module, "locked", noted)
    path.parent.mkdir()

    async def work() -> Outcome:
        with locked(Path(f"{path}.lock"), timeout_s=1):
            keeping = asyncio.create_task(dispatcher().dispatch("set -keep settle 2", RankSet()))
            assert await asyncio.to_thread(is_waited_for.wait, 10)
            assert not keeping.done()
        return await keeping

    assert str(path) in str(asyncio.run(work()))
    assert read_settings(path) == Settings(settle_s=2.0)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"settle_s": "2"}', '{"nosuch": 1}', '{"timeout_s": -1}', '{"settle_s": 0}',
     '{"compare_pointers": "both"}', "\udcff", "[" * 5000, " " * (1 << 17)],
)  # fmt: skip
def test_damaged_file_is_reported_and_kept_aside(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(
        CommandError, match=r"settings\.json cannot be read: .*the defaults"
    ) as error:
        read_settings(path)
    assert "\n" not in str(error.value)
    said = keep_settings(path, Settings(settle_s=3.0))
    assert "could not be read" in said and read_settings(path) == Settings(settle_s=3.0)
    damaged = Path(f"{path}.damaged")
    assert damaged.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_nothing_kept_is_no_error(path: Path) -> None:
    assert read_settings(path) == Settings()


def test_full_disk_is_reported_and_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_settings(path, Settings(settle_s=3.0))

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(settings_module, "write_atomically", full)
    with pytest.raises(CommandError, match="No space left on device"):
        keep_settings(path, Settings(settle_s=4.0))
    assert read_settings(path) == Settings(settle_s=3.0)


def test_command_line_goes_before_what_is_kept() -> None:
    kept = Settings(settle_s=5.0, timeout_s=70.0, stop_on_error=True)
    given = parse(["attach", "--timeout", "8", "--no-stop-on-error", "--settle", "2"]).given
    assert kept | given == Settings(settle_s=2.0, timeout_s=8.0, stop_on_error=False)
    assert kept | parse(["attach"]).given == kept
    assert parse(["attach"]).options.timeout_s == SessionOptions().timeout_s


def test_what_is_no_file_is_left_where_it_is(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(CommandError, match="cannot be written: it is a directory"):
        keep_settings(path, Settings(settle_s=3.0))
    assert path.is_dir() and not Path(f"{path}.damaged").exists()
