from __future__ import annotations

import pytest

from openenv_grpc import rates
from openenv_grpc.rates import PeerRates, remote_address


class Clock:
    now = 100.0

    def time(self) -> float:
        return self.now


def test_a_peer_may_do_a_minutes_worth_at_once_and_then_as_time_passes() -> None:
    clock = Clock()
    allowed = PeerRates(30, clock=clock.time)

    assert [allowed.take("10.0.0.1") for _ in range(30)] == [0] * 30
    assert allowed.take("10.0.0.1") == 2  # seconds
    clock.now += 1
    assert allowed.take("10.0.0.1") == 1
    clock.now += 1
    assert allowed.take("10.0.0.1") == 0
    clock.now += 3600
    assert [allowed.take("10.0.0.1") > 0 for _ in range(31)] == [False] * 30 + [True]


def test_peers_are_told_apart_by_address_whatever_their_port() -> None:
    allowed = PeerRates(1, clock=Clock().time)

    assert allowed.take("ipv4:10.0.0.1:4000") == 0
    assert allowed.take("10.0.0.1") > 0
    assert allowed.take("ipv4:10.0.0.2:4000") == 0


def test_who_is_on_this_machine_may_do_any_number() -> None:
    allowed = PeerRates(1, clock=Clock().time)

    for peer in ("127.0.0.1", "ipv6:%5B::1%5D:4000", "unix:", "bridge", ""):
        assert [allowed.take(peer) for _ in range(3)] == [0, 0, 0]


def test_no_more_addresses_are_remembered_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_PEERS", 2)
    allowed = PeerRates(1, clock=Clock().time)
    for last in range(3):
        allowed.take(f"10.0.0.{last}")

    assert allowed.take("10.0.0.2") > 0
    assert allowed.take("10.0.0.0") == 0


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:4000", "10.0.0.1"),
        ("ipv6:%5B2001:db8::1%5D:4000", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("10.0.0.1", "10.0.0.1"),
        ("ipv4:127.0.0.1:4000", ""),
        ("unix", ""),
        ("unix:/run/openenv.sock", ""),
    ],
)
def test_an_address_is_read_from_what_transports_call_a_peer(peer: str, address: str) -> None:
    assert remote_address(peer) == address
