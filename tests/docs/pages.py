"""Pages of the documentation: their fenced blocks, headings and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    language: str
    marks: frozenset[str]
    """What stands behind the language as `{.test}` or `{.output}`."""
    text: str


def blocks(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language, *marks = match["info"].split() or [""]
        line = text.count("\n", 0, match.start()) + 1
        found.append(
            Block(
                page=page.name,
                line=line,
                language=language,
                marks=frozenset(mark.strip("{.}") for mark in marks),
                text=match["text"],
            )
        )
    return found


def links(page: Path) -> list[str]:
    """Returns where a page's links lead, those to the outside left out."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
    return [target for target in _LINK.findall(prose) if "://" not in target]


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub and mkdocs make them."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {_slug(heading) for heading in _HEADING.findall(prose)}


def rows(page: Path, first: str) -> list[list[str]]:
    """Returns the rows of the table whose first column is headed so, without its head."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def _slug(heading: str) -> str:
    text = re.sub(r"[^\w\- ]", "", heading.lower())
    return text.strip().replace(" ", "-")
