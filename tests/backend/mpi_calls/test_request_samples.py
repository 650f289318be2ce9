"""Findings about requests: tried once at each look, and kept for all ranks of one library."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from pgdb.backend.mpi_calls.handle_objects import candidates, is_request
from pgdb.backend.mpi_calls.request_samples import Places, RequestSamples, Sample

HANDLE = 0x98000001


def made(tag: int, peer: int) -> Sample:
    """Return a request of Open MPI with a tag at 0x80, the peer before it and no count."""
    data = bytearray(0x100)
    struct.pack_into("<ii", data, 0x7C, peer, tag)
    unused: Any = None
    return Sample(1, bytes(data), peer, tag, 9999, unused)


class Tries:
    """Looks at ranks of one library that was not seen before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.samples: list[Sample] = []
        self._library: Any = SimpleNamespace(
            image=SimpleNamespace(key=self), family="openmpi", type_name=lambda data: "a class"
        )

        def samples(looking: RequestSamples, function: str) -> Iterator[Sample]:
            self.count += 1
            yield from self.samples

        monkeypatch.setattr(RequestSamples, "samples", samples)

    def look(self) -> RequestSamples:
        return RequestSamples(self._library)


def test_one_look_tries_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Tries(monkeypatch)
    look = tries.look()
    assert [look.places("Irecv") for _ in range(9)] == [None] * 9
    assert tries.count == 1
    assert tries.look().places("Irecv") is None
    assert tries.count == 2


def test_a_rank_at_a_better_moment_shows_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Tries(monkeypatch)
    first = tries.look()
    assert first.places("Irecv") is None
    tries.samples = [made(0x5A1, 2), made(0x607, 3)]
    expected = Places(tag=0x80, peer=0x7C, type_name="a class")
    assert tries.look().places("Irecv") == expected
    assert first.places("Irecv") == expected
    assert tries.count == 2


def test_a_library_that_shows_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Tries(monkeypatch)
    for _ in range(9):
        assert tries.look().places("Irecv") is None
    assert tries.count == 4


def test_an_object_begins_before_the_fields_that_are_read() -> None:
    found = list(candidates([(0x1018, 4), (0x1018, 8), (0x2004, 4)]))
    assert found[:4] == [0x1018, 0x1010, 0x1008, 0x1000]
    assert 0x2000 in found and len(found) == len({*found})
    assert is_request(struct.pack("<Iii", HANDLE, 1, 2), HANDLE)
    for references, kind in ((0, 2), (1, 0), (1 << 20, 2), (1, 99)):
        assert not is_request(struct.pack("<Iii", HANDLE, references, kind), HANDLE)
    assert not is_request(struct.pack("<Iii", HANDLE, 1, 2), HANDLE + 1)


class OwnBlock:
    """A private copy in which the library has made a new block of requests."""

    AT, PLACE = 0x7EC01000, 0x7EC00010
    ON_STACK = 0x7EBFDF00

    @contextmanager
    def recorded_reads(self) -> Iterator[list[tuple[int, int]]]:
        yield [(self.ON_STACK + 8, 4), (self.AT + 8, 4)]

    def allocate(self, size_bytes: int) -> int:
        return self.PLACE

    def is_allocated(self, address: int) -> bool:
        return address >= self.PLACE

    def read(self, address: int, size_bytes: int) -> bytes:
        is_head = address in (self.AT, self.ON_STACK)
        return struct.pack("<Iii", HANDLE if is_head else 0, 1, 4)


def test_an_object_in_a_new_block_of_the_private_copy_is_found() -> None:
    """A process with eight open requests has used up the first block of MPICH."""
    library: Any = SimpleNamespace(
        emulator=OwnBlock(), query=lambda *_, **__: None, is_stack=lambda address: True
    )
    assert RequestSamples(library)._object(library, HANDLE) == OwnBlock.AT
