from __future__ import annotations

from typing import Any

import flask
import pytest

from waterclock import Decision, Unavailable, Waterclock
from waterclock.flask import RateLimit

from .clients import TIMEOUT
from .server import CHECK_TOKEN, Server


def client_of(server: Server, transport: str) -> Waterclock:
    return Waterclock(server.url(transport), token=CHECK_TOKEN, timeout=TIMEOUT)


def application(limit: RateLimit) -> Any:
    app = flask.Flask(__name__)
    app.testing = True
    limit.init_app(app)

    @app.get("/")
    def index() -> str:
        decision = flask.g.get("rate_limit")
        return str(decision and decision.remaining)

    return app.test_client()


def test_application(server: Server, transport: str) -> None:
    limit = RateLimit(client_of(server, transport), "burst", key=lambda request: request.headers["user"])
    web = application(limit)
    headers = {"user": f"flask-{transport}"}
    for remaining in (4, 3, 2, 1, 0):
        response = web.get("/", headers=headers)
        assert (response.status_code, response.text) == (200, str(remaining))
        assert f"r={remaining};" in response.headers["RateLimit"]
    response = web.get("/", headers=headers)
    assert (response.status_code, response.content_type) == (429, "application/problem+json")
    assert response.json["violated-policies"] == ["burst.burst"]
    assert 600 < int(response.headers["Retry-After"]) <= 720
    missing = web.get("/missing", headers={"user": f"flask-missing-{transport}"})
    assert missing.status_code == 404 and "RateLimit" in missing.headers


def test_view(server: Server) -> None:
    app = flask.Flask(__name__)
    app.testing = True

    def refused(decision: Decision) -> Any:
        return f"{decision.remaining} left", 418

    limit = RateLimit(client_of(server, "resp"), "burst", key="flask-view", cost=3, refused=refused)

    @app.get("/<name>")
    @limit
    def greet(name: str) -> str:
        return name

    @app.get("/")
    def free() -> str:
        return "free"

    web = app.test_client()
    assert web.get("/alice").text == "alice"
    response = web.get("/alice")
    assert (response.status_code, response.text) == (418, "2 left")
    assert "RateLimit" in response.headers
    assert "RateLimit" not in web.get("/").headers
    assert greet.__name__ == "greet"


def test_the_fields_of_the_limit_closest_to_the_view(server: Server) -> None:
    app = flask.Flask(__name__)
    client = client_of(server, "resp")
    RateLimit(client, "burst", key="flask-outer").init_app(app)

    @app.get("/")
    @RateLimit(client, "burst", key="flask-inner", cost=3)
    def index() -> str:
        return str(flask.g.rate_limit.remaining)

    with app.app_context():
        response = app.test_client().get("/")
        assert response.text == "2" and "r=2;" in response.headers["RateLimit"]
        assert "r=2;" in app.test_client().get("/").headers["RateLimit"]


def test_options(server: Server) -> None:
    limit = RateLimit(
        client_of(server, "http"),
        "tiered",
        key="flask-options",
        cost=lambda request: int(request.args["cost"]),
        tier=lambda request: request.args.get("tier"),
        skip=lambda request: "skip" in request.args,
    )
    web = application(limit)
    assert web.get("/?cost=8&tier=pro").text == "0"
    assert web.get("/?cost=1").status_code == 429
    assert web.get("/?skip").text == "None"


def test_unavailable(closed_port: int) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    for mode, status in (("allow", 200), ("refuse", 503)):
        limit = RateLimit(Waterclock(url, on_unavailable=mode), "burst", key="alice")  # type: ignore[arg-type]
        assert application(limit).get("/").status_code == status
    with pytest.raises(Unavailable):
        application(RateLimit(Waterclock(url), "burst", key="alice")).get("/")
