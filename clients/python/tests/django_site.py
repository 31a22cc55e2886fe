"""The views of the Django site that the tests ask."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path

from waterclock import Decision
from waterclock.django import rate_limit


def user(request: HttpRequest) -> str:
    return request.headers["user"]


def refused(request: HttpRequest, decision: Decision) -> HttpResponse:
    return HttpResponse(f"{decision.remaining} left", status=418)


def is_free(request: HttpRequest) -> bool:
    return request.path.startswith("/free/")


def index(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(request.rate_limit.remaining))  # type: ignore[attr-defined]


async def async_index(request: HttpRequest) -> HttpResponse:
    return index(request)


@rate_limit("burst", key=user, cost=3, refused=refused)
def greet(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse(name)


async def async_user(request: HttpRequest) -> str:
    return user(request)


async def async_refused(request: HttpRequest, decision: Decision) -> HttpResponse:
    return HttpResponse(f"{decision.remaining} left", status=418)


@rate_limit("burst", key=async_user, cost=3, refused=async_refused)
async def async_greet(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse(name)


urlpatterns = [
    path("", index),
    path("async", async_index),
    path("free/<name>", greet),
    path("free/async/<name>", async_greet),
]
