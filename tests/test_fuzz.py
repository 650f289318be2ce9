"""Foreign data is read or refused: former crashes, made-up inputs, and the watch itself.

``python -m fuzz`` makes longer runs, see fuzz/README.md.
"""

from __future__ import annotations

import gc
import mmap
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import watch
from fuzz.common import close_loop
from fuzz.mutation import bytes_mutator, repeated, tree_mutator
from fuzz.targets import CORPUS, CRASHES, TARGETS, Target
from fuzz.watch import Watch
from pgdb.frontend.commands.table import COMMANDS
from pgdb.frontend.system.typed_names import directory

ROOT = Path(__file__).resolve().parents[1]
every_target = pytest.mark.parametrize("name", TARGETS)


@pytest.fixture(scope="module", autouse=True)
def _loop() -> Iterator[None]:
    yield
    close_loop()


@every_target
def test_what_once_did_harm_does_none(name: str) -> None:
    target = TARGETS[name]
    outcome = Watch(target).replay(target.corpus)
    assert not outcome.crashes
    # The link ends after the last of its messages.
    read = outcome.accepted + outcome.errors["LinkError"]
    assert outcome.inputs > 1 and read, "the corpus is not what the target reads"


def test_every_folder_of_inputs_belongs_to_a_target() -> None:
    for folder in (CORPUS, CRASHES):
        assert {path.name for path in folder.iterdir()} <= set(TARGETS)
        assert all(path.stat().st_size < 1 << 17 for path in folder.glob("*/*"))
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


@pytest.mark.slow
@every_target
def test_some_hundred_inputs_do_no_harm(name: str) -> None:
    outcome = Watch(TARGETS[name]).run(600, seed=1)
    assert not outcome.crashes
    assert outcome.inputs == 600


@pytest.mark.slow
@every_target
def test_made_up_inputs_do_no_harm(name: str) -> None:
    target = TARGETS[name]
    parts = st.sampled_from([*target.words, *(each[:200] for each in target.corpus[:20])])

    @settings(max_examples=60, deadline=None)
    @given(st.lists(parts | st.binary(max_size=12), max_size=12).map(b"".join))
    def reads_it_or_refuses(data: bytes) -> None:
        try:
            target.run(data)
        except target.errors:
            pass

    reads_it_or_refuses()


def test_every_command_is_known_to_the_stand_in_for_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # for commands that write files
    target = TARGETS["commands"]
    lines = [
        f"{each.word}{rest}" for each in COMMANDS.commands for rest in ("", " 1", " 0-3", " x")
    ]
    assert not Watch(target).replay([line.encode() for line in lines]).crashes
    assert directory() == tmp_path  # not where 'cd' has gone
    # A coroutine that nobody has awaited fails the test here.
    gc.collect()


# -- the watch -----------------------------------------------------------------------------------


def reader_of(behaviour: dict[bytes, object]) -> Target:
    def run(data: bytes) -> None:
        for start, what in behaviour.items():
            if data.startswith(start):
                if isinstance(what, Exception):
                    raise what
                assert callable(what)
                what()

    return Target("made-up", "nothing", run, (KeyError,), (b"a", b"b"))


@pytest.mark.slow
def test_the_watch_sees_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "STUCK_S", 1.0)

    def never() -> None:
        while True:
            pass

    def busy() -> None:
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass

    behaviour = {b"k": KeyError("fine"), b"v": ValueError("bad"), b"n": never}
    outcome = Watch(reader_of(behaviour)).replay([b"x", b"k", b"v", b"n"])
    assert (outcome.inputs, outcome.accepted, outcome.errors["KeyError"]) == (4, 1, 1)
    assert list(outcome.crashes.values()) == [b"v", b"n"]
    bad, stuck = outcome.crashes
    assert bad.startswith("ValueError: bad") and stuck.startswith("no end within 1 s")

    monkeypatch.setattr(watch, "STUCK_S", 60.0)
    assert Watch(reader_of({b"s": busy})).replay([b"x", b"s"]).crashes == {"slow": b"s"}


def test_inputs_follow_from_the_seed() -> None:
    target = TARGETS["wire"]
    for mutator in (bytes_mutator, tree_mutator):
        mutate = mutator(target.corpus, target.words)
        one, other = random.Random(5), random.Random(5)
        assert [mutate(one) for _ in range(200)] == [mutate(other) for _ in range(200)]
        assert len({mutate(one) for _ in range(200)}) > 150


def test_repeated_words_come_in_two_lengths() -> None:
    for whole, half in repeated((b"ab", b"c"), 100):
        assert whole.startswith(half) and len(half) < len(whole) <= 102


def test_memory_that_grows_is_reported() -> None:
    kept = []

    def keep() -> None:
        # The pages must be new ones: a process that has run for long has free pages left.
        kept.append(region := mmap.mmap(-1, 16 << 10))
        region.write(b"x" * (16 << 10))

    target = reader_of({b"": keep})
    mutated = Target(
        target.name, target.what, target.run, (), (), lambda corpus, words: lambda rng: b"x"
    )
    outcome = Watch(mutated).run(2048, seed=1)
    assert outcome.rss_end_bytes - outcome.rss_begin_bytes > 16 << 20


def test_a_run_from_the_command_line_shows_what_came_of_it() -> None:
    line = [sys.executable, "-m", "fuzz", "ranks", "--inputs", "300", "--seed", "7"]
    finished = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "ranks: seed 7: 300 inputs in" in finished.stdout
