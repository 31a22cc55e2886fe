"""Both clients behind one face, so that a test runs with each."""

from __future__ import annotations

import asyncio
from typing import Any

from waterclock import AsyncWaterclock, Waterclock

#: Long, for a busy machine.
TIMEOUT = 20.0


class SyncFace:
    def __init__(self, url: str, **options: Any) -> None:
        self._client = Waterclock(url, **{"timeout": TIMEOUT, **options})

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        return getattr(self._client, verb)(*arguments, **options)

    def settle(self, reservation: Any, verb: str, *arguments: Any) -> None:
        getattr(reservation, verb)(*arguments)

    def notice(self) -> None:
        """Nothing to do: this client looks at a socket when it needs it."""

    def close(self) -> None:
        self._client.close()


class AsyncFace:
    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = AsyncWaterclock(url, **{"timeout": TIMEOUT, **options})

    def call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        async def call() -> Any:
            return await getattr(self._client, verb)(*arguments, **options)

        return self._loop.run_until_complete(call())

    def settle(self, reservation: Any, verb: str, *arguments: Any) -> None:
        self._loop.run_until_complete(getattr(reservation, verb)(*arguments))

    def notice(self) -> None:
        """Lets the loop read what has arrived, and the tasks that it wakes run."""
        for _ in range(5):
            self._loop.run_until_complete(asyncio.sleep(0))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()


FACES: dict[str, type[SyncFace | AsyncFace]] = {"sync": SyncFace, "async": AsyncFace}
TRANSPORTS = ("http", "resp")
