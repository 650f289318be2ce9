"""C frames and Python frames are one stack in the right order, or their order is said unknown."""

from __future__ import annotations

from pgdb.backend.python import glue
from pgdb.backend.python.interleave import CFrame, Mixed, folded, interleave
from pgdb.backend.python.reader import PythonFrame
from pgdb.source_paths import is_of_python_library

PYTHON = "/usr/lib/libpython3.13.so.1.0"
LIBC, USER = "/lib/libc.so.6", "/opt/solver.so"
EVALUATOR = "_PyEval_EvalFrameDefault"


def c_frames(*names: str, first: int = 0x1000) -> list[CFrame]:
    """Return C frames, innermost first, each 0x100 bytes large; ``name@path`` has another file."""
    found = []
    for at, each in enumerate(names):
        name, _, path = each.partition("@")
        address = first + 0x100 * at
        found.append(CFrame(name, path or PYTHON, 0x400000 + at, address))
    return found


def run(*names: str) -> list[PythonFrame]:
    """Return one run of Python frames, innermost first."""
    return [
        PythonFrame(name, f"/job/{name}.py", 1, is_entry=at == len(names) - 1)
        for at, name in enumerate(names)
    ]


def words(mixed: Mixed, frames: list[CFrame]) -> list[str]:
    return [
        frames[each].function if isinstance(each, int) else each.name if each else "?"
        for each in mixed.items
    ]


def shown(mixed: Mixed, frames: list[CFrame], *patterns: str, keeps: bool = False) -> list[str]:
    indices = folded(mixed, frames, glue.Rules(patterns), keeps_innermost=keeps)
    all_words = words(mixed, frames)
    return [all_words[at] for at in indices]


MAIN = ("Py_BytesMain", f"__libc_start_call_main@{LIBC}", "_start")


def test_each_run_stands_where_its_evaluator_is() -> None:
    frames = c_frames("qsort@" + LIBC, EVALUATOR, "PyObject_Call", EVALUATOR, *MAIN)
    mixed = interleave(frames, [*run("compare"), *run("sort", "main")])
    assert mixed.is_exact
    assert shown(mixed, frames) == ["qsort", "compare", "sort", "main"]
    assert mixed.homes == {1: 1, 4: 3, 5: 3}


def test_library_code_between_two_runs_stays_between_them() -> None:
    frames = c_frames(EVALUATOR, f"dgemm@{USER}", EVALUATOR, *MAIN)
    mixed = interleave(frames, [*run("callback"), *run("main")])
    assert shown(mixed, frames) == ["callback", "dgemm", "main"]


def test_an_evaluator_that_is_just_entered_has_no_run() -> None:
    frames = c_frames("PyDict_New", EVALUATOR, "PyObject_Call", EVALUATOR, *MAIN)
    mixed = interleave(frames, run("main"))
    assert mixed.is_exact
    assert shown(mixed, frames) == ["main"]
    assert mixed.homes == {3: 3}


def test_library_code_in_an_evaluator_without_a_run_makes_the_order_unknown() -> None:
    frames = c_frames(f"wait@{USER}", EVALUATOR, f"call@{USER}", EVALUATOR, *MAIN)
    mixed = interleave(frames, run("main"))
    assert not mixed.is_exact
    assert words(mixed, frames) == ["wait", "?", "main"]


def test_hidden_evaluators_make_the_order_unknown_and_lose_nothing() -> None:
    # GCC moves most of the evaluator into parts without a symbol.
    frames = c_frames(f"nanosleep@{LIBC}", "??", "??", "PyEval_EvalCode", *MAIN)
    mixed = interleave(frames, [*run("sleeps"), *run("main")])
    assert not mixed.is_exact
    assert words(mixed, frames) == ["nanosleep", "?", "sleeps", "main"]


def test_a_stack_that_is_cut_off_is_not_matched_by_name() -> None:
    frames = c_frames("PyDict_New", EVALUATOR, "PyObject_Call", EVALUATOR, "PyObject_Call")
    assert not interleave(frames, [*run("a"), *run("b")]).is_exact


def test_addresses_find_evaluators_without_a_name() -> None:
    frames = c_frames(f"nanosleep@{LIBC}", "??", f"qsort@{LIBC}", "??", "PyEval_EvalCode", *MAIN)
    entries = [(0x1180, 1), (0x1340, 2)]
    mixed = interleave(frames, [*run("compare"), *run("sort", "main")], entries)
    assert mixed.is_exact
    assert words(mixed, frames)[:7] == ["nanosleep", "compare", "??", "qsort", "sort", "main", "??"]


def test_an_entry_without_a_frame_yet_is_left_out() -> None:
    frames = c_frames("??", "PyObject_Call", "??", *MAIN)
    entries = [(0x1010, 0), (0x1240, 1), (0x55550000, 0)]
    mixed = interleave(frames, run("main"), entries)
    assert mixed.is_exact
    assert mixed.homes == {2: 2}


