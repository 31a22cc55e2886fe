from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from waterclock import Unavailable

from .server import Server

CONFIGURATION = """
[server]
tls = { cert = "cert.pem", key = "key.pem" }
[policies.burst]
limits = ["5/h"]
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    openssl = shutil.which("openssl")
    assert openssl, "these tests make a certificate with openssl, which is not installed; install it"
    folder = tmp_path_factory.mktemp("certificate")
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("scheme", ["https", "rediss"])
def test_tls(scheme: str, certificate: Path, connect: Callable[..., Any]) -> None:
    with Server(CONFIGURATION, files=certificate) as server:
        url = f"{scheme}://127.0.0.1:{server.http if scheme == 'https' else server.resp}"
        trusting = ssl.create_default_context(cafile=certificate / "cert.pem")
        client = connect(url, tls=trusting)
        assert [client.call("check", "burst", "tls").remaining for _ in range(2)] == [4, 3]
        assert client.call("wait", "burst", "tls", within=1).remaining == 2
        with pytest.raises(Unavailable, match="certificate that is not trusted"):
            connect(url).call("check", "burst", "tls")


def test_tls_needs_an_address_that_has_it(connect: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="https:// or rediss://"):
        connect("redis://127.0.0.1:6380", tls=ssl.create_default_context())
