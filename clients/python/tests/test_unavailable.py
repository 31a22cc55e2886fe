"""A server that cannot be asked: errors, fail modes, and no second charge."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from waterclock import AsyncWaterclock, Charge, Refused, Unavailable, Waterclock

from .fake_server import FakeServer, closes, says, silent

Connect = Callable[..., Any]

CALLS = [
    ("check", ("p", "k"), {}),
    ("peek", ("p", "k"), {}),
    ("check_all", ([Charge("p", "k"), Charge("q", "k", 3)],), {}),
    ("wait", ("p", "k"), {"within": 0.05}),
]


@pytest.fixture
def nowhere(transport: str, closed_port: int) -> str:
    return f"{'http' if transport == 'http' else 'redis'}://127.0.0.1:{closed_port}"


def test_nothing_listens(connect: Connect, nowhere: str) -> None:
    client = connect(nowhere)
    for verb, arguments, options in CALLS:
        with pytest.raises(Unavailable, match="nothing listens at .*127.0.0.1"):
            client.call(verb, *arguments, **options)


@pytest.mark.parametrize("mode", ["allow", "refuse"])
def test_fail_modes(connect: Connect, nowhere: str, mode: str) -> None:
    client = connect(nowhere, on_unavailable=mode)
    for verb, arguments, options in CALLS:
        answer = client.call(verb, *arguments, **options)
        assert bool(answer) == (mode == "allow")
        for decision in answer if verb == "check_all" else [answer]:
            assert decision.source == "unavailable"
            assert (decision.limit, decision.remaining) == (None, None)
            assert decision.retry_after == (0 if mode == "allow" else None)
    for verb, arguments in (("refund", ("p", "k")), ("reset", ("p", "k")), ("get_policy", ("p",))):
        with pytest.raises(Unavailable):
            client.call(verb, *arguments)


def test_a_reservation_that_fails_open_needs_no_server(connect: Connect, nowhere: str) -> None:
    client = connect(nowhere, on_unavailable="allow")
    reservation = client.call("reserve", "p", "k", cost=5)
    assert reservation.id is None and reservation.decision.source == "unavailable"
    client.settle(reservation, "commit", 3)
    client.settle(reservation, "cancel")


def test_a_reservation_that_fails_closed_is_refused(connect: Connect, nowhere: str) -> None:
    client = connect(nowhere, on_unavailable="refuse")
    with pytest.raises(Refused) as refused:
        client.call("reserve", "p", "k", cost=5)
    assert refused.value.decision.source == "unavailable"
    assert str(refused.value) == "the reservation under policy 'p' is refused: the server cannot be asked"


def test_a_server_that_never_answers(connect: Connect, transport: str) -> None:
    with FakeServer(silent) as fake:
        client = connect(fake.url(transport), timeout=0.05)
        with pytest.raises(Unavailable, match="no answer within 0.05 s"):
            client.call("check", "p", "k")
        with pytest.raises(Unavailable, match="no answer within 0.1 s"):
            client.call("wait", "p", "k", within=0.05)


def test_nothing_is_charged_twice(connect: Connect, transport: str) -> None:
    with FakeServer(closes) as fake:
        client = connect(fake.url(transport))
        with pytest.raises(Unavailable):
            client.call("check", "p", "k")
        assert fake.accepted == 1
        with pytest.raises(Unavailable):
            client.call("wait", "p", "k", within=1)
        assert fake.accepted == 2


@pytest.mark.parametrize(
    ("transport", "reply"),
    [
        ("http", b'HTTP/1.1 503 \r\nContent-Length: 22\r\n\r\n{"failure": "timeout"}'),
        ("resp", b"-UNAVAILABLE the store failed\r\n"),
    ],
)
def test_the_operators_refusal_is_not_overruled(connect: Connect, transport: str, reply: bytes) -> None:
    with FakeServer(says(reply)) as fake:
        decision = connect(fake.url(transport), on_unavailable="allow").call("check", "p", "k")
        assert not decision and decision.source == "unavailable"
        with pytest.raises(Unavailable) as error:
            connect(fake.url(transport)).call("check", "p", "k")
        assert error.value.denied


@pytest.mark.parametrize(
    ("transport", "reply"),
    [
        ("http", b"HTTP/1.1 503 \r\nContent-Length: 2\r\n\r\n{}"),
        ("http", b"HTTP/1.1 429 \r\nContent-Type: application/problem+json\r\nContent-Length: 2\r\n\r\n{}"),
        ("http", b"HTTP/1.1 502 \r\nContent-Length: 9\r\n\r\n<h1>hello"),
        ("http", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n{}"),
        ("http", b"HTTP/1.1 200 \r\nContent-Length: x\r\n\r\n{}"),
        ("http", b"+OK\r\n\r\n"),
        ("resp", b"-BUSY too many\r\n"),
        ("resp", b"+OK\r\n"),
        ("resp", b"$2\r\n{}\r\n"),
        ("resp", b"$99999999999\r\n"),
        ("resp", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ],
)
def test_what_is_no_decision_is_unavailable(connect: Connect, transport: str, reply: bytes) -> None:
    with FakeServer(says(reply)) as fake:
        with pytest.raises(Unavailable) as error:
            connect(fake.url(transport)).call("check", "p", "k")
        assert not error.value.denied
        assert connect(fake.url(transport), on_unavailable="allow").call("check", "p", "k")


@pytest.mark.parametrize(
    ("transport", "reply"),
    [
        ("http", b'HTTP/1.1 200 \r\nContent-Length: 34\r\n\r\n{"allowed": true, "decisions": []}'),
        ("resp", b"*0\r\n"),
    ],
)
def test_every_charge_needs_a_decision(connect: Connect, transport: str, reply: bytes) -> None:
    with FakeServer(says(reply)) as fake:
        with pytest.raises(Unavailable, match="0 decisions about 1 charges"):
            connect(fake.url(transport)).call("check_all", [Charge("p", "k")])


DECISION = json.dumps(
    {
        "key": "k", "cost": 1, "allowed": True, "granted": 1, "limit": 5, "remaining": 4, "retry_after_us": 0,
        "next_unit_us": 1, "next_same_us": 0, "reset_after_us": 1, "refused_by": [], "policy": "p",
        "source": "authoritative", "limits": [], "headers": {}, "new": {"field": 1},
    }
).encode()  # fmt: skip


@pytest.mark.parametrize(
    ("transport", "reply"),
    [
        ("http", b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(DECISION), DECISION)),
        (
            "http",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x;a=b\r\n%b\r\n3\r\n   \r\n0\r\nT: x\r\n\r\n"
            % (len(DECISION), DECISION),
        ),
        (
            "http",
            b"HTTP/1.1 103 Hints\r\na: b\r\n\r\nHTTP/1.1 200\r\ncontent-length: %d\r\n\r\n%b"
            % (len(DECISION), DECISION),
        ),
        ("resp", b"$%d\r\n%b\r\n" % (len(DECISION), DECISION)),
    ],
)
def test_replies_arrive_in_pieces(connect: Connect, transport: str, reply: bytes) -> None:
    pieces = [reply[at : at + 7] for at in range(0, len(reply), 7)]
    with FakeServer(says(*pieces)) as fake:
        client = connect(fake.url(transport))
        for _ in range(2):
            decision = client.call("check", "p", "k")
            assert decision.remaining == 4 and decision.raw["new"] == {"field": 1}
        assert fake.accepted == 1


def test_a_body_that_ends_with_the_connection(connect: Connect) -> None:
    def answer(connection: Any) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + DECISION)

    with FakeServer(answer) as fake:
        client = connect(fake.url("http"))
        assert client.call("check", "p", "k").remaining == 4
        assert client.call("check", "p", "k").remaining == 4
        assert fake.accepted == 2


def test_a_connection_that_the_server_closed_is_not_used_again(connect: Connect, transport: str) -> None:
    body = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" if transport == "http" else b"$%d\r\n%b\r\n"

    def answer_once(connection: Any) -> None:
        connection.recv(65_536)
        connection.sendall(body % (len(DECISION), DECISION))

    with FakeServer(answer_once) as fake:
        client = connect(fake.url(transport))
        for count in range(1, 4):
            assert client.call("check", "p", "k")
            assert fake.answered.acquire(timeout=20)
            client.notice()
            assert fake.accepted == count


def test_a_reply_that_no_call_waits_for_answers_none(connect: Connect, transport: str) -> None:
    """Such as the 408 of a proxy that closes an idle connection."""
    body = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" if transport == "http" else b"$%d\r\n%b\r\n"
    stale = DECISION.replace(b'"p"', b'"stale"')
    answered, sent = threading.Event(), threading.Event()

    def answer_twice(connection: Any) -> None:
        connection.recv(65_536)
        connection.sendall(body % (len(DECISION), DECISION))
        assert answered.wait(timeout=20)
        connection.sendall(body % (len(stale), stale))
        sent.set()
        silent(connection)

    with FakeServer(answer_twice) as fake:
        client = connect(fake.url(transport))
        assert client.call("check", "p", "k").policy == "p"
        answered.set()
        assert sent.wait(timeout=20)
        client.notice()
        assert client.call("check", "p", "k").policy == "p"
        assert fake.accepted == 2


class ReserveOnly:
    """Makes reservations, and closes the connection at any other command."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []

    def __call__(self, connection: Any) -> None:
        reserved = DECISION[:-1] + b', "reservation": {"id": "one", "expires_in_us": 1}}'
        while asked := connection.recv(65_536):
            self.commands.append(asked.split(b"\r\n")[2])
            if self.commands[-1] != b"RL.RESERVE":
                return
            connection.sendall(b"$%d\r\n%b\r\n" % (len(reserved), reserved))


