"""The worlds of a launcher, put together from what each host has of them."""

from __future__ import annotations

import pytest

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery.found_job import describe_world
from pgdb.frontend.discovery.worlds import HostPart, assemble, chosen, processes_of
from pgdb.jobs import world_keys
from pgdb.proctable import RankProcess, World
from pgdb.ranks import RankSet

URI = "2977431552.0;tcp://10.77.0.1:43059"
PROXY = "proxy:h1:4242"
FIRST_PID = 100


def part(host: str, key: str, size: int, *ranks: int) -> HostPart:
    """Return ranks of one world on a host; their pids show size and rank."""
    return HostPart(
        key=key,
        size=size,
        processes=tuple(
            RankProcess(rank=rank, host=host, pid=FIRST_PID * size + rank, executable="/bin/app")
            for rank in ranks
        ),
    )


def shape(worlds: tuple[World, ...]) -> list[tuple[int, int, dict[int, str]]]:
    """Return number, size, and the host of each rank, of each world."""
    return [
        (each.number, each.size, {one.rank: one.host for one in each.processes}) for each in worlds
    ]


@pytest.mark.parametrize(
    ("selector", "family", "number"),
    [
        (f"key:{URI} 2977431553", f"key:{URI}", 0),
        (f"key:{URI} 2977431555", f"key:{URI}", 2),
        ("key:prterun-n1-77@1", "key:prterun-n1-77@", 0),
        ("key:prterun-n1-77@12", "key:prterun-n1-77@", 11),
        (f"{PROXY} 0", PROXY, 0),
        (f"{PROXY} 1 spawned 2", PROXY, None),
        ("key:753b-99 spawned 1", "key:753b-99", None),
        ("key:753b-99", "key:753b-99", 0),
        ("slurm:17.0", "", 0),
        ("", "", 0),
    ],
)
def test_a_selector_has_a_family_and_a_number(
    selector: str, family: str, number: int | None
) -> None:
    assert world_keys.family_of(selector) == family
    assert world_keys.number_of(selector) == number
    assert world_keys.matches(selector, world_keys.ALL + family) is bool(family)
    spawned = world_keys.matches(selector, world_keys.SPAWNED + family)
    assert spawned is (bool(family) and number != 0)
    assert not world_keys.matches(selector, world_keys.ALL + "key:another")


def test_worlds_of_open_mpi_have_the_launchers_numbers() -> None:
    # World 1 has ended; nobody takes its number.
    found = assemble(
        [
            [part("h1", f"key:{URI} 2977431553", 2, 0, 1)],
            [part("h2", f"key:{URI} 2977431555", 3, 0, 2)],
            [part("h3", f"key:{URI} 2977431555", 3, 1)],
        ]
    )
    assert shape(found) == [(0, 2, {0: "h1", 1: "h1"}), (2, 3, {0: "h2", 1: "h3", 2: "h2"})]


def test_worlds_of_hydra_are_put_together_by_their_order() -> None:
    """MPICH 5.0.2 has placed worlds so, with one rank on a host in turn."""
    found = assemble(
        [
            [
                part("h1", f"{PROXY} 0", 2, 0),
                part("h1", f"{PROXY} 0 spawned 1", 2, 1),
                part("h1", f"{PROXY} 0 spawned 2", 3, 2),
            ],
            [part("h2", f"{PROXY} 0", 2, 1), part("h2", f"{PROXY} 0 spawned 1", 3, 0)],
            [
                part("h3", f"{PROXY} 1 spawned 1", 2, 0),
                part("h3", f"{PROXY} 1 spawned 2", 3, 1),
            ],
        ]
    )
    assert shape(found) == [
        (0, 2, {0: "h1", 1: "h2"}),
        (1, 2, {0: "h3", 1: "h1"}),
        (2, 3, {0: "h2", 1: "h3", 2: "h1"}),
    ]


def test_worlds_of_one_size_are_not_mixed() -> None:
    found = assemble(
        [
            [part("h1", f"{PROXY} 0 spawned 1", 2, 0), part("h1", f"{PROXY} 0 spawned 2", 2, 1)],
            [part("h2", f"{PROXY} 0 spawned 1", 2, 1), part("h2", f"{PROXY} 0 spawned 2", 2, 0)],
        ]
    )
    assert [each[2] for each in shape(found)] == [{0: "h1", 1: "h2"}, {0: "h2", 1: "h1"}]


def test_a_world_without_some_of_its_ranks_says_so() -> None:
    (world,) = assemble([[part("h2", f"{PROXY} 0 spawned 1", 4, 1, 3)]])
    assert describe_world(world) == "world 1 has 2 of 4 ranks (h2: pids 401, 403)"
    assert world.numbered_from(10).ranks == RankSet([11, 13])
    assert world.numbered_from(10).first == 10


def test_ranks_of_further_worlds_are_numbered_on() -> None:
    worlds = assemble(
        [
            [
                part("h1", "key:prterun-h1-9@1", 2, 0, 1),
                part("h1", "key:prterun-h1-9@2", 4, 1, 3),
                part("h1", "key:prterun-h1-9@3", 1, 0),
            ]
        ]
    )
    everything = chosen(worlds, "all", "mpirun 9")
    # Ended ranks keep their numbers.
    assert [str(each.ranks) for each in everything] == ["0-1", "3,5", "6"]
    assert [(each.rank, each.pid) for each in processes_of(everything)] == [
        (0, 200),
        (1, 201),
        (3, 401),
        (5, 403),
        (6, 100),
    ]
    (one,) = chosen(worlds, "1", "mpirun 9")
    assert str(one.ranks) == "1,3"
    with pytest.raises(DiscoveryError, match="mpirun 9 has no world '3'; it has worlds 0 to 2"):
        chosen(worlds, "3", "mpirun 9")
    with pytest.raises(DiscoveryError, match="no world 'x'; it has worlds 0,2, and"):
        chosen((worlds[0], worlds[2]), "x", "mpirun 9")
    with pytest.raises(DiscoveryError, match="it has no ranks"):
        chosen((), "all", "mpirun 9")
