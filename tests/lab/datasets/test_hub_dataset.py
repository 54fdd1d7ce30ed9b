"""The dataset program against a loopback stand-in of the Hugging Face Hub, with the real `datasets`."""

from __future__ import annotations

import functools
import hashlib
import importlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.datasets import reading
from prime_lab_mcp.lab.datasets.reading import inspect_source
from prime_lab_mcp.lab.datasets.scan import DatasetRequest
from prime_lab_mcp.lab.lab import Lab

pytestmark = pytest.mark.anyio
COMMIT = "740312add88f781978c0658806c59bc2815b9866"
CARD = b"""---
configs:
- config_name: main
  data_files: [{split: train, path: main/train-*}, {split: test, path: main/test-*}]
- config_name: socratic
  data_files: [{split: train, path: socratic/train-*}]
---
"""


def parquet(number: int, start: int) -> bytes:
    pa: Any = importlib.import_module("pyarrow")
    sink = io.BytesIO()
    rows = [{"question": f"What is {n} and {n}?", "answer": f"#### {2 * n}"} for n in range(start, start + number)]
    importlib.import_module("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


@functools.cache
def files() -> dict[str, bytes]:
    """The files of the dataset; pyarrow is imported for them, so not while tests are collected."""
    return {
        "README.md": CARD,
        "main/train-0.parquet": parquet(3000, 1000),
        "main/test-0.parquet": parquet(40, 50_000),
        "socratic/train-0.parquet": parquet(10, 0),
    }


LOGINS: set[str | None] = set()
"""What clients said of who they are."""


class Hub(BaseHTTPRequestHandler):
    """Just what `datasets` asks for: the dataset's info, its tree, and its files by range."""

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        LOGINS.add(self.headers.get("Authorization"))
        path = unquote(urlparse(self.path).path)
        if "/me/sums" not in path:
            return self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if "/resolve/" in path:
            return self.file(path.split("/resolve/")[1].partition("/")[2])
        if "/tree/" in path:
            return self.answer(200, json.dumps(self.tree(path.split("/tree/")[1].partition("/")[2])).encode())
        stamp = "2024-01-01T00:00:00.000Z"
        info = {
            "id": "me/sums",
            "sha": COMMIT,
            "private": False,
            "siblings": [{"rfilename": f} for f in files()],
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "lastModified": stamp,
            "createdAt": stamp,
        }
        return self.answer(200, json.dumps(info).encode())

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        found = [f for f in files() if f in unquote(asked)]
        self.answer(200, json.dumps([self.entry(f) for f in found]).encode())

    def tree(self, under: str) -> list[dict[str, Any]]:
        inside = [f for f in files() if f.startswith(under)]
        if "recursive=true" in self.path.lower():
            return [self.entry(f) for f in inside]
        start = len(under.rstrip("/")) + 1 if under else 0
        names = dict.fromkeys(f[:start] + f[start:].split("/")[0] for f in inside)
        return [self.entry(n) for n in names]

    def entry(self, path: str) -> dict[str, Any]:
        body = files().get(path)
        oid = hashlib.sha1(body or b"").hexdigest()
        return {"type": "directory" if body is None else "file", "path": path, "size": len(body or b""), "oid": oid}

    def file(self, path: str) -> None:
        body = files().get(path)
        if body is None:
            return self.answer(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        headers = {"ETag": hashlib.sha1(body).hexdigest(), "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if not wanted:
            return self.answer(200, body, headers)
        first, _, last = wanted.partition("-")
        part = body[int(first) : int(last) + 1 if last else None]
        headers["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(body)}"
        return self.answer(206, part, headers)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    files()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield
    server.shutdown()
    server.server_close()


async def test_both_splits_are_streamed_at_the_commit_that_the_hub_names(lab: Lab) -> None:
    found = await inspect_source(lab, DatasetRequest("me/sums", config="main", whole=True))
    table = found.table
    assert (table.revision, table.config) == (COMMIT, "main")
    assert table.splits == (("train", 3000), ("test", 40))
    assert table.held_out is not None
    assert (table.main.scanned, table.held_out.scanned) == (3000, 40)
    assert table.main.rows[0] == (0, {"question": "What is 1000 and 1000?", "answer": "#### 2000"})


async def test_the_judgement_made_beside_the_rows_comes_back_whole(lab: Lab) -> None:
    found = await inspect_source(lab, DatasetRequest("me/sums", config="main"))
    assert (found.format, found.prompt and found.prompt.columns) == ("gsm8k_hash", ("question",))
    assert found.as_json()["rows_judged"] == 3000
    assert "unpinned-dataset" in {f.code for f in found.findings}
    assert found.table.main.rows == ()


async def test_rows_that_came_before_the_time_was_up_are_judged_and_the_cut_is_said(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "HUB_SECONDS", 0.0)
    found = await inspect_source(lab, DatasetRequest("me/sums", config="main"))
    assert found.as_json()["rows_scanned"] == 1024
    assert found.table.splits[0] == ("train", None)
    assert [f.severity for f in found.findings if f.code == "partly-scanned"] == ["info"]


async def test_a_dataset_with_several_configs_needs_one_named(lab: Lab) -> None:
    with pytest.raises(LabError) as refused:
        await inspect_source(lab, DatasetRequest("me/sums"))
    assert refused.value.code == "config-needed"
    assert '"main", "socratic"' in refused.value.message


async def test_a_config_that_is_not_there_is_refused_with_those_that_are(lab: Lab) -> None:
    with pytest.raises(LabError) as refused:
        await inspect_source(lab, DatasetRequest("me/sums", config="mian"))
    assert refused.value.code == "unknown-config"
    assert '"main", "socratic"' in refused.value.message


async def test_a_split_that_is_not_there_is_refused_with_those_that_are(lab: Lab) -> None:
    with pytest.raises(LabError) as refused:
        await inspect_source(lab, DatasetRequest("me/sums", config="main", split="dev"))
    assert refused.value.code == "unknown-split"
    assert '"train", "test"' in refused.value.fix


async def test_a_dataset_the_hub_does_not_have_is_not_found(lab: Lab) -> None:
    with pytest.raises(LabError) as refused:
        await inspect_source(lab, DatasetRequest("me/other"))
    assert refused.value.code == "hub-not-found"


async def test_the_users_own_login_goes_to_the_hub(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    LOGINS.clear()
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnop")
    await inspect_source(lab, DatasetRequest("me/sums", config="main"))
    assert "Bearer hf_abcdefghijklmnop" in LOGINS


async def test_without_a_network_the_report_says_what_to_do(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(LabError) as refused:
        await inspect_source(lab, DatasetRequest("me/sums", config="main"))
    assert refused.value.code == "hub-unreachable"
    assert "workspace" in refused.value.fix


async def test_a_revision_that_is_given_is_pinned(lab: Lab) -> None:
    found = await inspect_source(lab, DatasetRequest("me/sums", config="main", revision=COMMIT))
    assert "unpinned-dataset" not in {f.code for f in found.findings}
