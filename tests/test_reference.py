"""The pages that are made from code are what the code makes."""

from pathlib import Path

from pgdb.frontend.commands.__main__ import page

ROOT = Path(__file__).parent.parent


def test_command_page_is_what_the_table_says() -> None:
    written = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert written == page(), "run: python -m pgdb.frontend.commands > docs/commands.md"


def test_readme_names_every_exit_status() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for status in range(6):
        assert f"{status} " in readme.partition("Exit status:")[2][:300]
