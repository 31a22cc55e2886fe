"""The package as users get it: typed, built, and installed without its frameworks."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def test_types() -> None:
    subprocess.run([sys.executable, "-m", "mypy", "--strict", "src", "tests"], cwd=HERE, check=True)


def test_style() -> None:
    for command in (["check"], ["format", "--check"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--quiet", "src", "tests"], cwd=HERE, check=True)


def test_wheel_and_sdist(tmp_path: Path) -> None:
    # The build tools of this environment: no network is needed.
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(HERE)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {"LICENSE-MIT", "LICENSE-APACHE", "README.md", "src/waterclock/py.typed"} <= names

    venv.create(tmp_path / "venv", with_pip=True)
    folder = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    python = str(folder / "python")
    subprocess.run([python, "-m", "pip", "install", "--no-index", "--quiet", str(wheel)], check=True)
    program = """
import importlib.metadata, importlib.resources, waterclock
assert importlib.metadata.version("waterclock") == "0.1.0"
assert not [line for line in importlib.metadata.requires("waterclock") if "extra ==" not in line]
assert (importlib.resources.files("waterclock") / "py.typed").is_file()
print(waterclock.Waterclock("http://127.0.0.1:8080"), waterclock.AsyncWaterclock("redis://127.0.0.1:6380"))
"""
    subprocess.run([python, "-c", program], check=True, cwd=tmp_path)
