"""The real `limits`, slowapi and Flask-Limiter, with their limits on the server."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import flask
import flask_limiter
import limits
import limits.aio.strategies
import limits.strategies
import pytest
import slowapi
import slowapi.errors
from fastapi import FastAPI
from limits.errors import ConfigurationError, StorageError
from limits.storage import MemoryStorage, storage_from_string
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

import waterclock.limits
from waterclock import Invalid, Unavailable, Waterclock

from .server import ADMIN_TOKEN, CHECK_TOKEN, Server

SCHEMES = {"http": "waterclock+http", "resp": "waterclock"}


def uri(server: Server, transport: str, more: str = "") -> str:
    port = server.http if transport == "http" else server.resp
    return f"{SCHEMES[transport]}://127.0.0.1:{port}?token={ADMIN_TOKEN}&timeout=20{more}"


def sync_strategy(uri: str, **options: Any) -> limits.strategies.RateLimiter:
    return limits.strategies.STRATEGIES["waterclock"](storage_from_string(uri, **options))


def test_strategy(server: Server, transport: str) -> None:
    limiter = sync_strategy(uri(server, transport))
    item = limits.parse("5/minute")
    who = ("limits", transport)
    assert limiter.storage.check()
    assert limiter.test(item, *who, cost=5) and not limiter.test(item, *who, cost=6)
    assert limiter.get_window_stats(item, *who).remaining == 5
    assert [limiter.hit(item, *who) for _ in range(3)] == [True] * 3
    assert limiter.hit(item, *who, cost=2)
    before = time.time()
    assert not limiter.hit(item, *who)
    stats = limiter.get_window_stats(item, *who)
    assert stats.remaining == 0
    assert stats.reset_time == int(stats.reset_time) and before < stats.reset_time <= time.time() + 61
    assert limiter.hit(item, "somebody else", transport)
    limiter.clear(item, *who)
    assert limiter.hit(item, *who, cost=5)


def test_async_strategy(server: Server, transport: str) -> None:
    async def main() -> None:
        storage = storage_from_string("async+" + uri(server, transport))
        assert isinstance(storage, waterclock.limits.AsyncWaterclockStorage)
        strategies: dict[str, Any] = {**limits.aio.strategies.STRATEGIES}
        limiter = strategies["waterclock"](storage)
        item = limits.parse("3 per 2 hour")
        who = ("aio", transport)
        assert await storage.check()
        assert await limiter.test(item, *who, cost=3)
        assert [await limiter.hit(item, *who) for _ in range(4)] == [True, True, True, False]
        assert (await limiter.get_window_stats(item, *who)).remaining == 0
        await limiter.clear(item, *who)
        assert await limiter.hit(item, *who)
        await storage.client.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("algorithm", ["rolling-window", "sliding-window", "fixed-window", "gcra"])
def test_algorithms(server: Server, algorithm: str) -> None:
    limiter = sync_strategy(uri(server, "resp", f"&algorithm={algorithm}"))
    item = limits.parse("2/month")
    assert [limiter.hit(item, algorithm) for _ in range(3)] == [True, True, False]
    with Waterclock(server.url("http"), token=ADMIN_TOKEN) as client:
        policy = client.get_policy(f"limits/{algorithm}/2:2592000s")
        assert policy is not None and policy["limits"][0]["algorithm"] == algorithm


def test_large_amounts(server: Server) -> None:
    limiter = sync_strategy(uri(server, "resp"))
    assert limiter.hit(limits.parse("1000000/day"), "large", cost=1_000_000)
    assert not limiter.hit(limits.parse("1000000/day"), "large")


def test_other_strategies_are_refused(server: Server) -> None:
    storage = storage_from_string(uri(server, "resp"))
    with pytest.raises(ConfigurationError, match='strategy="waterclock"'):
        limits.strategies.FixedWindowRateLimiter(storage).hit(limits.parse("5/minute"), "fixed")
    for strategy in ("moving-window", "sliding-window-counter"):
        with pytest.raises(NotImplementedError):
            limits.strategies.STRATEGIES[strategy](storage)


def test_wrong_options(server: Server) -> None:
    for more, message in (("&algorithm=magic", "is no algorithm"), ("&colour=red", "does not know colour")):
        with pytest.raises(ConfigurationError, match=message):
            storage_from_string(uri(server, "resp", more))


def test_unavailable(closed_port: int) -> None:
    nowhere = f"waterclock://127.0.0.1:{closed_port}"
    item = limits.parse("5/minute")
    with pytest.raises(Unavailable):
        sync_strategy(nowhere).hit(item, "alice")
    with pytest.raises(StorageError):
        sync_strategy(nowhere, wrap_exceptions=True).hit(item, "alice")
    assert sync_strategy(nowhere, on_unavailable="allow").hit(item, "alice")
    assert not sync_strategy(nowhere).storage.check()
    for mode, remaining in (("allow", 5), ("refuse", 0)):
        assert sync_strategy(nowhere, on_unavailable=mode).get_window_stats(item, "alice").remaining == remaining


def test_a_token_without_the_role_is_told_what_is_missing(server: Server, transport: str) -> None:
    limiter = sync_strategy(uri(server, transport).replace(ADMIN_TOKEN, CHECK_TOKEN))
    with pytest.raises(Invalid, match="limits/rolling-window/7:60s"):
        limiter.hit(limits.parse("7/minute"), "alice")


def test_the_policies_of_the_file_need_no_role(transport: str) -> None:
    configuration = """
[server]
auth = [{ token = "${TOKEN}", roles = ["check"] }]
[policies."limits/rolling-window/2:60s"]
limits = [{ algorithm = "rolling-window", limit = 2, per = "60s" }]
"""
    with Server(configuration, TOKEN=CHECK_TOKEN) as server:
        limiter = sync_strategy(uri(server, transport).replace(ADMIN_TOKEN, CHECK_TOKEN))
        item = limits.parse("2/minute")
        assert [limiter.hit(item, "alice") for _ in range(3)] == [True, True, False]
        limiter.clear(item, "alice")
        assert limiter.hit(item, "alice")


def test_the_strategy_serves_a_fallback_in_memory() -> None:
    limiter = limits.strategies.STRATEGIES["waterclock"](MemoryStorage())
    assert [limiter.hit(limits.parse("2/minute"), "memory") for _ in range(3)] == [True, True, False]


def test_slowapi(server: Server) -> None:
    limiter = slowapi.Limiter(
        key_func=lambda: "slowapi",
        storage_uri=uri(server, "resp"),
        strategy="waterclock",
        headers_enabled=True,
    )
    app = FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(slowapi.errors.RateLimitExceeded, slowapi._rate_limit_exceeded_handler)  # type: ignore[arg-type]

    @app.get("/")
    @limiter.limit("3/hour")
    async def index(request: Request) -> Any:
        return PlainTextResponse("hello")

    web = TestClient(app)
    answers = [web.get("/") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
    assert 3500 < int(answers[-1].headers["retry-after"]) <= 3602


def test_flask_limiter(server: Server) -> None:
    app = flask.Flask(__name__)
    limiter = flask_limiter.Limiter(
        lambda: "flask-limiter",
        app=app,
        storage_uri=uri(server, "http"),
        strategy="waterclock",
        headers_enabled=True,
    )

    @app.get("/")
    @limiter.limit("3/hour")
    def index() -> str:
        return "hello"

    web = app.test_client()
    answers = [web.get("/") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["2", "1", "0", "0"]
    assert 3500 < int(answers[-1].headers["Retry-After"]) <= 3602
