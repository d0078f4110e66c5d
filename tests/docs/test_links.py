"""Links between pages lead somewhere, and every page can be found."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.docs.pages import PAGES, ROOT, anchors, blocks, links


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_of_a_page_resolve(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_navigation_has_every_page() -> None:
    configured = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = {
        page
        for entry in configured["nav"]
        for (value,) in [entry.values()]
        for part in (value if isinstance(value, list) else [{"": value}])
        for page in part.values()
    }

    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")}


def test_the_readme_links_to_every_page() -> None:
    linked = {link.partition("#")[0] for link in links(ROOT / "README.md")}
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}

    assert pages - {"docs/index.md"} <= linked
    assert {"SECURITY.md", "CHANGELOG.md"} <= linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_marks_of_blocks_are_known_ones(page: Path) -> None:
    for block in blocks(page):
        assert block.marks <= {"test", "output"}, f"{block.page}:{block.line}"
