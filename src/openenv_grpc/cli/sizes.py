"""Sizes as people write them on a command line."""

from __future__ import annotations

import re

import typer

_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_EXPONENTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def parse_size(text: str) -> int:
    """Reads a number of bytes, or of KiB, MiB, GiB or TiB by their first letter."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or not (size := int(found[1]) << _EXPONENTS[found[2].upper()]):
        raise typer.BadParameter(f"{text!r} is no size; write it as 512M or 2G")
    return size
