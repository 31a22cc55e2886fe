"""Where the server is, and how to speak to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_PORTS = {"http": 80, "https": 443, "redis": 6380, "rediss": 6380}


@dataclass(frozen=True)
class Address:
    """The parts of a URL such as `redis://:token@127.0.0.1:6380`."""

    scheme: str
    host: str
    port: int
    #: In front of the paths of HTTP, without a slash at its end.
    prefix: str
    token: str | None = field(repr=False)
    tls: ssl.SSLContext | None = field(repr=False)

    @property
    def speaks_http(self) -> bool:
        return self.scheme in ("http", "https")

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"


def parse(url: str, token: str | None, tls: ssl.SSLContext | None) -> Address:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(
            f"{_without_password(url)!r} is no address of a Waterclock server; "
            "write http://HOST:8080, https://HOST, redis://HOST:6380 or rediss://HOST:6380"
        )
    if token is None and parts.password:
        token = unquote(parts.password)
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError("the token has characters other than printable ASCII; was it read with its newline?")
    if parts.scheme in ("https", "rediss"):
        tls = tls or ssl.create_default_context()
    elif tls is not None:
        raise ValueError(f"{parts.scheme}:// has no TLS; write https:// or rediss://, or leave out `tls`")
    return Address(
        scheme=parts.scheme,
        host=parts.hostname,
        port=_PORTS[parts.scheme] if parts.port is None else parts.port,
        prefix=parts.path.rstrip("/") if parts.scheme in ("http", "https") else "",
        token=token,
        tls=tls,
    )


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return scheme + separator + rest.rpartition("@")[2]
