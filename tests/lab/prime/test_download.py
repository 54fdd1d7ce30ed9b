"""A published wheel is fetched from its address or from a package index, and from nowhere else."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from prime_lab_mcp.lab.prime import download
from prime_lab_mcp.lab.prime.refusals import PrimeRefusal

from .test_client import NEW, real, stand_in

pytestmark = pytest.mark.anyio
WHEEL = "my_sums-0.2.0-py3-none-any.whl"
PAGE = f"""\
<a href="my_sums-0.1.0-py3-none-any.whl">0.1.0</a> <a href="my-sums-0.2.0.tar.gz">source</a>
<a href="../../files/{WHEEL}?a=1&amp;b=2#sha256=x">0.2.0</a>
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package index with one project on loopback."""
    for path, text in (("simple/my-sums/index.html", PAGE), (f"files/{WHEEL}", "the wheel")):
        (tmp_path / "www" / path).parent.mkdir(parents=True)
        (tmp_path / "www" / path).write_text(text, encoding="utf-8")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(tmp_path / "www")))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


async def fetched(tmp_path: Path, command: str) -> Path | None:
    """What is fetched where `prime env info` prints this install command."""
    stand_in(tmp_path / "bin" / "a", NEW + f"print('To install:\\n  $ uv pip install {command}')")
    return await real(tmp_path).env_wheel("o/n@0.2.0", tmp_path / "sums.whl")


@pytest.mark.parametrize("command", [f"{{}}/files/{WHEEL}", "My.Sums==0.2.0 --extra-index-url {}/simple/"])
async def test_a_wheel_is_fetched_from_its_address_or_its_index(tmp_path: Path, index: str, command: str) -> None:
    found = await fetched(tmp_path, command.format(index))
    assert found is not None
    assert found.read_bytes() == b"the wheel"


async def test_a_private_environment_has_no_wheel(tmp_path: Path) -> None:
    assert await fetched(tmp_path, "-e .") is None


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("my-sums==0.3.0 --extra-index-url {}/simple", "the index lists no such wheel"),
        ("other==0.2.0 --extra-index-url {}/simple", "404"),
        (f"{{}}/files/{WHEEL}", "the wheel is too large"),
    ],
)
async def test_a_wheel_that_is_not_there_or_too_large_is_refused(
    tmp_path: Path, index: str, command: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_MAX_BYTES", 3)
    with pytest.raises(PrimeRefusal, match=words):
        await fetched(tmp_path, command.format(index))
