"""PGDB's own variables and functions in GDB, which GDB lists among its own and the user's."""

from __future__ import annotations

import re

_OWN = re.compile(
    r"(?m)"
    # A variable or function in "show convenience", with further lines of its value;
    r"^\$_pgdb_\w+ = .*(?:\n(?!\$\w+ = ).*)*(?:\n|\Z)"
    # a function in "help function" and "apropos";
    r"|^function _pgdb_\w+ -- .*(?:\n|\Z)"
    # a candidate of "complete";
    r"|^.*(?:\$|\bfunction )_pgdb_\w+(?:\n|\Z)"
    # a command in "complete", "help" and "apropos";
    r"|^_pgdb_\w+(?: -- .*)?(?:\n|\Z)"
    # a hook of the guard in "help user-defined" and "apropos",
    r"|^.*\bhook-\S+ -- _pgdb_guard(?:\n|\Z)"
    # in "show user",
    r"|^User command \"[^\"\n]*hook-[^\"\n]*\":\n  "
    r"(?:if \$_pgdb_refuse\(.*\)\n  end|_pgdb_stay .*)(?:\n+|\Z)"
    # and in "complete".
    r"|^(?:(?:detach|kill) hook-inferiors|target hook-(?:core|exec|extended-remote|native|remote)"
    r"|hook-(?:attach|core-file|detach|disconnect|kill|quit|run|start|starti))(?:\n|\Z)"
)


def without_own_names(text: str) -> str:
    r"""Return what GDB has printed without the entries of PGDB's own names.

    ``$_element``, ``$_rank``, ``$_size``, ``$_host`` and ``$_world`` are for users and stay.

    >>> without_own_names("$_rank = 0\n$_pgdb_typed = {\n  x = 1\n}\n$_element = 1\n")
    '$_rank = 0\n$_element = 1\n'
    """
    return _OWN.sub("", text) if "_pgdb_" in text or "hook-" in text else text
