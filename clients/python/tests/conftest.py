from __future__ import annotations

from collections.abc import Iterator

import pytest

from .server import Server


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
