"""`docs/languages.md` shows the examples as they are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/languages.md"


def test_the_page_shows_the_examples_as_they_are():
    shown = dict(
        re.findall(
            r"<!-- (examples/\S+) -->\n```\w+\n(.*?)```\n",
            PAGE.read_text(encoding="utf-8"),
            re.DOTALL,
        )
    )
    assert {
        "examples/go/buf.gen.yaml",
        "examples/go/unary/main.go",
        "examples/go/stream/main.go",
        "examples/typescript/buf.gen.yaml",
        "examples/typescript/source/short.ts",
    } <= set(shown)
    assert shown == {path: (ROOT / path).read_text(encoding="utf-8") for path in shown}
