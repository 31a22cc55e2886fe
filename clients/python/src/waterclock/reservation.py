"""Reservations as context managers: settled when the block ends, however it ends."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from . import calls
from .calls import Reserved
from .decision import Cost, Decision
from .errors import Unavailable, WaterclockError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from .async_client import AsyncWaterclock
    from .client import Waterclock


class _Settleable:
    def __init__(self, reserved: Reserved) -> None:
        #: The server's id, or the caller's own. None if the server could not be asked and the client allowed it.
        self.id = reserved.id
        self.decision: Decision = reserved.decision
        #: A settlement was tried. If it failed, the block's end must not try another: work that was done stays charged.
        self._settled = reserved.id is None


class Reservation(_Settleable):
    """Units that are set aside until `commit` or `cancel`.

    As a context manager it settles itself: a block that ends without a commit keeps the estimate charged, a block that
    raises cancels the reservation.
    """

    def __init__(self, client: Waterclock, reserved: Reserved) -> None:
        super().__init__(reserved)
        self._client = client

    def commit(self, cost: Cost) -> None:
        """Charges what was used: gives the rest back, or charges what is missing. Can be repeated."""
        self._settled = True
        if self.id is not None:
            self._client._ask(calls.commit(self.id, cost))

    def cancel(self) -> None:
        """Gives everything back. Can be repeated."""
        self._settled = True
        if self.id is not None:
            self._client._ask(calls.cancel(self.id))

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._settled:
            return
        if kind is None:
            try:
                self.commit(self.decision.cost)
            except Unavailable:
                # A client that goes on without the server goes on here, too: the units stay charged, or expire.
                if self._client._on_unavailable == "raise":
                    raise
        else:
            # The block's own exception matters more; the reservation expires.
            with suppress(WaterclockError):
                self.cancel()


class AsyncReservation(_Settleable):
    """Units that are set aside until `commit` or `cancel`.

    As a context manager it settles itself: a block that ends without a commit keeps the estimate charged, a block that
    raises cancels the reservation.
    """

    def __init__(self, client: AsyncWaterclock, reserved: Reserved) -> None:
        super().__init__(reserved)
        self._client = client

    async def commit(self, cost: Cost) -> None:
        """Charges what was used: gives the rest back, or charges what is missing. Can be repeated."""
        self._settled = True
        if self.id is not None:
            await self._client._ask(calls.commit(self.id, cost))

    async def cancel(self) -> None:
        """Gives everything back. Can be repeated."""
        self._settled = True
        if self.id is not None:
            await self._client._ask(calls.cancel(self.id))

    async def __aenter__(self) -> AsyncReservation:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._settled:
            return
        if kind is None:
            try:
                await self.commit(self.decision.cost)
            except Unavailable:
                # A client that goes on without the server goes on here, too: the units stay charged, or expire.
                if self._client._on_unavailable == "raise":
                    raise
        else:
            # The block's own exception matters more; the reservation expires.
            with suppress(WaterclockError):
                await self.cancel()


class Reserving:
    """What `AsyncWaterclock.reserve` returns: await it, or enter it with `async with`."""

    def __init__(self, reserving: Coroutine[Any, Any, AsyncReservation]) -> None:
        self._reserving = reserving

    def __await__(self) -> Generator[Any, None, AsyncReservation]:
        return self._reserving.__await__()

    async def __aenter__(self) -> AsyncReservation:
        self._entered = await self._reserving
        return self._entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._entered.__aexit__(kind, error, trace)
