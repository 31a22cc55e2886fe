"""Every code block of the README runs: the first with the demonstration, the others with the server of its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import RequestFactory, override_settings
from starlette.testclient import TestClient

from waterclock import AsyncWaterclock, Waterclock

from . import django_settings  # noqa: F401
from .clients import TIMEOUT
from .server import CLIENTS, DEMONSTRATION, Server

README = (CLIENTS / "python" / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
TOKEN = "readme-token"


@pytest.fixture(scope="module")
def readme_server() -> Iterator[Server]:
    (configuration,) = [text for language, text in BLOCKS if language == "toml"]
    with Server(configuration, WATERCLOCK_TOKEN=TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def demonstration() -> Iterator[Server]:
    with Server(DEMONSTRATION) as server:
        yield server


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of the examples, and patience for a busy machine."""
    monkeypatch.setenv("WATERCLOCK_TOKEN", TOKEN)
    for client in (Waterclock, AsyncWaterclock):
        defaults = client.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "timeout", TIMEOUT)


def ask_fastapi(names: dict[str, Any]) -> None:
    """As the console shows it."""
    (console,) = [text for language, text in BLOCKS if language == "console"]
    command, *printed = console.splitlines()
    asked = re.fullmatch(r"\$ for i in ([\d ]+); do curl http://127.0.0.1:8000(\S+) -d '(.*)'; echo; done", command)
    assert asked
    times, path, data = asked.groups()
    form = {"content-type": "application/x-www-form-urlencoded"}
    web = TestClient(names["app"])
    answers = [web.post(path, content=data, headers=form) for _ in times.split()]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    assert [without_seconds(answer.text) for answer in answers] == [without_seconds(line) for line in printed]
    assert {"ratelimit", "ratelimit-policy", "retry-after"} <= answers[-1].headers.keys()


def without_seconds(text: str) -> str:
    return re.sub(r"in \d+ s", "in … s", text)


def ask_starlette(names: dict[str, Any]) -> None:
    answers = [TestClient(names["app"]).get("/") for _ in range(6)]
    assert [answer.text for answer in answers] == ["4 left", "3 left", "2 left", "1 left", "0 left", "slow down"]
    assert "retry-after" in answers[-1].headers


def ask_flask(names: dict[str, Any]) -> None:
    web = names["app"].test_client()
    answers = [web.post("/signin", data={"name": "flask"}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]


def ask_slowapi(names: dict[str, Any]) -> None:
    answers = [TestClient(names["app"]).get("/") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]


def ask_flask_limiter(names: dict[str, Any]) -> None:
    answers = [names["app"].test_client().get("/") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]


#: What to do with the application that a block defines, by a word that only this block has.
ASK: dict[str, Callable[[dict[str, Any]], None]] = {
    "RateLimit, RateLimitMiddleware": ask_fastapi,
    "Starlette(": ask_starlette,
    "waterclock.flask": ask_flask,
    "slowapi": ask_slowapi,
    "flask_limiter": ask_flask_limiter,
}

#: What other blocks print, as regular expressions, by a word that only this block has.
PRINTS = {
    'waterclock.check("signin", "alice")\nif': r"welcome; 4 more\n",
    "check_all": r"True \[4, \d+\]\n",
    "Refused": r"\{'requests': 999, 'tokens': 993\d\d\}\n",
    "timeout=0.25": r"True unavailable\n",
    "asyncio.run": r"5 of 100 pass\n",
    "put_policy": r"\{'factor': 0.5, 'expires_in_us': \d+\}\n\{.*'name': 'signup'.*\}\n",
}

DEMO = 'check("demo", "alice")'
DJANGO_SETTINGS, DJANGO_VIEW = "MIDDLEWARE = [", "waterclock.django import"


def run(text: str, server: Server) -> dict[str, Any]:
    for documented, actual in (("8080", server.http), ("6380", server.resp)):
        text = text.replace(f"127.0.0.1:{documented}", f"127.0.0.1:{actual}")
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(text, "README.md", "exec"), names)
    return names


def test_blocks_are_known() -> None:
    words = [*ASK, *PRINTS, DEMO, DJANGO_SETTINGS, DJANGO_VIEW]
    for language, text in BLOCKS:
        assert language in ("toml", "python", "console")
        assert language != "python" or sum(word in text for word in words) == 1, f"no test runs this block:\n{text}"


@pytest.mark.parametrize("word", ASK)
def test_applications(word: str, readme_server: Server) -> None:
    (text,) = [text for _, text in BLOCKS if word in text]
    ASK[word](run(text, readme_server))


@pytest.mark.parametrize("word", PRINTS)
def test_programs(word: str, readme_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = [text for _, text in BLOCKS if word in text]
    run(text, readme_server)
    assert re.fullmatch(PRINTS[word], capsys.readouterr().out)


def test_demonstration(demonstration: Server, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = [text for _, text in BLOCKS if DEMO in text]
    run(text, demonstration)
    assert capsys.readouterr().out == "True 4\n"


def test_django(readme_server: Server) -> None:
    (settings_text,) = [text for _, text in BLOCKS if DJANGO_SETTINGS in text]
    (view_text,) = [text for _, text in BLOCKS if DJANGO_VIEW in text]
    settings = run(settings_text, readme_server)
    with override_settings(MIDDLEWARE=settings["MIDDLEWARE"], WATERCLOCK=settings["WATERCLOCK"]):
        view = run(view_text, readme_server)["signin"]
        answers = [view(RequestFactory().post("/", {"name": "django"})) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    assert answers[0].content == b"4 more"
