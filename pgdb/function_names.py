"""Names of functions as GDB writes them, with or without parameters."""

from __future__ import annotations


def bare_name(function: str) -> str:
    """Return the name of a function without its parameters.

    >>> bare_name("(anonymous namespace)::sum(int) const"), bare_name("std::terminate()")
    ('(anonymous namespace)::sum', 'std::terminate')
    >>> bare_name("Job::operator()(int (*)(int))"), bare_name("Job::operator()"), bare_name("main")
    ('Job::operator()', 'Job::operator()', 'main')
    """
    signature = function.strip().removesuffix(" const")
    if not signature.endswith(")"):
        return function.strip()
    depth = 0
    for at in range(len(signature) - 1, -1, -1):
        depth += (signature[at] == ")") - (signature[at] == "(")
        if not depth:
            name = signature[:at]
            is_name = name and not name.endswith("operator")
            return name.rstrip() if is_name else function.strip()
    return function.strip()
