"""What Linux tells of processes: the time that they used, and their memory."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def _stat(pid: int | str) -> list[str]:
    """Returns what follows a process's name in its `stat`: the state, the parent, and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def processor_s(pid: int) -> float:
    """Returns the user and system time of a process and of all that descend from it, in seconds.

    Descendants that ended count once somebody has waited for them.
    """
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            fields = _stat(entry)
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(fields[1]), []).append(int(entry))
        ticks[int(entry)] = sum(int(field) for field in fields[11:15])
    family, total = [pid], 0
    while family:
        member = family.pop()
        total += ticks.get(member, 0)
        family += children.get(member, [])
    return total / TICKS_PER_S


def resident_kib(pid: int) -> int:
    """Returns a process's resident memory in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise LookupError(f"process {pid} has no VmRSS: it has ended")
