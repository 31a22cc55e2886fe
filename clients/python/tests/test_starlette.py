from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from waterclock import AsyncWaterclock, Decision, Unavailable
from waterclock.starlette import RateLimit, RateLimited, RateLimitMiddleware

from .clients import TIMEOUT
from .server import CHECK_TOKEN, Server


def client_of(server: Server, transport: str) -> AsyncWaterclock:
    return AsyncWaterclock(server.url(transport), token=CHECK_TOKEN, timeout=TIMEOUT)


def user(request: Request) -> str:
    return request.headers["user"]


def application(client: AsyncWaterclock, **options: Any) -> TestClient:
    async def hello(request: Request) -> Response:
        decision = getattr(request.state, "rate_limit", None)
        return PlainTextResponse(str(decision and decision.remaining), headers={"retry-after": "7"})

    limit = Middleware(RateLimitMiddleware, client=client, policy="burst", **{"key": user, **options})
    return TestClient(Starlette(routes=[Route("/", hello)], middleware=[limit]))


def test_middleware(server: Server, transport: str) -> None:
    app = application(client_of(server, transport))
    headers = {"user": f"starlette-{transport}"}
    for remaining in (4, 3, 2, 1, 0):
        response = app.get("/", headers=headers)
        assert (response.status_code, response.text) == (200, str(remaining))
        assert f"r={remaining};" in response.headers["ratelimit"]
        assert response.headers["retry-after"] == "7", "the application's own field stays"
    assert app.get("/missing", headers={"user": f"starlette-missing-{transport}"}).headers["ratelimit"]
    response = app.get("/", headers=headers)
    assert response.status_code == 429
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["ratelimit-policy"] == '"burst.burst";q=5;w=3600'
    assert 600 < int(response.headers["retry-after"]) <= 720
    assert response.json()["violated-policies"] == ["burst.burst"]


def test_options(server: Server) -> None:
    async def cost(request: Request) -> int:
        return int(request.headers["cost"])

    def refused(request: Request, decision: Decision) -> Response:
        return PlainTextResponse(f"{decision.key} has {decision.remaining}", 418)

    app = application(
        client_of(server, "resp"),
        key=lambda request: "starlette-options",
        cost=cost,
        factor="0.5",
        skip=lambda request: "skip" in request.headers,
        refused=refused,
    )
    assert app.get("/", headers={"cost": "9"}).text == "1"
    response = app.get("/", headers={"cost": "2"})
    assert (response.status_code, response.text) == (418, "starlette-options has 1")
    assert "ratelimit" in response.headers
    assert "ratelimit" not in app.get("/", headers={"skip": "1"}).headers


def test_a_response_without_header_fields(server: Server) -> None:
    async def bare(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    app = RateLimitMiddleware(bare, client_of(server, "resp"), "burst", key="starlette-bare")
    assert "r=4;" in TestClient(app).get("/").headers["ratelimit"]


def test_unavailable(closed_port: int) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    headers = {"user": "alice"}
    assert application(AsyncWaterclock(url, on_unavailable="allow")).get("/", headers=headers).status_code == 200
    response = application(AsyncWaterclock(url, on_unavailable="refuse")).get("/", headers=headers)
    assert response.status_code == 503
    assert response.headers["content-type"] == "application/problem+json"
    with pytest.raises(Unavailable):
        application(AsyncWaterclock(url)).get("/", headers=headers)


def test_fastapi_dependency(server: Server, transport: str) -> None:
    client = client_of(server, transport)
    key = f"fastapi-{transport}"

    async def name(request: Request) -> str:
        return f"{key}-{(await request.json())['name']}"

    app = FastAPI()
    as_parameter = Depends(RateLimit(client, "burst", key=key))

    @app.post("/login", dependencies=[Depends(RateLimit(client, "burst", key=name, cost=3))])
    def login() -> str:
        return "welcome"

    @app.get("/left")
    async def left(decision: Decision = as_parameter) -> int | None:
        return decision.remaining

    web = TestClient(app)
    assert [web.get("/left").json() for _ in range(2)] == [4, 3]
    response = web.post("/login", json={"name": "alice"})
    assert response.json() == "welcome" and "r=2;" in response.headers["ratelimit"]
    response = web.post("/login", json={"name": "alice"})
    assert response.status_code == 429
    assert response.headers["content-type"] == "application/problem+json"
    assert int(response.headers["retry-after"]) > 0
    document = response.json()
    assert re.fullmatch(r"Too many requests; try again in \d+ s\.", document.pop("detail"))
    assert document == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "The request exceeds a limit",
        "status": 429,
        "violated-policies": ["burst.burst"],
    }
    assert web.post("/login", json={"name": "bob"}).status_code == 200


def test_fastapi_dependency_that_fails_closed(closed_port: int) -> None:
    app = FastAPI()
    client = AsyncWaterclock(f"http://127.0.0.1:{closed_port}", on_unavailable="refuse")

    @app.get("/", dependencies=[Depends(RateLimit(client, "burst", key="alice"))])
    def index() -> None: ...

    response = TestClient(app).get("/")
    assert (response.status_code, response.headers["content-type"]) == (503, "application/problem+json")
    assert response.json() == {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "The rate limiter cannot be asked; try again later.",
    }


@pytest.mark.parametrize("handled", [RateLimited, HTTPException, 429])
def test_fastapi_handlers_of_the_application(server: Server, handled: Any) -> None:
    app = FastAPI()
    limit = RateLimit(client_of(server, "http"), "burst", key="fastapi-handlers", cost=6)

    @app.exception_handler(handled)
    async def handle(request: Request, error: RateLimited) -> Response:
        return JSONResponse({"never": error.decision.retry_after is None}, 420)

    @app.get("/", dependencies=[Depends(limit)])
    def index() -> None: ...

    for _ in range(2):
        response = TestClient(app).get("/")
        assert (response.status_code, response.json()) == (420, {"never": True})
