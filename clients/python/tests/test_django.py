from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import AsyncClient, Client, override_settings

from waterclock import Unavailable
from waterclock.django import RateLimitMiddleware, async_client

from . import django_settings  # noqa: F401
from .clients import TIMEOUT
from .server import CHECK_TOKEN, Server


def configured(url: str, **more: Any) -> Any:
    site = "tests.django_site"
    ours = {"URL": url, "POLICY": "burst", "KEY": f"{site}.user", "SKIP": f"{site}.is_free", **more}
    return override_settings(WATERCLOCK=ours)


def configured_for(server: Server, transport: str) -> Any:
    return configured(server.url(transport), TOKEN=CHECK_TOKEN, TIMEOUT=TIMEOUT)


def test_middleware(server: Server, transport: str) -> None:
    with configured_for(server, transport):
        headers = {"user": f"django-{transport}"}
        for remaining in (4, 3, 2, 1, 0):
            response = Client().get("/", headers=headers)
            assert (response.status_code, response.content.decode()) == (200, str(remaining))
            assert f"r={remaining};" in response.headers["RateLimit"]
        response = Client().get("/", headers=headers)
        assert response.status_code == 429
        assert response.headers["Content-Type"] == "application/problem+json"
        assert response.json()["violated-policies"] == ["burst.burst"]
        assert 600 < int(response.headers["Retry-After"]) <= 720


def test_async_middleware(server: Server, transport: str) -> None:
    async def main() -> list[tuple[int, str]]:
        answers = []
        for _ in range(6):
            response = await AsyncClient().get("/async", headers={"user": f"django-async-{transport}"})
            answers.append((response.status_code, response.headers["RateLimit-Policy"]))
        await async_client().aclose()
        return answers

    with configured_for(server, transport):
        policy = '"burst.burst";q=5;w=3600'
        assert asyncio.run(main()) == [(200, policy)] * 5 + [(429, policy)]


def test_decorator(server: Server) -> None:
    with configured_for(server, "resp"):
        headers = {"user": "django-view"}
        assert Client().get("/free/alice", headers=headers).content == b"alice"
        response = Client().get("/free/alice", headers=headers)
        assert (response.status_code, response.content) == (418, b"2 left")
        assert "RateLimit" in response.headers


def test_async_decorator(server: Server) -> None:
    async def main() -> list[int]:
        headers = {"user": "django-async-view"}
        answers = [await AsyncClient().get("/free/async/alice", headers=headers) for _ in range(2)]
        await async_client().aclose()
        return [answer.status_code for answer in answers]

    with configured_for(server, "http"):
        assert asyncio.run(main()) == [200, 418]


def test_an_async_view_under_wsgi(server: Server) -> None:
    with configured_for(server, "resp"):
        headers = {"user": "django-wsgi"}
        answers = [Client().get("/free/async/alice", headers=headers).status_code for _ in range(2)]
        assert answers == [200, 418]


def test_unavailable(closed_port: int) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    for mode, status in (("allow", 200), ("refuse", 503)):
        with configured(url, ON_UNAVAILABLE=mode):
            assert Client().get("/", headers={"user": "alice"}).status_code == status
    with configured(url), pytest.raises(Unavailable):
        Client().get("/", headers={"user": "alice"})


@pytest.mark.parametrize(
    ("ours", "message"),
    [
        ({}, "needs URL"),
        ({"URL": "http://127.0.0.1:1"}, "needs POLICY and KEY"),
        ({"URL": "http://127.0.0.1:1", "LIMIT": 5}, "does not know LIMIT"),
    ],
)
def test_wrong_settings(ours: dict[str, Any], message: str) -> None:
    with override_settings(WATERCLOCK=ours), pytest.raises(ImproperlyConfigured, match=message):
        RateLimitMiddleware(lambda request: None)
