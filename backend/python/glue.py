"""Rules for C frames between Python frames: frames to leave out, and plainer names.

The code that leads from Python into a C library, and back, is the same for each call: ctypes and
libffi, cffi, pybind11, nanobind, Boost.Python, SIP, SWIG, Cython, f2py, the ufuncs of NumPy and the
dispatcher of PyTorch. It is left out. A generated wrapper gets the name of its function.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache

from pgdb.patterns import pattern

_INTERPRETER = pattern(r"(?:libpython[\d.]+[a-z]*\.so[\d.]*|(?:lib)?python[\d.]*[a-z]*(?:-dbg)?)\Z")
_OWN_MODULES = "/lib-dynload/"
_GLUE_LIBRARY = pattern(
    r"(?:libffi(?:-\w+)?\.so[\d.]*|_ctypes\..*|_cffi_backend\..*|_ctypes\.so)\Z"
)
_EVALUATES = pattern(r"(?:_PyEval_EvalFrameDefault|PyEval_EvalFrameEx|_TAIL_CALL_\w+|_PyJIT\w*)\b")
_GLUE = pattern(
    r"""
      ffi_call\w*|ffi_closure\w*|closure_fcn|_ctypes_callproc|_call_function_pointer
    | _CallPythonObject|PyCFuncPtr_call                                         # ctypes
    | _cffi_f_\w+|cffi_call_python|_cffi_call_python\w*|general_invoke_callback
    | (?:\w[\w ]*\*? )?pybind11::(?:cpp_function|detail|gil_scoped\w*|object|handle)\b.*
    | nanobind::.*|nb_func_\w+|nb_bound_method_\w+
    | boost::python::.*
    | SWIG_\w+
    | sip_api_\w+
    | __Pyx_\w+
    | fortran_call
    | PyUFunc_\w+|ufunc_generic_\w+|execute_ufunc_loop|try_trivial_single_output_loop
    | generic_wrapped_\w+|dispatcher_vectorcall|array_implement_\w+
    | c10::(?:Dispatcher|OperatorHandle|KernelFunction|TypedOperatorHandle)\b.*
    | c10::impl::(?:wrap_kernel_functor\w*|make_boxed_\w+|BoxedKernelWrapper|call_functor\w*).*
    | at::_ops::\w+::(?:re)?dispatch.*
    """,
    re.X,
)
# Without main: that of a program that embeds an interpreter is the user's.
_START = pattern(
    r"_start|__libc_start_\w+|Py_(?:Bytes)?Main|start_thread|__?clone3?|clone3?|thread_start"
    r"|execute_native_thread_routine"
)
_C_LIBRARY = pattern(r"(?:lib(?:c|pthread)|ld)[-.]")
_WAITS = pattern(
    r"time_\w+|pysleep|lock_\w+|PyThread_acquire\w*|select_\w+|sock_\w+|os_\w+|take_gil|gc_collect\w*"
    r"|_queue_\w+|_io_\w+|thread_PyThread_\w+"
)
_WRAPPED = (
    (pattern(r"_wrap_(\w+)\Z"), r"\1"),
    (pattern(r"f2py_rout_(\w+?)_(\w+)\Z"), r"\1.\2"),
)
_CYTHON = pattern(r"__pyx_(?:pw|pf|f|fuse_\w+?)_(?=\d)")
_PART = pattern(r"_?(\d+)")
_SUFFIX = pattern(r"\.(?:cold|isra|part|constprop|llvm)[.\d]*\Z")


@lru_cache(maxsize=1024)
def is_interpreter(path: str) -> bool:
    """Return whether an object file is the interpreter, or a module of its own."""
    return _INTERPRETER.match(os.path.basename(path)) is not None or _OWN_MODULES in path


@lru_cache(maxsize=4096)
def evaluates(function: str) -> bool:
    """Return whether a function of the interpreter executes Python frames."""
    return _EVALUATES.match(function) is not None


@lru_cache(maxsize=4096)
def says_where_it_waits(function: str) -> bool:
    """Return whether a function of the interpreter says for what the thread waits."""
    return _WAITS.match(function) is not None


@lru_cache(maxsize=4096)
def is_start(function: str, path: str) -> bool:
    """Return whether a frame belongs to the start of the interpreter, or of a thread."""
    known = _C_LIBRARY.match(os.path.basename(path)) is not None or is_interpreter(path)
    return known or _START.fullmatch(function) is not None


@lru_cache(maxsize=4096)
def starts_all(function: str, path: str) -> bool:
    """Return whether nothing has called a frame but the start of the program or of the thread."""
    is_of_c = _C_LIBRARY.match(os.path.basename(path)) is not None
    return is_of_c or function == "main" or _START.fullmatch(function) is not None


class Rules:
    """The rules for glue, with those of the user."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self._own = tuple(re.compile(each) for each in patterns)

    def is_glue(self, function: str, path: str) -> bool:
        """Return whether a frame is left out."""
        if _is_glue(function, path):
            return True
        return any(each.search(function) for each in self._own)


@lru_cache(maxsize=4096)
def _is_glue(function: str, path: str) -> bool:
    name = _SUFFIX.sub("", function)
    library = os.path.basename(path)
    return _GLUE.fullmatch(name) is not None or _GLUE_LIBRARY.match(library) is not None


@lru_cache(maxsize=4096)
def plain_name(function: str) -> str:
    """Return the name of the function for which a wrapper was generated.

    >>> plain_name("__pyx_pw_6mpi4py_3MPI_4Comm_143Allreduce")
    'mpi4py.MPI.Comm.Allreduce'
    >>> plain_name("__pyx_pw_6module_12_private"), plain_name("_wrap_solve")
    ('module._private', 'solve')
    >>> plain_name("__pyx_f_6mpi4py_3MPI_PyMPI_recv"), plain_name("dgemm_")
    ('mpi4py.MPI.PyMPI_recv', 'dgemm_')
    """
    if (match := _CYTHON.match(function)) is not None:
        return _of_cython(_SUFFIX.sub("", function[match.end() :]))
    for wrapper, name in _WRAPPED:
        if wrapper.match(function):
            return wrapper.sub(name, function)
    return function


def _of_cython(mangled: str) -> str:
    """Return the dotted name: Cython writes each part behind its length, and a method behind its
    number."""
    parts = []
    rest = mangled
    while (match := _PART.match(rest)) is not None:
        length, after = int(match[1]), rest[match.end() :]
        name = after[:length]
        # A part ends at an underscore or at the end; the number of a method is no length.
        follows = after[length : length + 1]
        if len(name) < length or not name.isidentifier() or follows not in ("", "_"):
            break
        parts.append(name)
        rest = after[length:]
    last = rest.lstrip("_") if parts else rest
    if parts and (match := _PART.match(rest)) is not None:
        last = rest[match.end() :]
    return ".".join(filter(None, (*parts, last))) or mangled


def is_import(path: str) -> bool:
    """Return whether a Python file is the code that carries out import statements.

    CPython leaves its frames out of tracebacks. Each module that imports the next one has five.
    """
    return path in ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
