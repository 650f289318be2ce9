"""The merged call tree of real jobs: who is where, snapshots while they run, files, the API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pgdb
from pgdb.frontend.analysis.calltree import CallTree, label
from tests.conftest import Build, StartJob
from tests.support.programs import Mpi, Program
from tests.support.terminal import PGDB, Terminal, assert_untouched, ex, run_json, run_pgdb

pytestmark = pytest.mark.mpi


def functions(tree: CallTree) -> set[str]:
    return {label(place) for node in tree.nodes for place in node.frames}


def test_tree_at_a_stop(mpi: Mpi, ring: Program, tmp_path: Path) -> None:
    html, dot = tmp_path / "t.html", tmp_path / "t.dot"
    finished = run_json(
        "launch",
        *ex(f"break {ring.at('advance')}", "c", "delete", f"proc 1 tbreak {ring.at('send')}"),
        *ex("proc 1 c", "tree", "focus @3", "p rank", "focus all"),
        *ex(f"where --by line -tree --html '{html}' --dot={dot}"),
        *ex("tree --samples 2", f"tree --json {tmp_path}/nowhere/t.json", "tree --nonsense"),
        *mpi.line(3, ring),
    )
    assert finished.status == 1, finished.out
    tree, by_line = finished.of_type("tree")
    shape = [
        ([each["function"] for each in node.get("frames", ())], node["ranks"])
        for node in tree["nodes"]
    ]
    assert shape == [(["main", "advance"], "0-2"), ([], "0,2"), (["exchange"], "1")]
    assert tree["nodes"][2]["odd"]
    assert tree["nodes"][2]["sources"][0]["line"] == ring.line("send")
    assert finished.answer("print rank")["ranks"] == "1", "the ranks of @3"
    assert by_line["by"] == "line"
    assert by_line["nodes"][0]["frames"][0]["line"] == ring.line("step")
    assert by_line["files"] == [str(html), str(dot)]
    assert "exchange" in html.read_text()
    assert "n1 -> n3" in dot.read_text()
    errors = [each["message"] for each in finished.of_type("error")]
    assert "no rank of [0-2] runs" in errors[0]
    assert "there is no directory" in errors[1]
    assert "there are --threads, --tasks, --full, --by" in errors[2]


def test_samples_leave_a_job_as_it_was(build: Build, start_job: StartJob, tmp_path: Path) -> None:
    program = build("storm.c")
    with start_job(3, program) as job:
        finished = run_json(
            "attach",
            *ex("break hit", "proc 0 c", "proc 1-2 delete", "proc 1-2 c &"),
            *ex(f"tree --samples 3 --every 0.1 --json {tmp_path}/t.json", "proc @running p 11"),
            *ex("proc @stopped p 22", "delete"),
            job.pid,
        )
        (tree,) = finished.of_type("tree")
        assert len(tree["times_s"]) == 3
        assert tree["stopped"] == "0"
        assert tree["nodes"][0]["ranks"] == "0-2"
        assert tree["nodes"][0]["samples"] == ["0-2"] * 3
        assert json.loads((tmp_path / "t.json").read_text())["times_s"] == tree["times_s"]
        assert finished.answer("print 11")["ranks"] == "1-2", "they run as before"
        assert finished.answer("print 22")["ranks"] == "0"
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
def test_samples_of_some_ranks_in_text(mpi: Mpi, ring: Program) -> None:
    finished = run_pgdb(
        "launch",
        "--batch",
        *ex("c &", "interrupt", f"break {ring.at('recv')}", "c &", "wait 120"),
        *ex("delete", "c &", "proc 0 tree --samples 2 --every 0.2", "interrupt", "ranks"),
        *mpi.line(2, ring),
    )
    assert "2/2 samples" in finished.out
    assert "[0-1] stopped on" in finished.out


@pytest.mark.any_mpi
def test_ctrl_c_gives_the_sampling_up(ring: Program, start_job: StartJob) -> None:
    with start_job(2, ring) as job:
        with Terminal(*PGDB, "attach", job.pid, columns=80) as terminal:
            terminal.expect(r"\(pgdb 0-1\)")
            terminal.ask("c &")
            terminal.line("tree --samples 1000 --every 60")
            terminal.expect("taking 1000 samples")
            # In the midst of the first sample, or while its ranks run again.
            terminal.control_c()
            terminal.expect(r"given up waiting; the ranks go on")
            terminal.ask("ranks", r"\[0-1\] running on")
            terminal.ask("tree", r"\[0-1\] running", r"'tree --samples 2' and more")
            terminal.line("quit")
            terminal.wait()
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
def test_tree_in_the_api(mpi: Mpi, ring: Program) -> None:
    with pgdb.launch(mpi.line(3, ring)) as session:
        session.break_at(ring.at("send")).check()
        session.continue_(timeout_s=120).check()
        tree = session.tree()
        assert str(tree.ranks) == "0-2"
        assert functions(tree) == {"main", "advance", "exchange"}
        assert len(tree.leaves) == 1
        assert {"main", "advance", "exchange"} == {
            name.partition(" ")[0] for name in functions(session[0:2].tree(by="line"))
        }
        precise = session[1].tree(by="pc")
        assert all("+" in name for name in functions(precise)), functions(precise)
        threads = session.tree(threads=True)
        assert "exchange" in functions(threads)
        with pytest.raises(pgdb.UsageError, match="no rank of"):
            session.tree(samples=2)
        with pytest.raises(pgdb.UsageError, match="0 samples"):
            session.tree(samples=0)
        session.delete().check()
        session.continue_(wait=False)
        sampled = session.tree(samples=3, every_s=0.1)
        assert sampled.samples == 3
        assert str(sampled.ranks) == "0-2"
        assert session.named_set("running") == session.set
        assert sampled.to_networkx().nodes[0]["ranks"] == "0-2"