def test_addresses_that_do_not_fit_make_the_order_unknown() -> None:
    frames = c_frames("??", f"solve@{USER}", EVALUATOR, *MAIN)
    runs = [*run("callback"), *run("main")]
    for entries in (
        [(0x1010, 1)],  # one for two runs
        [(0x1010, 1), (0x1110, 1)],  # in a library of the user's
        [(0x1010, 1), (0x1020, 1)],  # both in one C frame
        [(0x0800, 1), (0x1210, 1)],  # inside the innermost frame
        [(0x1010, 1), (0x9000, 1)],  # outside the outermost one: the stack is cut off
        [(0x1210, 1), (0x1010, 1)],  # in another order
    ):
        assert not interleave(frames, runs, entries).is_exact, entries


def test_inlined_evaluators_are_one() -> None:
    inner = CFrame(EVALUATOR, PYTHON, 0x400100, 0x1000)
    frames = [inner, CFrame(EVALUATOR, PYTHON, 0x400100, 0x1000), *c_frames(*MAIN, first=0x1100)]
    mixed = interleave(frames, run("main"))
    assert mixed.is_exact
    assert mixed.homes == {1: 1}


def test_frames_of_an_embedding_program_stay() -> None:
    frames = c_frames(EVALUATOR, "PyRun_SimpleString", f"step@{USER}", f"main@{USER}", "_start")
    mixed = interleave(frames, run("callback"))
    assert shown(mixed, frames)[:3] == ["callback", "step", "main"]


def test_main_of_an_embedding_program_is_no_start_of_the_interpreter() -> None:
    frames = c_frames(EVALUATOR, "PyRun_SimpleString", f"main@{USER}", "_start")
    mixed = interleave(frames, run("callback"))
    assert shown(mixed, frames)[:2] == ["callback", "main"]


def test_glue_is_left_out_and_users_add_to_it() -> None:
    frames = c_frames(
        f"PMPI_Recv@{USER}",
        f"ffi_call_unix64@{USER}",
        f"my_shim@{USER}",
        f"_ctypes_callproc@{USER}",
        EVALUATOR,
        *MAIN,
    )
    mixed = interleave(frames, run("main"))
    assert shown(mixed, frames) == ["PMPI_Recv", "my_shim", "main"]
    assert shown(mixed, frames, "^my_") == ["PMPI_Recv", "main"]


def test_the_wait_of_the_interpreter_is_shown_inside_only() -> None:
    frames = c_frames(f"nanosleep@{LIBC}", "time_sleep", "cfunction_call", EVALUATOR, *MAIN)
    mixed = interleave(frames, run("main"))
    assert shown(mixed, frames) == ["nanosleep", "time_sleep", "main"]


def test_the_place_of_a_fault_in_the_interpreter_is_kept() -> None:
    frames = c_frames("list_dealloc", "PyObject_Free", EVALUATOR, *MAIN)
    mixed = interleave(frames, run("main"))
    assert shown(mixed, frames) == ["main"]
    assert shown(mixed, frames, keeps=True) == ["list_dealloc", "main"]


def test_both_functions_of_a_cython_method_are_one_frame() -> None:
    names = ["__pyx_pf_6mpi4py_3MPI_4Comm_4recv", "__pyx_pw_6mpi4py_3MPI_4Comm_5recv"]
    frames = c_frames(*(f"{each}@{USER}" for each in names), EVALUATOR, *MAIN)
    mixed = interleave(frames, run("main"))
    assert shown(mixed, frames) == [names[0], "main"]
    assert {glue.plain_name(each) for each in names} == {"mpi4py.MPI.Comm.recv"}


def test_files_of_the_interpreter_and_of_packages() -> None:
    for path in (
        "/usr/bin/python3.11",
        "/opt/lib/libpython3.13t.so.1.0",
        "/usr/bin/python3.11-dbg",
    ):
        assert glue.is_interpreter(path), path
    assert glue.is_interpreter("/usr/lib/python3.11/lib-dynload/_socket.cpython-311.so")
    for path in ("/home/me/python", "/opt/bin/python-solver", "/opt/libpythonic.so", ""):
        assert glue.is_interpreter(path) is (path == "/home/me/python"), path
    for path in ("/v/lib/python3.11/site-packages/torch/x.py", "<frozen importlib>"):
        assert is_of_python_library(path), path
    assert not is_of_python_library("/home/me/python3/train.py")


def test_frames_of_import_statements_are_left_out_but_the_innermost() -> None:
    def imports(*names: str) -> list[PythonFrame]:
        files = ("<frozen importlib._bootstrap_external>", "<frozen importlib._bootstrap>")
        return [PythonFrame(each, files[at % 2], 1) for at, each in enumerate(names)]

    machinery = imports("exec_module", "_load_unlocked", "_find_and_load")
    frames = c_frames(EVALUATOR, *MAIN)
    mixed = interleave(
        frames, [PythonFrame("module", "/job/module.py", 1), *machinery, *run("main")]
    )
    assert shown(mixed, frames) == ["module", "main"]
    mixed = interleave(frames, [*machinery, *run("main")])
    assert shown(mixed, frames) == ["exec_module", "main"]
    frames = c_frames(f"read@{LIBC}", EVALUATOR, *MAIN)
    mixed = interleave(frames, [*machinery, *run("main")])
    assert shown(mixed, frames) == ["read", "main"]
