"""How much of the processors this process may use, where its container bounds that."""

from __future__ import annotations

import functools
import math
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


@functools.cache
def processor_quota() -> float:
    """Returns how many it may use all of, less than 1 for a part of one; infinity for any."""
    return quota(_GROUPS, _MEMBERSHIP)


def quota(groups: Path, membership: Path) -> float:
    """Returns what control groups allow a process that is a member of some.

    What cannot be understood bounds nothing: nobody is to fail to start for it.
    """
    try:
        return _quota(groups, membership)
    except (ValueError, ZeroDivisionError):
        return math.inf


def _quota(groups: Path, membership: Path) -> float:
    least = math.inf
    for group in _own_groups(groups, membership):
        for path in (group, *group.parents):
            if path.is_relative_to(groups):
                least = min(least, _unified(path / "cpu.max"), _split(path))
    return least


def _own_groups(groups: Path, membership: Path) -> list[Path]:
    """Lists the groups that the process is in, and what a container takes for the whole."""
    found = [groups, groups / "cpu"]
    for line in _read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found.append(groups / path.lstrip("/"))
        elif "cpu" in controllers.split(","):
            found.append(groups / "cpu" / path.lstrip("/"))
    return found


def _unified(limit: Path) -> float:
    quota_us, _, period_us = _read(limit).partition(" ")
    return math.inf if quota_us in ("", "max") else int(quota_us) / int(period_us)


def _split(group: Path) -> float:
    quota_us, period_us = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
    return int(quota_us) / int(period_us) if quota_us and int(quota_us) > 0 else math.inf


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="surrogateescape").strip()
    except OSError:  # there is no such group here
        return ""
