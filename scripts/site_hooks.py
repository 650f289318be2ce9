"""Hooks of mkdocs.yml that add the pages outside docs/ to the site.

Their links lead from the checkout's root into docs/; on the site docs/ is the root.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = ("examples/README.md", "fuzz/README.md", "tests/README.md", "CHANGELOG.md")
PAGES += ("CONTRIBUTING.md",)
# Files that pages link to, shown by the browser as they are.
SOURCES = ("examples/**/*.c", "examples/**/*.cpp", "examples/**/*.f90", "examples/**/*.py")
SOURCES += ("examples/**/*.pgdb",)
README = "README.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and the sources; the README is the first page."""
    names = list(PAGES)
    for pattern in SOURCES:
        found = (path.relative_to(ROOT) for path in sorted(ROOT.glob(pattern)))
        names += [str(path) for path in found if not path.parts[1].startswith("build")]
    for name in names:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, "index.md", abs_src_path=str(ROOT / README)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links into the checkout by links into the site."""
    name = page.file.src_uri
    if name == "index.md":
        return _without_docs(markdown, "")
    if name in PAGES:
        return _without_docs(markdown, "../" * name.count("/")).replace("](README.md", "](index.md")
    # A page in docs/reference/ calls the checkout's root ../../, and that of the site ../.
    markdown = re.sub(r"\]\((\.\./)+README\.md", "](../index.md", markdown)
    names = "examples/|fuzz/|tests/|CHANGELOG|CONTRIBUTING"
    return re.sub(rf"\]\(\.\./\.\./({names})", r"](../\1", markdown)


def _without_docs(markdown: str, up: str) -> str:
    return re.sub(rf"(\]\(){re.escape(up)}docs/", rf"\g<1>{up}", markdown)
