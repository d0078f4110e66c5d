"""`scripts/languages/stubs.py` and `buf.gen.yaml`: stubs for every language that is promised."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.languages, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/languages/stubs.py"


@pytest.mark.parametrize(
    ("language", "plugin", "expected"),
    [
        ("go", "go", "openenv_grpc/v1/session_grpc.pb.go"),
        (
            "typescript",
            str(ROOT / "examples/typescript/node_modules/.bin/protoc-gen-es"),
            "openenv_grpc/v1/session_pb.ts",
        ),
        (
            "java",
            str(ROOT / ".tools/java/protoc-gen-grpc-java"),
            "openenv_grpc/v1/SessionServiceGrpc.java",
        ),
        ("cpp", "grpc_cpp_plugin", "openenv_grpc/v1/session.grpc.pb.h"),
        (
            "rust",
            str(ROOT / ".tools/bin/protoc-gen-tonic"),
            "openenv_grpc/v1/openenv_grpc.v1.tonic.rs",
        ),
        (
            "python_betterproto2",
            "protoc-gen-python_betterproto2",
            "openenv_grpc/v1/__init__.py",
        ),
    ],
    ids=["go", "typescript", "java", "cpp", "rust", "python_betterproto2"],
)
def test_stubs_are_generated(require, run, tmp_path, language, plugin, expected):
    require(plugin, f"run `make .stamps/language-{language}`")
    printed = run(sys.executable, SCRIPT, "--output", tmp_path, language)
    assert printed == f"generated {tmp_path / 'gen' / language}\n"
    generated = tmp_path / "gen" / language / expected
    assert "SessionService" in generated.read_text(encoding="utf-8")


def test_a_language_that_was_asked_for_and_is_not_set_up_fails(tmp_path):
    ended = _stubs("--output", str(tmp_path), "go", path=tmp_path)
    assert ended.returncode == 1
    assert "skipped go: no go; run `make .stamps/language-go`" in ended.stderr


def test_a_language_that_there_is_not_is_refused():
    ended = _stubs("cobol")
    assert ended.returncode == 2
    assert "no stubs for cobol" in ended.stderr


def _stubs(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
