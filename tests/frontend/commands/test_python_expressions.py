"""The expressions that ``py-print`` takes, and the errors about others."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.commands.python import check_expression


@pytest.mark.parametrize(
    "text", ["loss", "self.size", "OPTIONS['name']", "history[0, -1]", "step * 2", "é.value", "f"]
)
def test_an_expression_that_begins_with_a_variable_is_taken(text: str) -> None:
    check_expression(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1 +", "is no expression of Python"),
        ("step; 1", "is no expression of Python"),
        ("a\x01b", "is no expression of Python"),
        ("f'{step:'", "is no expression of Python"),
        ("(" * 5000, "is no expression of Python"),
        ("step, loss", "takes one expression"),
        ("'a' * 100000", "begins with no variable"),
        ("f'{step}'", "begins with no variable"),
        ("b'text'", "begins with no variable"),
        ("[x for x in range(3)]", "begins with no variable"),
        ("lambda: 1", "begins with no variable"),
        ("not done", "begins with no variable"),
        ("1/0", "begins with no variable"),
    ],
)
def test_another_text_is_an_error_that_names_the_way_out(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error) as raised:
        check_expression(text)
    assert len(str(raised.value)) < 300
