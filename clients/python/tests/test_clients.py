"""The clients against a real server: concurrency, reservations, shared use, TLS addresses and mistakes in addresses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from waterclock import AsyncWaterclock, Charge, Invalid, Refused, Unauthorized, Unavailable, Waterclock, calls

from .clients import TIMEOUT
from .server import ADMIN_TOKEN, CHECK_TOKEN, Server

Connect = Callable[..., Any]


def test_threads_admit_exactly_the_capacity(server: Server, transport: str) -> None:
    key = f"threads-{transport}"
    with Waterclock(server.url(transport), token=CHECK_TOKEN, timeout=TIMEOUT) as client:
        with ThreadPoolExecutor(32) as threads:
            decisions = list(threads.map(lambda _: client.check("burst", key), range(1000)))
    assert sum(decision.allowed for decision in decisions) == 5


def test_tasks_admit_exactly_the_capacity(server: Server, transport: str) -> None:
    async def main() -> int:
        async with AsyncWaterclock(server.url(transport), token=CHECK_TOKEN, timeout=TIMEOUT) as client:
            calls = (client.check("burst", f"tasks-{transport}") for _ in range(1000))
            return sum(decision.allowed for decision in await asyncio.gather(*calls))

    assert asyncio.run(main()) == 5


def test_more_threads_than_connections(server: Server, transport: str) -> None:
    with Waterclock(server.url(transport), token=CHECK_TOKEN, timeout=TIMEOUT, connections=1) as client:
        with ThreadPoolExecutor(8) as threads:
            decisions = threads.map(lambda _: client.check("burst", f"narrow-{transport}"), range(50))
            assert sum(decision.allowed for decision in decisions) == 5


def test_a_cost_that_is_not_named(connect: Connect, fresh_server: Server, transport: str) -> None:
    client = connect(fresh_server.url(transport), token=CHECK_TOKEN)
    one = {"requests": 1, "tokens": 0}
    assert client.call("peek", "model", "alice").cost == one
    assert client.call("check", "model", "alice").cost == one
    others = [
        ("wait", ("model", "alice"), {"within": 1}),
        ("reserve", ("model", "alice"), {}),
        ("check_all", ([Charge("model", "alice")],), {}),
    ]
    for verb, arguments, options in others:
        if transport == "http":
            client.call(verb, *arguments, **options)
        else:  # these commands need a cost, and 1 names no unit
            with pytest.raises(Invalid, match="name them in the cost"):
                client.call(verb, *arguments, **options)
    left = client.call("peek", "model", "alice").limits
    assert [limit.remaining for limit in left] == [6 if transport == "http" else 9, 1000]
    for verb, arguments, options in (("wait", ("burst", "alice"), {"within": 1}), ("reserve", ("burst", "alice"), {})):
        client.call(verb, *arguments, **options)
    assert client.call("peek", "burst", "alice").remaining == 3


def test_a_reservation_that_can_never_pass(connect: Connect, server: Server, transport: str) -> None:
    client = connect(server.url(transport), token=CHECK_TOKEN)
    with pytest.raises(Refused, match="^policy 'burst' refused the reservation; it can never pass$"):
        client.call("reserve", "burst", f"never-{transport}", cost=6)


def test_waiting_calls_hold_up_no_others(server: Server, transport: str) -> None:
    async def main() -> None:
        async with AsyncWaterclock(server.url(transport), token=CHECK_TOKEN, timeout=TIMEOUT) as client:
            key = f"wait-{transport}"
            reservations = [await client.reserve("seats", key) for _ in range(2)]
            with pytest.raises(Refused):
                await client.reserve("seats", key)
            assert await client.check("quick", key)
            waiting = asyncio.create_task(client.wait("quick", key, within=30))
            assert await client.check("burst", key)
            assert await waiting
            for reservation in reservations:
                await reservation.cancel()

    asyncio.run(main())


def test_time_in_the_clients_queue_counts_as_waited(server: Server, transport: str, connect: Connect) -> None:
    """Otherwise the client would give up while the server lets the call wait, and fail open."""
    key = f"queue-{transport}"
    client = connect(server.url(transport), token=CHECK_TOKEN)
    shortened = calls.wait(Charge("burst", key), within=30).shortened
    assert shortened is not None
    assert shortened(10).body == {"policy": "burst", "key": key, "within": "20000000us"}
    assert shortened(31).command == ("RL.WAIT", "burst", key, "1", "0", "JSON")
    assert client.call("wait", "burst", key, within=30)


def test_a_reservation_settles_itself(server: Server, transport: str) -> None:
    with Waterclock(server.url(transport), token=CHECK_TOKEN, timeout=TIMEOUT) as client:

        def remaining(key: str) -> int | None:
            return client.peek("burst", f"{key}-{transport}").remaining

        with client.reserve("burst", f"used-{transport}", cost=4) as reservation:
            reservation.commit(1)
        assert remaining("used") == 4

        with client.reserve("burst", f"kept-{transport}", cost=4, on_expiry="release"):
            assert remaining("kept") == 1
        assert remaining("kept") == 1

        with pytest.raises(KeyError):
            with client.reserve("burst", f"failed-{transport}", cost=4):
                raise KeyError
        assert remaining("failed") == 5

        with pytest.raises(Refused) as refused:
            with client.reserve("burst", f"refused-{transport}", cost=6):
                pytest.fail("a refused reservation runs no block")
        assert refused.value.decision.retry_after is None


def test_an_async_reservation_settles_itself(server: Server, transport: str) -> None:
    async def main() -> None:
        async with AsyncWaterclock(server.url(transport), token=CHECK_TOKEN, timeout=TIMEOUT) as client:

            async def remaining(key: str) -> int | None:
                return (await client.peek("burst", f"async-{key}-{transport}")).remaining

            async with client.reserve("burst", f"async-used-{transport}", cost=4) as reservation:
                await reservation.commit(1)
            assert await remaining("used") == 4

            async with client.reserve("burst", f"async-kept-{transport}", cost=4, on_expiry="release"):
                assert await remaining("kept") == 1
            assert await remaining("kept") == 1

            with pytest.raises(KeyError):
                async with client.reserve("burst", f"async-failed-{transport}", cost=4):
                    raise KeyError
            assert await remaining("failed") == 5

            with pytest.raises(Refused):
                async with client.reserve("burst", f"async-refused-{transport}", cost=6):
                    pytest.fail("a refused reservation runs no block")

    asyncio.run(main())


def test_roles(server: Server, transport: str, connect: Connect) -> None:
    client = connect(server.url(transport), token=CHECK_TOKEN)
    assert client.call("peek", "burst", "roles")
    with pytest.raises(Unauthorized, match="admin"):
        client.call("put_policy", "roles", {"limits": ["1/s"]})
    with pytest.raises(Unauthorized):
        connect(server.url(transport), token="wrong").call("check", "burst", "roles")


def test_a_token_in_the_address(server: Server, connect: Connect) -> None:
    assert connect(f"redis://:{CHECK_TOKEN}@127.0.0.1:{server.resp}").call("peek", "burst", "address")


def test_several_charges_with_different_tiers_need_http(server: Server, connect: Connect) -> None:
    charges = [Charge("tiered", "tiers", 8, tier="pro"), Charge("tiered", "no-tiers", 2)]
    decisions = connect(server.url("http"), token=CHECK_TOKEN).call("check_all", charges)
    assert [decision.limit for decision in decisions] == [8, 2]
    with pytest.raises(Invalid, match="http://"):
        connect(server.url("resp"), token=CHECK_TOKEN).call("check_all", charges)


def test_charges_that_share_a_tier(server: Server, transport: str, connect: Connect) -> None:
    charges = [Charge("tiered", f"tier-{name}-{transport}", 8, tier="pro") for name in "ab"]
    client = connect(server.url(transport), token=CHECK_TOKEN)
    assert len(client.call("check_all", charges)) == 2
    assert client.call("check_all", charges)[0].limit == 8


def test_half_a_character_is_invalid(server: Server, transport: str, connect: Connect) -> None:
    client = connect(server.url(transport), token=ADMIN_TOKEN)
    for verb in ("check", "reset"):
        with pytest.raises(Invalid):
            client.call(verb, "burst", "\ud800")


def test_a_key_is_a_text(server: Server, transport: str, connect: Connect) -> None:
    with pytest.raises(Invalid, match="the key is 7; write a text"):
        connect(server.url(transport), token=CHECK_TOKEN).call("check", "burst", 7)


@pytest.mark.parametrize("cost", [1.5, "1", "JSON", True, {}, {"tokens": 1.5}, {"tokens=5,requests": 1}, {"": 1}])
def test_wrong_costs_are_invalid(cost: Any, server: Server, transport: str, connect: Connect) -> None:
    client = connect(server.url(transport), token=CHECK_TOKEN)
    with pytest.raises(Invalid, match="the cost"):
        client.call("check", "model", "costs", cost=cost)


def test_a_report_is_an_outcome_or_a_cost(server: Server, transport: str, connect: Connect) -> None:
    client = connect(server.url(transport), token=CHECK_TOKEN)
    for wrong in ((), ("5",), ("OK",)):
        with pytest.raises(Invalid, match="outcome"):
            client.call("report", "burst", "reports", *wrong)
    assert client.call("peek", "burst", "reports").remaining == 5


def test_no_charges_are_invalid(server: Server, transport: str, connect: Connect) -> None:
    with pytest.raises(Invalid):
        connect(server.url(transport), token=CHECK_TOKEN).call("check_all", [])


def test_a_factor_has_no_exponent(server: Server, transport: str, connect: Connect) -> None:
    client = connect(server.url(transport), token=CHECK_TOKEN)
    assert client.call("peek", "burst", "factor", factor=1e-7).limit == 50_000_000
    with pytest.raises(Invalid, match="decimal"):
        client.call("peek", "burst", "factor", factor="half")


def test_impossible_times_are_invalid(server: Server, connect: Connect) -> None:
    client = connect(server.url("http"), token=CHECK_TOKEN)
    for within in (-1, float("nan"), float("inf")):
        with pytest.raises(Invalid, match="within"):
            client.call("wait", "burst", "times", within=within)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://127.0.0.1", "http://", "redis://:secret@", "", "wss://:secret@host"]
)
def test_wrong_addresses(url: str, connect: Connect) -> None:
    with pytest.raises(ValueError, match="is no address of a Waterclock server") as error:
        connect(url)
    assert "secret" not in str(error.value)


def test_wrong_options(connect: Connect) -> None:
    for options in ({"on_unavailable": "throw"}, {"timeout": 0}, {"token": "with\nnewline"}):
        with pytest.raises(ValueError):
            connect("http://127.0.0.1:1", **options)


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(Waterclock("redis://:secret@127.0.0.1:6380"))
    assert repr(AsyncWaterclock("http://[::1]:8080")) == "<AsyncWaterclock http://[::1]:8080>"


def test_the_wrong_port_is_named(server: Server, connect: Connect) -> None:
    with pytest.raises(Unavailable, match="is this the server's Redis port"):
        connect(f"redis://127.0.0.1:{server.http}").call("check", "burst", "port")
    with pytest.raises(Unavailable):
        connect(f"http://127.0.0.1:{server.resp}").call("check", "burst", "port")


def test_a_client_is_used_by_one_event_loop_after_another(server: Server, transport: str) -> None:
    client = AsyncWaterclock(server.url(transport), token=CHECK_TOKEN, timeout=TIMEOUT)

    async def main() -> int:
        return sum([bool(await client.check("burst", f"loops-{transport}")) for _ in range(2)])

    assert [asyncio.run(main()) for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_connections_of_its_own(server: Server, transport: str) -> None:
    program = f"""
import os
from waterclock import Waterclock
client = Waterclock({server.url(transport)!r}, token={CHECK_TOKEN!r}, timeout={TIMEOUT})
assert client.check("burst", "fork-{transport}")
child = os.fork()
answers = [client.peek("burst", str(key)).key for key in range(100)]
assert answers == [str(key) for key in range(100)], answers
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
