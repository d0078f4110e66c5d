"""What pages show in blocks marked `{.test}` works as it stands there.

Python that begins with `# name.py` is a file; other Python is a program. A comment after `print(…)`
is what it prints, and a block marked `{.output}` what the one before it does. In a shell's block
`openenv-grpc serve TARGET` chooses the server that what follows is run against.
"""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from openenv_grpc.cli.tree import command
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition
from openenv_grpc.engine.registry import register_all
from tests.docs.conftest import Serve, Served
from tests.docs.pages import PAGES, ROOT, Block, blocks

FILE = re.compile(r"# (\w+)\.py\n")
PRINTED = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)

TESTED = [page for page in PAGES if any("test" in block.marks for block in blocks(page))]


@pytest.mark.parametrize("page", TESTED, ids=lambda page: page.name)
def test_what_a_page_shows_works(page: Path, tour: Tour) -> None:
    for block in blocks(page):
        if "test" in block.marks or "output" in block.marks:
            tour.follow(block)


def test_the_readme_and_the_guides_have_snippets_that_are_tested() -> None:
    assert {"README.md", "getting-started.md", "writing-environments.md", "python-client.md"} <= {
        page.name for page in TESTED
    }


@pytest.mark.parametrize("page", ["README.md", "docs/writing-environments.md"])
def test_a_first_environment_serves_many_and_refuses_a_step_before_a_reset(page: str) -> None:
    [sample] = [block for block in blocks(ROOT / page) if block.text.startswith("# guess.py")]
    module: dict[str, Any] = {"__name__": "guess"}
    exec(sample.text, module)
    definition = EnvironmentDefinition(
        factory=module["Guess"],
        action_type=module["GuessAction"],
        observation_type=module["GuessObservation"],
    )

    [registered] = register_all([definition], EngineSettings()).values()

    assert registered.spec.concurrent_sessions
    assert registered.spec.requires_reset


class Tour:
    """A reader who tries what a page shows, block by block."""

    def __init__(self, folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._serve = serve
        self._capsys = capsys
        self._server: Served = serve("echo_env")
        self._shown = ""
        self.files: list[str] = []

    def follow(self, block: Block) -> None:
        where = f"{block.page}:{block.line}"
        if "output" in block.marks:
            assert self._shown.strip() == block.text.strip(), where
            return
        if block.language == "bash":
            self._shown = "".join(self._run(words) for words in commands(block.text))
        elif (named := FILE.match(block.text)) is not None:
            self._save(named[1], block.text)
        else:
            self._execute(self._placed(block.text), where)

    def _placed(self, text: str) -> str:
        """Puts the server's addresses in the place of those that pages show."""
        text = text.replace("127.0.0.1:50051", self._server.grpc)
        return text.replace("127.0.0.1:8000", self._server.http)

    def _save(self, name: str, text: str) -> None:
        (self._folder / f"{name}.py").write_text(text, encoding="utf-8")
        self.files.append(name)
        importlib.invalidate_caches()
        importlib.import_module(name)

    def _execute(self, text: str, where: str) -> None:
        self._capsys.readouterr()
        exec(compile(text, where, "exec"), {"__name__": "__main__"})
        self._shown = self._capsys.readouterr().out
        expected = PRINTED.findall(text)
        if expected:
            assert self._shown.splitlines() == expected, where

    def _run(self, words: list[str]) -> str:
        match [self._placed(word) for word in words]:
            case ["openenv-grpc", "serve", target]:
                self._server = self._serve(target)
                return ""
            case ["openenv-grpc", *arguments]:
                ended = CliRunner().invoke(command, arguments)
                assert ended.exit_code == 0, f"{arguments}: {ended.output} {ended.exception!r}"
                return ended.stdout
            case ["curl", *arguments]:
                called = subprocess.run(
                    ["curl", "--fail", *arguments],
                    capture_output=True,
                    text=True,
                    timeout=20,
                    check=False,
                )
                assert called.returncode == 0, f"{words}: {called.stderr}"
                return called.stdout
            case _:
                pytest.fail(f"no test knows how to run {words}")


def commands(text: str) -> Iterator[list[str]]:
    """Splits a shell's text into commands; quotes and backslashes carry them over lines."""
    waiting = ""
    for line in text.splitlines(keepends=True):
        waiting += line
        if waiting.endswith("\\\n"):
            continue
        try:
            words = shlex.split(waiting, comments=True)
        except ValueError:  # a quotation is open
            continue
        waiting = ""
        if words:
            yield words
    assert not waiting, f"unfinished: {waiting}"


@pytest.fixture
def tour(
    tmp_path: Path,
    serve: Serve,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Tour]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    reader = Tour(tmp_path, serve, capsys)
    yield reader
    for name in reader.files:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("page", "path"),
    [
        ("README.md", "examples/go/unary/main.go"),
        ("docs/getting-started.md", "examples/typescript/source/short.ts"),
    ],
)
def test_pages_show_the_examples_as_they_are(page: str, path: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    shown = dict(re.findall(r"<!-- (examples/\S+) -->\n```\w+\n(.*?)```\n", text, re.DOTALL))

    assert path in shown
    assert shown == {each: (ROOT / each).read_text(encoding="utf-8") for each in shown}


def test_the_readme_has_a_place_for_measurements() -> None:
    assert "<!-- bench:table -->" in (ROOT / "README.md").read_text(encoding="utf-8")
