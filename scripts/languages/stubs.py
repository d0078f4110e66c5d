"""Generates stubs from the protos, by those plugins of `buf.gen.yaml` that are installed.

`stubs.py` writes all that it can into `gen/`; `stubs.py go rust` writes those two or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
# Where `make` installs plugins: those in Python beside this interpreter, others in a folder.
SEARCH_PATH = os.pathsep.join(
    [str(ROOT / ".tools/bin"), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
)


def main() -> int:
    """Generates what the command line asks for and says what was left out."""
    template = yaml.safe_load((ROOT / "buf.gen.yaml").read_text(encoding="utf-8"))
    plugins: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for plugin in template["plugins"]:
        plugins[Path(plugin["out"]).name].append(plugin)

    parser = argparse.ArgumentParser(description="Generates stubs from the protos.")
    parser.add_argument("languages", nargs="*", help=f"some of: {' '.join(plugins)}")
    parser.add_argument("--output", type=Path, default=ROOT, help="folder that `gen` is made in")
    arguments = parser.parse_args()
    if unknown := set(arguments.languages) - set(plugins):
        parser.error(f"no stubs for {' '.join(sorted(unknown))}; there are {' '.join(plugins)}")

    chosen = {language: plugins[language] for language in arguments.languages or plugins}
    absent = {language: _missing(chosen[language]) for language in chosen}
    ready = [language for language in chosen if not absent[language]]
    if ready:
        _generate(template, [plugin for each in ready for plugin in chosen[each]], arguments.output)
    for language in chosen:
        if absent[language]:
            programs = ", ".join(absent[language])
            hint = f"run `make .stamps/language-{language}`"
            print(f"skipped {language}: no {programs}; {hint}", file=sys.stderr)
        else:
            print(f"generated {arguments.output / 'gen' / language}")
    return 1 if not ready or (arguments.languages and len(ready) < len(chosen)) else 0


def _missing(plugins: list[Mapping[str, Any]]) -> list[str]:
    """Returns the programs that these plugins need and that are not there."""
    return [
        program
        for program in dict.fromkeys(map(_program, plugins))
        if shutil.which(ROOT / program if "/" in program else program, path=SEARCH_PATH) is None
    ]


def _program(plugin: Mapping[str, Any]) -> str:
    command = plugin.get("local") or plugin.get("protoc_path", "protoc")
    return str(command if isinstance(command, str) else command[0])


def _generate(template: Mapping[str, Any], plugins: list[Mapping[str, Any]], output: Path) -> None:
    selection = json.dumps({**template, "plugins": plugins})
    command = ["buf", "generate", "--template", selection, "--output", str(output)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": SEARCH_PATH}, check=True)


if __name__ == "__main__":
    sys.exit(main())
