"""The one thing that setup.cfg cannot say: the README without links into the checkout.

On a package index a relative link leads nowhere. So the description names the page in place of the
link, and leaves pictures out.
"""

import re
from pathlib import Path

from setuptools import setup

README = Path(__file__).parent / "README.md"


def description() -> str:
    """Return the README, each relative link as its text and its path."""
    text = README.read_text(encoding="utf-8")
    text = re.sub(r"^!\[[^\]\n]*\]\((?!https?:)[^)\n]*\)\n\n?", "", text, flags=re.M)

    def named(link: re.Match[str]) -> str:
        path = link[2].partition("#")[0]
        return link[1] if link[1].strip("`") == path else f"{link[1]} (`{path}`)"

    return re.sub(r"\[([^\]\n]+)\]\((?!https?:|#)([^)\s]+)\)", named, text)


setup(long_description=description(), long_description_content_type="text/markdown")
