from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .clients import FACES, TRANSPORTS, AsyncFace, SyncFace
from .server import Server


@pytest.fixture(params=list(FACES.values()), ids=list(FACES))
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., SyncFace | AsyncFace]]:
    """Makes clients, sync and then async, and closes them after the test."""
    with ExitStack() as clients:

        def connect(url: str, **options: Any) -> SyncFace | AsyncFace:
            face: SyncFace | AsyncFace = request.param(url, **options)
            clients.callback(face.close)
            return face

        yield connect


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def fresh_server() -> Iterator[Server]:
    """For tests that spend what other tests would miss."""
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """For tests that use keys of their own."""
    with Server() as server:
        yield server


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nothing listens, and which nothing else can take."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