def test_a_commit_that_fails_is_not_followed_by_a_cancel() -> None:
    behaviour = ReserveOnly()
    with FakeServer(behaviour) as fake, Waterclock(fake.url("resp"), timeout=20) as client:
        with pytest.raises(Unavailable), client.reserve("p", "k") as reservation:
            reservation.commit(1)
    assert behaviour.commands == [b"RL.RESERVE", b"RL.COMMIT"]


@pytest.mark.parametrize("mode", ["raise", "allow", "refuse"])
def test_a_block_ends_while_the_server_is_gone(mode: Any) -> None:
    outcome: Any = pytest.raises(Unavailable) if mode == "raise" else nullcontext()
    with FakeServer(ReserveOnly()) as fake:
        with Waterclock(fake.url("resp"), timeout=20, on_unavailable=mode) as client:
            with outcome, client.reserve("p", "k") as reservation:
                assert reservation.id == "one"
            with pytest.raises(Unavailable):
                client.reserve("p", "k").commit(1)
            with pytest.raises(KeyError), client.reserve("p", "k"):
                raise KeyError


@pytest.mark.parametrize("mode", ["raise", "allow", "refuse"])
def test_an_async_block_ends_while_the_server_is_gone(mode: Any) -> None:
    async def main(fake: FakeServer) -> None:
        async with AsyncWaterclock(fake.url("resp"), timeout=20, on_unavailable=mode) as client:
            async with client.reserve("p", "k") as reservation:
                assert reservation.id == "one"

    outcome: Any = pytest.raises(Unavailable) if mode == "raise" else nullcontext()
    with FakeServer(ReserveOnly()) as fake, outcome:
        asyncio.run(main(fake))


