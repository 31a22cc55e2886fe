"""A real `waterclock serve` on ports of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

CLIENTS = Path(__file__).resolve().parents[2]
ADMIN_TOKEN = "vectors-admin"
CHECK_TOKEN = "vectors-check"
_PATIENCE = 30.0


def binary() -> Path:
    path = Path(os.environ.get("WATERCLOCK_BIN") or CLIENTS.parent / "target" / "debug" / "waterclock")
    if not path.is_file():
        raise FileNotFoundError(f"there is no server at {path}; build it with `cargo build`, or set WATERCLOCK_BIN")
    return path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Server:
    """Runs until the `with` block ends."""

    def __init__(
        self, configuration: str | None = None, files: Path | None = None, **environment: str
    ) -> None:
        """`files` is a folder that the server needs beside its configuration."""
        self._files, self._environment = files, environment
        self._configuration = configuration or (CLIENTS / "vectors.toml").read_text()
        self.http, self.resp = free_port(), free_port()

    def __enter__(self) -> Server:
        self._folder = tempfile.TemporaryDirectory(prefix="waterclock-python-")
        folder = Path(self._folder.name)
        if self._files is not None:
            shutil.copytree(self._files, folder, dirs_exist_ok=True)
        (folder / "waterclock.toml").write_text(self._configuration)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WATERCLOCK_")}
        environment["WATERCLOCK_HTTP"] = f"127.0.0.1:{self.http}"
        environment["WATERCLOCK_RESP"] = f"127.0.0.1:{self.resp}"
        environment["WATERCLOCK_GRPC"] = ""
        environment.update(self._environment)
        self._log = (folder / "log").open("w+")
        self._process = subprocess.Popen(
            [binary(), "serve", "-c", "waterclock.toml"],
            cwd=folder,
            env=environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        try:
            self._await_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def url(self, transport: str) -> str:
        return {"http": f"http://127.0.0.1:{self.http}", "resp": f"redis://127.0.0.1:{self.resp}"}[transport]

    def _await_ready(self) -> None:
        give_up = time.monotonic() + _PATIENCE
        while True:
            if self._process.poll() is not None or time.monotonic() > give_up:
                self._log.seek(0)
                raise RuntimeError(f"waterclock serve did not start:\n{self._log.read()}")
            try:
                socket.create_connection(("127.0.0.1", self.resp), timeout=1).close()
                socket.create_connection(("127.0.0.1", self.http), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
