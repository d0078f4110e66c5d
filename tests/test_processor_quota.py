"""What control groups leave a process of the processors."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from openenv_grpc.processor_quota import processor_quota, quota


def groups(tmp_path: Path, membership: str, **files: str) -> float:
    """Lays out groups, and returns what they allow."""
    for name, content in files.items():
        path = (
            tmp_path
            / "groups"
            / name.replace("__", "/").replace("_max", ".max").replace("cpu_cfs", "cpu.cfs")
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "cgroup").write_text(membership)
    return quota(tmp_path / "groups", tmp_path / "cgroup")


@pytest.mark.parametrize(
    ("limit", "processors"),
    [("50000 100000", 0.5), ("400000 100000\n", 4), ("max 100000", math.inf)],
)
def test_a_container_has_what_its_group_has(tmp_path: Path, limit: str, processors: float) -> None:
    assert groups(tmp_path, "0::/", cpu_max=limit) == processors


def test_the_least_counts_of_a_group_and_those_above_it(tmp_path: Path) -> None:
    assert (
        groups(
            tmp_path,
            "0::/pods/one/main",
            pods__cpu_max="800000 100000",
            pods__one__cpu_max="150000 100000",
            pods__one__main__cpu_max="max 100000",
        )
        == 1.5
    )


def test_groups_of_the_first_version_count(tmp_path: Path) -> None:
    assert (
        groups(
            tmp_path,
            "4:cpu,cpuacct:/pod\n3:memory:/pod",
            cpu__pod__cpu_cfs_quota_us="30000",
            cpu__pod__cpu_cfs_period_us="100000",
        )
        == 0.3
    )


def test_a_quota_below_0_is_none(tmp_path: Path) -> None:
    assert (
        groups(tmp_path, "4:cpu:/", cpu__cpu_cfs_quota_us="-1", cpu__cpu_cfs_period_us="100000")
        == math.inf
    )


def test_without_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert quota(tmp_path / "none", tmp_path / "neither") == math.inf


def test_this_process_may_use_something() -> None:
    assert processor_quota() > 0


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("garbage", {}),
        ("0::/", {"cpu_max": "much"}),
        ("0::/", {"cpu_max": "100000 0"}),
        ("4:cpu:/", {"cpu__cpu_cfs_quota_us": "30000"}),
    ],
)
def test_what_cannot_be_understood_bounds_nothing(
    tmp_path: Path, membership: str, files: dict[str, str]
) -> None:
    assert groups(tmp_path, membership, **files) == math.inf


def test_a_group_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000")
    membership = tmp_path / "cgroup"
    membership.write_bytes(b"0::/caf\xe9\n")
    assert quota(tmp_path, membership) == 1.5