def test_a_call_that_misses_its_deadline_leaves_the_others_their_replies() -> None:
    """The calls before it on the connection are answered; new calls use another connection."""
    reply = b"$%d\r\n%b\r\n" % (len(DECISION), DECISION)
    first = True

    def slow_then_prompt(connection: Any) -> None:
        nonlocal first
        if not first:
            says(reply)(connection)
        first = False
        silent(connection)

    async def main(fake: FakeServer) -> None:
        async with AsyncWaterclock(fake.url("resp"), timeout=0.2) as client:
            with pytest.raises(Unavailable):
                await client.check("p", "k")
            client._timeout = 20
            assert await client.check("p", "k")
            assert fake.accepted == 2

    with FakeServer(slow_then_prompt) as fake:
        asyncio.run(main(fake))


def other_tasks() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


class Hang:
    """Reads commands, and never answers."""

    def __init__(self) -> None:
        self.commands = 0

    def __call__(self, connection: Any) -> None:
        while connection.recv(65_536):
            self.commands += 1

    async def unanswered_call(self, client: AsyncWaterclock) -> asyncio.Task[Any]:
        """Returns when the server has the command."""
        commands = self.commands
        call = asyncio.create_task(client.check("p", "k"))
        while self.commands == commands:
            await asyncio.sleep(0.001)
        return call


