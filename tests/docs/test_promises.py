"""What a session promises is held by tests that exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "promises.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PROMISES = re.split(r"\n\n(?=\*\*)", PAGE.read_text(encoding="utf-8"))[1:]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda text: text.split("**")[1][:50])
def test_a_promise_names_tests_that_there_are(promise: str) -> None:
    named = TEST.findall(promise)
    assert named
    for path, name in named:
        module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = [
            node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        assert name in {function.name for function in functions}, f"{path}::{name}"
