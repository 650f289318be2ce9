"""Errors of commands of breakpoints, hooks and Python handlers, by the log of GDB 13.1."""

from __future__ import annotations

from pgdb.backend.gdb.user_errors import UserErrors

NO_SYMBOL = 'No symbol "tot" in current context.\n'
OF_PYTHON = "Python Exception <class 'RuntimeError'>: mine\n"
OF_HOOK = "Error while running hook_stop:\n"


def test_errors_between_a_stop_and_the_prompt_belong_to_the_stop() -> None:
    errors = UserErrors()
    assert not errors.text(NO_SYMBOL, is_running=True), "it is a reason of GDB's, such as a dprintf"
    errors.on_stopped()
    assert errors.text(NO_SYMBOL, is_running=False) == f"error: {NO_SYMBOL}"
    assert errors.text(OF_PYTHON, is_running=False) == OF_PYTHON
    assert not errors.text("warning: other\n", is_running=False)
    errors.on_prompt()
    assert not errors.text(NO_SYMBOL, is_running=False), "it is the error of a later command"
    assert not errors.text(OF_PYTHON, is_running=False)


def test_errors_of_hooks_and_python_come_before_the_stop() -> None:
    errors = UserErrors()
    assert errors.text(OF_HOOK, is_running=True) == OF_HOOK
    assert errors.text(NO_SYMBOL, is_running=True) == NO_SYMBOL
    assert not errors.text(NO_SYMBOL, is_running=True), "one line has the message"
    assert errors.text(OF_PYTHON, is_running=True) == OF_PYTHON


def test_the_lines_of_a_traceback_are_not_errors_of_their_own() -> None:
    errors = UserErrors()
    errors.on_stopped()
    lines = ("Traceback (most recent call last):\n", '  File "<string>"\n', "ValueError: odd\n")
    assert [errors.text(each, is_running=False) for each in lines] == [*lines]
    end = "Error while executing Python code.\n"
    assert errors.text(end, is_running=False) == f"error: {end}"
    assert errors.text(NO_SYMBOL, is_running=False) == f"error: {NO_SYMBOL}"
