"""Keys that would be published inside a package, in files of every kind and written in every way."""

from __future__ import annotations

import base64
import bz2
import dataclasses
import gzip
import io
import json
import lzma
import pickle
import random
import string
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.named_credentials import find_named
from prime_lab_mcp.lab.environment import package
from prime_lab_mcp.lab.environment.credentials import secrets_in_files
from prime_lab_mcp.lab.environment.file_texts import MAX_UNPACKED, file_texts
from prime_lab_mcp.lab.evals.upload import write_upload
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder
from tests.lab.environment.package_texts import README, V1, pyproject
from tests.lab.evals.finished import SPEC, episode

RANDOM = random.Random(11)
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def drawn(length: int, alphabet: str = ALNUM) -> str:
    return "".join(RANDOM.choice(alphabet) for _ in range(length - 4)) + ("7f3b" if alphabet == HEX else "k7R2")


KEY = "sk-proj-" + drawn(60)
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(drawn(64) for _ in range(8)) + "\n-----END RSA PRIVATE KEY-----\n"


def zipped(text: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner/settings.ini", text)
    return made.getvalue()


def said(tmp_path: Path, path: str, data: bytes) -> list[str]:
    """The severities of what is said of keys in a package that is sound but for one file."""
    files = {"pyproject.toml": pyproject().encode(), "README.md": README.encode(), "thing.py": V1.encode(), path: data}
    for name, contents in files.items():
        place = tmp_path / "environment" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(contents)
    folder = EnvironmentFolder("thing", tmp_path / "environment", "environments/thing")
    taken = take_snapshot(folder, tmp_path / "store")
    assert path in taken.files
    return [finding.severity for finding in secrets_in_files(package.read_package(taken))]


FILES: dict[str, Callable[[str], bytes]] = {
    "thing_data/rows.csv": lambda key: f"q,a\nwhat,{key}\n".encode(),
    "thing_data/page.html": lambda key: f"<p>{key}</p>".encode(),
    "thing_data/notes.MD": str.encode,
    "thing_data/id": str.encode,
    "thing_data/app.js": lambda key: f"const k = '{key}'".encode(),
    "thing_data/n.ipynb": lambda key: json.dumps(
        {"cells": [{"source": [f"k = ('{key[:20]}'\n", f"     '{key[20:]}')"]}]}
    ).encode(),
    "thing_data/rows.pkl": lambda key: pickle.dumps({"k": key}),
    "thing_data/rows.db": lambda key: b"SQLite\0\1\2" + key.encode() + b"\0",
    "thing_data/rows.jsonl.gz": lambda key: gzip.compress(key.encode()),
    "thing_data/rows.bz2": lambda key: bz2.compress(key.encode()),
    "thing_data/rows.xz": lambda key: lzma.compress(key.encode()),
    "thing_data/book.xlsx": zipped,
    "thing_data/wide.json": lambda key: json.dumps(key).encode("utf-16"),
    "thing_data/escaped.json": lambda key: ('"' + "".join(f"\\u{ord(c):04x}" for c in key) + '"').encode(),
    "thing_data/long.jsonl": lambda key: b"{}\n" * 900_000 + key.encode(),
    "thing_parts.py": lambda key: f"K = ('{key[:20]}'\n     '{key[20:]}')\n".encode(),
    "thing_sum.py": lambda key: f"A = '{key[:20]}'\nK = A + '{key[20:]}'\n".encode(),
    "thing_join.py": lambda key: f"K = ''.join(['{key[:9]}', '{key[9:30]}', '{key[30:]}'])\n".encode(),
    "thing_back.py": lambda key: f"K = '{key[:20]}\\\n{key[20:]}'\n".encode(),
    "thing_turned.py": lambda key: f"K = '{key[::-1]}'[::-1]\n".encode(),
    "thing_data/lines.txt": lambda key: "\n".join(key[at : at + 12] for at in range(0, len(key), 12)).encode(),
    "thing_data/parts.json": lambda key: json.dumps([key[:15], key[15:30], key[30:]], indent=1).encode(),
    "thing_data/hex.txt": lambda key: key.encode().hex().encode(),
    "thing_data/entities.html": lambda key: "".join(f"&#{ord(c)};" for c in key).encode(),
    "thing_data/percent.txt": lambda key: "".join(f"%{ord(c):02x}" for c in key).encode(),
    "thing_data/unseen.txt": lambda key: "\u200b".join(key.replace("-", "\u2011")).encode(),
    "thing_data/twice.txt": lambda key: base64.b64encode(base64.b64encode(gzip.compress(key.encode()))),
    "thing_numbers.py": lambda key: f"K = bytes({list(key.encode())}).decode()\n".encode(),
    "thing_coded.py": lambda key: f"K = b64decode('{base64.b64encode(key.encode()).decode()}')\n".encode(),
}


@pytest.mark.parametrize("path", FILES)
def test_a_key_is_found_in_a_file_of_any_kind(tmp_path: Path, path: str) -> None:
    assert said(tmp_path, path, FILES[path](KEY)) == ["blocker"]


@pytest.mark.parametrize("path", ["thing_data/id_rsa", "thing_data/server.pem", "thing_data/keys.csv"])
def test_a_private_key_is_found_in_a_file_of_any_name(tmp_path: Path, path: str) -> None:
    assert said(tmp_path, path, PEM.encode()) == ["blocker"]


def test_a_key_in_the_name_of_a_file_is_found(tmp_path: Path) -> None:
    assert said(tmp_path, f"thing_data/{KEY}.txt", b"x") == ["blocker"]


NAMED = {
    "hex": f"API_KEY = '{drawn(32, HEX)}'",
    "letters": f'"client_secret": "{drawn(40)}"',
    "environment": f"MISTRAL_API_KEY={drawn(32)}",
    "token": f"os.environ['CLOUDFLARE_API_TOKEN'] = '{drawn(40)}'",
    "argument": f"Client(api_key='{drawn(40)}')",
    "bearer": f"headers = {{'Authorization': 'Bearer {drawn(43)}'}}",
    "basic": f"Authorization: Basic {base64.b64encode(b'me:' + drawn(20).encode()).decode()}",
    "query": f"https://api.x.io/v1?model=a&api_key={drawn(32)}",
    "signed": f"https://x.blob.core.windows.net/c?sv=2022&sig={drawn(43)}%3D",
    "user": f"https://{drawn(40, HEX)}@github.com/x/y.git",
    "netrc": f"machine api.x.com\n  login me\n  password {drawn(24)}",
    "telegram": f"bot = '123987456:AA{drawn(33)}'",
    "mailchimp": f"'{drawn(32, HEX)}-us12'",
    "kaggle": json.dumps({"username": "bob", "key": drawn(32, HEX)}),
    "docker": json.dumps({"auths": {"x.io": {"auth": base64.b64encode(drawn(24).encode()).decode()}}}),
    "web key": json.dumps({"kty": "RSA", "d": drawn(340)}),
    "putty": "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n" + drawn(48),
    "wallet": f"PRIVATE_KEY='0x{drawn(64, HEX)}'",
}


@pytest.mark.parametrize("text", NAMED.values(), ids=NAMED)
def test_a_random_value_that_is_named_as_a_key_is_found(tmp_path: Path, text: str) -> None:
    assert said(tmp_path / "a", "thing_data/settings.ini", text.encode()) == ["blocker"]
    assert said(tmp_path / "b", "thing_data/rows.jsonl", text.encode()) == ["warning"]


@pytest.mark.parametrize(
    "text",
    [
        "api_key = os.environ['OPENAI_API_KEY']",
        "api_key=settings.openai_api_key_2024_production",
        "api_key: str | None = None",
        'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")',
        'eos_token = "<|endoftext|>", pad_token_id=151643',
        'API_KEY = "your-api-key-goes-here-12345"',
        'access_token = "xxxxxxxxxxxxxxxxxxxxxxxx1234"',
        'api_key_var = "PRIME_INTELLECT_API_KEY_V2_2025"',
        '"secret_key": "the-quick-brown-fox-jumps-over-13-dogs"',
        'revision = "e53f048856ff4f594e959d75785d2c2d37b678ee"',
        "https://huggingface.co/datasets/openai/gsm8k?sort=key&token=abc",
        'primary_key="customer_2024_order_identifier"',
        "Bearer tokens are sent in the header.",
        '{"question": "What is the secret_token of the message?", "answer": "42"}',
    ],
)
def test_what_only_speaks_of_keys_is_none(text: str) -> None:
    assert list(find_named(text)) == []


def test_uploaded_rollouts_hold_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tool replied may hold a variable that the environment was given."""
    given = "plain-words-that-are-a-secret"
    monkeypatch.setenv("JUDGE_API_KEY", given)
    results = tmp_path / "results.jsonl"
    episodes = [episode(n, 1.0, f'The key is "{KEY}", and {given}.\nDone.') for n in range(2)]
    results.write_text("".join(json.dumps(one) + "\n" for one in episodes), encoding="utf-8")
    spec = dataclasses.replace(SPEC, env_args={"token": KEY})
    assert write_upload(spec, results, tmp_path / "upload", "me/sums", {}) == 2
    rows = [json.loads(line) for line in (tmp_path / "upload" / "results.jsonl").read_text("utf-8").splitlines()]
    assert "Done." in rows[0]["completion"][-1]["content"]
    written = "".join(path.read_text("utf-8") for path in (tmp_path / "upload").iterdir())
    assert KEY not in written
    assert given not in written


def test_archives_are_unpacked_up_to_a_bound(tmp_path: Path) -> None:
    bomb = gzip.compress(b"0" * (MAX_UNPACKED + 1_000_000), 1)
    assert said(tmp_path, "thing_data/bomb.gz", bomb) == []
    assert [len(text) for text in file_texts("bomb.gz", bomb)][-1] <= MAX_UNPACKED
    assert said(tmp_path, "thing_data/broken.zip", b"PK\x03\x04" + b"\0" * 100) == []