def test_a_connection_that_hangs_is_replaced_although_its_callers_left() -> None:
    async def main(fake: FakeServer) -> None:
        async with AsyncWaterclock(fake.url("resp"), timeout=0.5) as client:
            (await hang.unanswered_call(client)).cancel()
            await asyncio.sleep(0.5)
            client._timeout = 20
            (await hang.unanswered_call(client)).cancel()
            assert fake.accepted == 2

    hang = Hang()
    with FakeServer(hang) as fake:
        asyncio.run(main(fake))


def test_a_connection_that_hangs_is_closed_when_its_last_caller_leaves() -> None:
    async def main(fake: FakeServer) -> None:
        async with AsyncWaterclock(fake.url("resp"), timeout=20) as client:
            patient = await hang.unanswered_call(client)
            client._timeout = 0.05
            with pytest.raises(Unavailable):
                await client.check("p", "k")
            patient.cancel()
            while other_tasks():
                await asyncio.sleep(0.001)

    hang = Hang()
    with FakeServer(hang) as fake:
        asyncio.run(main(fake))


def test_a_client_that_closes_while_it_connects_leaves_nothing_open() -> None:
    async def main(fake: FakeServer) -> None:
        client = AsyncWaterclock(fake.url("resp"), timeout=20)
        call = asyncio.create_task(client.check("p", "k"))
        await asyncio.sleep(0)
        await client.aclose()
        assert await call
        while other_tasks():
            await asyncio.sleep(0.001)

    with FakeServer(says(b"$%d\r\n%b\r\n" % (len(DECISION), DECISION))) as fake:
        asyncio.run(main(fake))


def test_a_wait_has_a_connection_of_its_own() -> None:
    def answer_all_but_waits(connection: Any) -> None:
        while b"RL.WAIT" not in (asked := connection.recv(65_536)):
            connection.sendall(b"$%d\r\n%b\r\n" % (len(DECISION), DECISION) if asked else b"")
        silent(connection)

    async def main(fake: FakeServer) -> None:
        async with AsyncWaterclock(fake.url("resp"), timeout=20) as client:
            assert await client.check("p", "k")
            waiting = asyncio.create_task(client.wait("p", "k", within=20))
            while fake.accepted < 2:
                await asyncio.sleep(0.001)
            assert await client.check("p", "k")
            assert not waiting.done()
            waiting.cancel()

    with FakeServer(answer_all_but_waits) as fake:
        asyncio.run(main(fake))


def test_a_cancelled_call_leaves_its_reply_behind() -> None:
    replies = [b"$%d\r\n%b\r\n" % (len(body), body) for body in (DECISION, DECISION.replace(b'"p"', b'"q"'))]
    asked_first = threading.Event()

    def answer_two(connection: Any) -> None:
        seen = b""
        while seen.count(b"RL.CHECK") < 2:
            seen += connection.recv(65_536)
            asked_first.set()
        connection.sendall(b"".join(replies))
        silent(connection)

    async def main(fake: FakeServer) -> None:
        async with AsyncWaterclock(fake.url("resp"), timeout=20) as client:
            first = asyncio.create_task(client.check("p", "k"))
            while not asked_first.is_set():
                await asyncio.sleep(0.001)
            first.cancel()
            assert (await client.check("q", "k")).policy == "q"
            assert fake.accepted == 1

    with FakeServer(answer_two) as fake:
        asyncio.run(main(fake))


def test_a_closed_client_says_so(nowhere: str) -> None:
    client = Waterclock(nowhere)
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.check("p", "k")

    async def main() -> None:
        client = AsyncWaterclock(nowhere)
        await client.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await client.check("p", "k")

    asyncio.run(main())
