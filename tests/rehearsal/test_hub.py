"""The real `prime env` against the Hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from tests.rehearsal.conftest import Platform
from tests.support.packages import pyproject

PYPROJECT = pyproject(
    "tiny-env", description="tiny", dependencies=["verifiers>=0.4.0"], wheel='packages = ["tiny_env"]'
)
HUB = "/api/v1/environmentshub"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    (folder / "tiny_env").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (folder / "README.md").write_text("# tiny\n", encoding="utf-8")
    (folder / "tiny_env" / "__init__.py").write_text("X = 1\n", encoding="utf-8")
    return folder


@pytest.mark.anyio
async def test_what_was_pushed_can_be_read_back_and_not_pushed_again(platform: Platform, tiny: Path) -> None:
    pushed = await platform.prime("env", "push", "--path", str(tiny), "--plain")
    assert "Successfully pushed rehearsal/tiny-env" in pushed.stdout, pushed.stdout
    pushes = 2
    found: dict[str, Any] = {}

    async def read(name: str, *arguments: str) -> None:
        found[name] = await platform.prime(*arguments)

    async with anyio.create_task_group() as group:
        group.start_soon(read, "again", "env", "push", "--path", str(tiny), "--plain")
        group.start_soon(read, "status", "env", "status", "rehearsal/tiny-env", "--output", "json")
        file = ("rehearsal/tiny-env@0.1.0", "tiny_env/__init__.py")
        group.start_soon(read, "inspect", "env", "inspect", *file, "-o", "json")
        target = str(platform.folder / "pulled")
        group.start_soon(read, "pull", "env", "pull", "rehearsal/tiny-env", "-t", target)

    assert "content hash" in found["again"].stdout
    assert "already exists" in found["again"].stdout
    assert found["again"].returncode == 1
    status = json.loads(found["status"].stdout)
    metadata = json.loads((tiny / ".prime" / ".env-metadata.json").read_text(encoding="utf-8"))
    assert status["id"] == metadata["environment_id"]
    assert status["latest_version"]["semantic_version"] == "0.1.0"
    assert len(status["latest_version"]["content_hash"]) == 64
    assert status["latest_version"]["runtime"] == "VERIFIERS_V1"
    assert json.loads(found["inspect"].stdout)["content"] == "X = 1\n"
    pulled = platform.folder / "pulled" / "tiny_env" / "__init__.py"
    assert pulled.read_text(encoding="utf-8") == "X = 1\n"
    assert len(await platform.requests("POST", "/wheels")) == pushes + 1  # one finalize among them


@pytest.mark.anyio
async def test_a_push_whose_last_answer_is_lost_was_published_once(platform: Platform, tiny: Path) -> None:
    await platform.tell("/rehearsal/faults", kind="drop-after", method="POST", path=r"/versions/ver_\w+/finalize")

    done = await platform.prime("env", "push", "--path", str(tiny), "--plain")
    status = await platform.json("env", "status", "rehearsal/tiny-env", "--output", "json")

    assert done.returncode == 1
    assert "RemoteProtocolError" in done.stdout
    assert status["latest_version"]["semantic_version"] == "0.1.0"


def test_names_of_other_owners_and_of_teams_without_rights_are_refused(client: TestClient) -> None:
    def resolve(**owner: str) -> Any:
        return client.post(f"{HUB}/resolve", json={"name": "mine", **owner})

    assert resolve(owner_slug="primeintellect").status_code == 403
    assert resolve(team_slug="rehearsal-guests").status_code == 403
    assert resolve(team_slug="nobody").status_code == 404
    assert resolve(team_slug="rehearsal-lab").json()["data"]["owner"]["name"] == "rehearsal-lab"
    assert client.delete(f"{HUB}/primeintellect/old-math").status_code == 403


def test_an_unfinished_push_leaves_no_version_and_can_be_repeated(client: TestClient) -> None:
    id = client.post(f"{HUB}/resolve", json={"name": "half"}).json()["data"]["id"]
    first = client.post(f"{HUB}/{id}/wheels", json={"content_hash": "c" * 64, "sha256": "x"})
    again = client.post(f"{HUB}/{id}/wheels", json={"content_hash": "c" * 64, "sha256": "x"})

    wheel = first.json()["data"]
    assert client.post(f"{HUB}/{id}/wheels/{wheel['wheel_id']}/finalize").status_code == 400
    client.put(wheel["upload_url"], content=b"not what was announced")
    assert client.post(f"{HUB}/{id}/wheels/{wheel['wheel_id']}/finalize").status_code == 422
    assert again.status_code == 200
    assert client.get(f"{HUB}/rehearsal/half/status").json()["data"]["latest_version"] is None


def test_a_private_environment_is_invisible_without_a_key(client: TestClient) -> None:
    client.post(f"{HUB}/resolve", json={"name": "secret", "visibility": "PRIVATE"})

    stranger = client.get(f"{HUB}/rehearsal/secret/status", headers={"Authorization": ""})

    assert stranger.status_code == 404
    assert client.get(f"{HUB}/rehearsal/secret/status").status_code == 200


@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        ("primeintellect/reverse-text", "VERIFIERS_V1"),
        ("primeintellect/old-math", "VERIFIERS_V0"),
        ("somebody/word-count", None),
    ],
)
def test_environments_of_other_owners_are_on_the_hub_with_their_runtime(
    client: TestClient, name: str, runtime: str | None
) -> None:
    details = client.get(f"{HUB}/{name}/@latest").json()["data"]

    assert details["runtime"] == runtime
    assert client.get(details["package_url"]).content[:2] == b"\x1f\x8b"
    assert client.get(details["wheel_url"]).content[:2] == b"PK"
    assert "rehearsal" in details["metadata"]["description"]


def test_search_finds_by_name_and_a_deleted_environment_is_gone(client: TestClient) -> None:
    found = client.get(f"{HUB}/", params={"search": "reverse"}).json()
    client.post(f"{HUB}/resolve", json={"name": "short-lived"})

    assert [e["name"] for e in found["data"]] == ["reverse-text"]
    assert found["data"][0]["latest_version"] == "0.2.0"
    assert client.delete(f"{HUB}/rehearsal/short-lived").status_code == 200
    assert client.get(f"{HUB}/rehearsal/short-lived/status").status_code == 404
