"""Secrets stay out of reports."""

from __future__ import annotations

import pytest

from pgdb.frontend.report.environment import cleaned, environment_of, public_line, secrets_of
from pgdb.frontend.report.model import Cause, OutputTail, Report


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "abc"),
        ("GITHUB_TOKEN", "x"),
        ("MYSQL_PWD", "x"),
        ("DB_PASSWORD", "p"),
        ("SSH_AUTH_SOCK", "/tmp/s"),
        ("SENTRY_DSN", "https://x"),
        ("X", "-----BEGIN RSA PRIVATE KEY-----\nabc"),
        ("BLOB", "A1b2" * 16),
        ("OMPI_MCA_orte_precondition_transports", "cdc575059ac611b5-aee9eea4a4f2d42f"),
    ],
)
def test_values_of_secret_variables_are_left_out(name: str, value: str) -> None:
    (found,) = environment_of({name: value}, "rank 0").variables
    assert (found.name, found.value, found.is_secret) == (name, "", True)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin"),
        ("http://user:pass@proxy:3128", "http://user:…@proxy:3128"),
        ("0123456789abcdef0123", "…"),
        ("run-0123456789abcdef0123 on 3", "run-… on 3"),
        ("z" * 47, "z" * 47),
        ("", ""),
    ],
)
def test_other_values_are_shown_without_secret_parts(value: str, shown: str) -> None:
    (found,) = environment_of({"NAME": value}, "rank 0").variables
    assert (found.value, found.is_secret) == (shown, False)


def test_the_directory_is_no_secret() -> None:
    found = environment_of({"PWD": "/home/a", "OLDPWD": "/home/b"}, "rank 0")
    assert [each.value for each in found.variables] == ["/home/b", "/home/a"]


def test_arguments_in_a_variable_of_the_launcher() -> None:
    (found,) = environment_of({"OMPI_ARGV": "--token abc -n 3"}, "rank 0").variables
    assert found.value == "--token … -n 3"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("mpirun -x TOKEN=abc ./a", "mpirun -x TOKEN=… ./a"),
        ("./a --password p --auth=q r", "./a --password … --auth=… r"),
        ("./a ftp://u:secret@host/x", "./a ftp://u:…@host/x"),
        ("./a --keys --n 3", "./a --keys --n 3"),
    ],
)
def test_a_line_without_secrets(line: str, shown: str) -> None:
    assert " ".join(public_line(line.split())) == shown


def test_secrets_are_left_out_of_every_text_but_not_of_pgdbs_words() -> None:
    secrets = secrets_of({"A_TOKEN": "sesame", "B_KEY": "sesame-open", "C_KEY": "stdout", "D": "x"})
    report = Report(
        time=0,
        title="run sesame",
        cause=Cause(kind="none", what="said sesame-open and \udc80"),
        ranks="0",
        output=(OutputTail(stream="stdout", text="it is sesame\n"),),
    )
    found = cleaned(report, secrets)
    assert found.title == "run …"
    assert found.cause.what == "said … and \ufffd"
    assert found.output == (OutputTail(stream="stdout", text="it is …\n"),)
