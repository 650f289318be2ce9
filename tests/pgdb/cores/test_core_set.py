"""The ranks of a set of core files, and what is said about the rest of the set."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pgdb.cores.core_file import CoreFile, read_core
from pgdb.cores.core_set import assemble, mismatch
from tests.support.cores import core, rank_variables
from tests.support.elves import write_elf


def cores_in(folder: Path, named: dict[str, bytes]) -> list[CoreFile]:
    """Write files and read them as cores."""
    found = []
    for name, data in named.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        found.append(read_core(str(path)))
    return found


def test_ranks_are_those_of_the_environment_and_missing_ones_are_named(tmp_path: Path) -> None:
    files = {f"core.{90 - r}": core(environment=rank_variables(r, 5)) for r in (3, 0, 1)}
    found = assemble(cores_in(tmp_path, files))
    assert str(found.ranks) == "0-1,3"
    assert found.cores[3].path.endswith("core.87")
    assert (str(found.missing), found.size) == ("2,4", 5)
    assert found.source == "environment in the cores"
    assert any("no core of ranks 2,4 of 5" in note for note in found.notes)


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["core.rank7", "core.rank2"], "2,7"),
        (["run1/core.0", "run1/core.1", "run1/core.2"], "0-2"),
        (["0/core", "1/core"], "0-1"),
    ],
)
def test_without_the_environment_ranks_are_the_numbers_in_the_names(
    tmp_path: Path, names: list[str], ranks: str
) -> None:
    files = {name: core(pid=900 + at) for at, name in enumerate(names)}
    found = assemble(cores_in(tmp_path, files))
    assert str(found.ranks) == ranks
    assert found.source == "numbers in the names of the files"


def test_process_ids_in_names_are_no_ranks(tmp_path: Path) -> None:
    found = assemble(cores_in(tmp_path, {f"core.{pid}": core(pid=pid) for pid in (4, 2, 3)}))
    assert [found.cores[rank].pid for rank in range(3)] == [2, 3, 4]
    assert any("numbered by process id" in note for note in found.notes)
    assert found.size is None
    assert not found.missing


def test_cores_of_other_programs_and_jobs_are_left_out_and_named(tmp_path: Path) -> None:
    files = {f"core.{rank}": core(environment=rank_variables(rank, 3)) for rank in range(3)}
    files["core.old"] = core(environment=rank_variables(0, 3, job="600"))
    files["core.vim"] = core(program="/usr/bin/vim")
    found = assemble(cores_in(tmp_path, files))
    assert str(found.ranks) == "0-2"
    assert any("core.vim (of /usr/bin/vim)" in note for note in found.notes)
    assert any("core.old" in note and "another job" in note for note in found.notes)


def test_a_truncated_core_that_is_left_out_is_named_so(tmp_path: Path) -> None:
    files = {f"core.{rank}": core(environment=rank_variables(rank, 2)) for rank in range(2)}
    files["cut"] = core(program="/opt/app/other")[:-5]
    found = assemble(cores_in(tmp_path, files))
    assert str(found.ranks) == "0-1"
    assert any("cut (of /opt/app/other, truncated)" in note for note in found.notes)


def test_two_cores_of_a_rank_are_reported_and_the_latest_is_taken(tmp_path: Path) -> None:
    of_rank_0 = core(environment=rank_variables(0, 1))
    files = cores_in(tmp_path, {f"core.{number}": of_rank_0 for number in range(5)})
    for number, each in enumerate(files):
        # Another order than that of the names.
        files[number] = msgspec.structs.replace(each, written_s=float((number + 2) % 5))
    found = assemble(files)
    assert str(found.ranks) == "0"
    assert found.cores[0].path.endswith("core.2")
    (note,) = (each for each in found.notes if "left out" in each)
    places = (str(tmp_path / f"core.{number}") for number in (3, 4, 0))
    latest = tmp_path / "core.2"
    assert note == (
        f"rank 0: {latest} is opened, its latest core; left out: {', '.join(places)}, 1 more"
    )


def test_of_many_ranks_with_several_cores_few_are_named(tmp_path: Path) -> None:
    files = {
        f"{number}/core.{rank}": core(environment=rank_variables(rank, 6))
        for rank in range(6)
        for number in range(2)
    }
    found = assemble(cores_in(tmp_path, files))
    assert str(found.ranks) == "0-5"
    said = [note for note in found.notes if "core" in note]
    assert [note.partition(":")[0] for note in said[:3]] == ["rank 0", "rank 1", "rank 2"]
    assert said[3:] == ["3 further ranks have several cores; the latest of each is opened"]


def test_a_wrapper_of_a_rank_does_not_take_its_place(tmp_path: Path) -> None:
    files = {f"core.{rank}": core(environment=rank_variables(rank, 2)) for rank in range(2)}
    files["core.sh"] = core(program="/bin/sh", environment=rank_variables(0, 2))
    found = assemble(cores_in(tmp_path, files))
    assert {each.program for each in found.cores.values()} == {"/opt/app/solver"}
    (note,) = found.notes
    assert "core.0 is opened, its latest core of /opt/app/solver; left out: " in note
    assert note.endswith("core.sh (of /bin/sh)")


def test_the_users_program_decides(tmp_path: Path) -> None:
    files = {f"core.{rank}": core(environment=rank_variables(rank, 3)) for rank in range(3)}
    files["core.x"] = core(program="/opt/other", build_id="ff", environment=rank_variables(0, 1))
    program = write_elf(tmp_path / "elsewhere" / "renamed", "ff")
    found = assemble(cores_in(tmp_path, files), executable=str(program))
    assert [each.program for each in found.cores.values()] == ["/opt/other"]
    assert "left out, as they are not of" in found.notes[0]
    nothing = write_elf(tmp_path / "unrelated", "aa")
    assert not assemble(cores_in(tmp_path, files), executable=str(nothing)).ranks


def test_a_program_that_was_built_again_is_reported(tmp_path: Path) -> None:
    (one,) = cores_in(tmp_path, {"core": core(program=str(tmp_path / "app"))})
    same = write_elf(tmp_path / "app", "0123456789abcdef")
    assert not mismatch(one, str(same))
    other = write_elf(tmp_path / "app", "ee")
    assert "was built again" in mismatch(one, str(other))
    # By its name it is the program of the core.
    assert assemble([one], executable=str(other)).ranks


def test_truncated_cores_are_named_by_rank(tmp_path: Path) -> None:
    whole = [core(environment=rank_variables(rank, 3)) for rank in range(3)]
    files = {"a": whole[0], "b": whole[1][:-5], "c": whole[2][:-9]}
    found = assemble(cores_in(tmp_path, files))
    (note,) = found.notes
    assert "ranks 1-2 are truncated (up to 9 bytes are missing)" in note


def test_the_name_says_the_rank_of_a_core_that_lost_its_environment(tmp_path: Path) -> None:
    files = {f"core.{rank}": core(environment=rank_variables(rank, 4), pid=9) for rank in (0, 2, 3)}
    files["core.1"] = core(pid=9)
    found = assemble(cores_in(tmp_path / "a", files))
    assert str(found.ranks) == "0-3"
    assert not found.notes
    files = {name.replace("core.", "core.5"): data for name, data in files.items()}
    found = assemble(cores_in(tmp_path / "b", files))
    assert str(found.ranks) == "0,2-3"
    assert any("says which rank it is of" in note and "core.51" in note for note in found.notes)
