"""A real `waterclock serve` on ports of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

CLIENTS = Path(__file__).resolve().parents[2]
ADMIN_TOKEN = "vectors-admin"
CHECK_TOKEN = "vectors-check"
#: What the server does without a file.
DEMONSTRATION = "demonstration"
_PATIENCE = 30.0


def binary() -> Path:
    path = Path(os.environ.get("WATERCLOCK_BIN") or CLIENTS.parent / "target" / "debug" / "waterclock")
    if not path.is_file():
        raise FileNotFoundError(f"there is no server at {path}; build it with `cargo build`, or set WATERCLOCK_BIN")
    return path.resolve()


class Server:
    """Runs until the `with` block ends."""

    http: int
    resp: int

    def __init__(self, configuration: str | None = None, files: Path | None = None, **environment: str) -> None:
        """`files` is a folder that the server needs beside its configuration, which may be `DEMONSTRATION`."""
        self._configuration = configuration or (CLIENTS / "vectors.toml").read_text()
        self._files, self._environment = files, environment

    def __enter__(self) -> Server:
        command = [str(binary()), "serve", "--log", "json"]
        command += ["--demo"] if self._configuration == DEMONSTRATION else ["-c", "waterclock.toml"]
        self._temporary = tempfile.TemporaryDirectory(prefix="waterclock-python-")
        folder = Path(self._temporary.name)
        if self._files is not None:
            shutil.copytree(self._files, folder, dirs_exist_ok=True)
        (folder / "waterclock.toml").write_text(self._configuration)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WATERCLOCK_")}
        environment |= {"WATERCLOCK_HTTP": "127.0.0.1:0", "WATERCLOCK_RESP": "127.0.0.1:0", "WATERCLOCK_GRPC": ""}
        environment |= self._environment
        self._log = folder / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            self._read_ports()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._temporary.cleanup()

    def url(self, transport: str) -> str:
        return {"http": f"http://127.0.0.1:{self.http}", "resp": f"redis://127.0.0.1:{self.resp}"}[transport]

    def _read_ports(self) -> None:
        """The server chooses its ports and logs them when it listens."""
        give_up = time.monotonic() + _PATIENCE
        while True:
            ended = self._process.poll() is not None
            log = self._log.read_text()
            ports = dict(_listening(line) for line in log.splitlines() if '"listening"' in line)
            if ports.keys() >= {"http", "resp"}:
                self.http, self.resp = ports["http"], ports["resp"]
                return
            if ended or time.monotonic() > give_up:
                raise RuntimeError(f"waterclock serve did not start:\n{log}")
            time.sleep(0.01)


def _listening(line: str) -> tuple[str, int]:
    fields = json.loads(line)["fields"]
    return fields["protocol"], int(fields["address"].rpartition(":")[2])
