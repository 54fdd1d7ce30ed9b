"""The page answers those who know the token, only reads, and sends foreign text as JSON values alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from prime_lab_mcp.dashboard.page import FILES, STATIC
from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.lab.base.errors import LedgerError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Run
from tests.lab.evals.finished import episode, finished, mixed

pytestmark = pytest.mark.anyio
DATA = ("workspace", "environments", "evaluations", "runs", "spend")
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e\x07"


@pytest.fixture
def environment(lab: Lab) -> Path:
    folder = lab.workspace.root / "environments" / "sums"
    (folder / "sums").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "sums"\nversion = "0.1.0"\n', encoding="utf-8")
    (folder / "sums" / "__init__.py").write_text("A = 1\n", encoding="utf-8")
    return folder


def files_below(folder: Path) -> dict[str, int]:
    return {path.as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


async def test_data_needs_the_token_and_files_do_not(page: httpx.AsyncClient) -> None:
    for given in ({"Authorization": ""}, {"Authorization": "Bearer wrong"}):
        answers = [await page.get(f"/api/{name}", headers=given) for name in DATA]
        assert [answer.status_code for answer in answers] == [401] * len(DATA)
    assert [(await page.get(f"/api/{name}")).status_code for name in DATA] == [200] * len(DATA)
    assert (await page.get("/none", headers={"Authorization": ""})).status_code == 401
    assert [(await page.get(f"/{name}", headers={"Authorization": ""})).status_code for name in sorted(FILES)] == [
        200
    ] * len(FILES)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8000"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
    ],
    ids=["another name", "a longer name", "no name", "another origin"],
)
async def test_a_foreign_host_or_origin_is_refused_before_anything_else(
    page: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    assert [(await page.get(path, headers=headers)).status_code for path in ("/", "/app.js", "/api/spend")] == [403] * 3


async def test_the_page_of_this_server_may_ask(page: httpx.AsyncClient) -> None:
    answer = await page.get("/api/spend", headers={"Origin": "http://127.0.0.1:8000"})
    assert answer.status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_other_method_is_refused(page: httpx.AsyncClient, method: str) -> None:
    answers = [await page.request(method, path) for path in ("/", "/api/spend", "/api/runs/x")]
    assert [(a.status_code, a.headers["allow"]) for a in answers] == [(405, "GET, HEAD")] * 3


@pytest.mark.parametrize(
    "path",
    [
        "evaluations/eval-none",
        "evaluations/eval-none/rollouts",
        "evaluations/eval-none/rollouts/0",
        "evaluations/eval-none/zeros",
        "evaluations/eval-00000001/rollouts/999999",
        "evaluations/eval-00000001/compare/eval-none",
        "runs/run_none",
        "environments/none",
    ],
)
async def test_what_there_is_not_is_404(lab: Lab, page: httpx.AsyncClient, path: str) -> None:
    finished(lab, mixed(4))
    answer = await page.get(f"/api/{path}")
    assert (answer.status_code, set(answer.json())) == (404, {"error", "fix", "code"})


@pytest.mark.parametrize("path", ["/../page.py", "/..%2fpage.py", "/static/app.js", "/%2e%2e/%2e%2e/pyproject.toml"])
async def test_no_other_file_is_served(page: httpx.AsyncClient, path: str) -> None:
    assert (await page.get(path)).status_code == 404


@pytest.mark.parametrize("query", ["page=0", "page=-1", "page=x", "page=٣", "order=drop", "outcome=x", "task=-1"])
async def test_an_unusable_query_is_400(lab: Lab, page: httpx.AsyncClient, query: str) -> None:
    finished(lab, mixed(4))
    assert (await page.get(f"/api/evaluations/eval-00000001/rollouts?{query}")).status_code == 400


async def test_evaluations_of_another_workspace_are_not_shown(lab: Lab, page: httpx.AsyncClient) -> None:
    job = finished(lab, mixed(4))
    lab.ledger.update_job(job.id, workspace="/elsewhere")
    assert (await page.get(f"/api/evaluations/{job.id}")).status_code == 404
    assert (await page.get("/api/evaluations")).json()["total"] == 0


async def test_every_answer_has_the_headers_that_a_browser_enforces(page: httpx.AsyncClient) -> None:
    for path in ("/", "/app.js", "/api/spend", "/api/runs/none", "/none"):
        headers = (await page.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert (await page.get("/app.js")).headers["content-type"].startswith("text/javascript")


def test_the_scripts_write_no_html_and_fetch_nothing_from_elsewhere() -> None:
    text = {name: (STATIC / name).read_text(encoding="utf-8") for name in sorted(FILES)}
    words = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "//cdn",
        "style=",
    )
    assert [(name, word) for name, content in text.items() for word in words if word in content] == []
    outside = [name for name, content in text.items() if "http" in content.replace("http://www.w3.org/2000/svg", "")]
    assert outside == []


async def test_hostile_text_comes_as_json_values_without_invisible_characters(
    lab: Lab, page: httpx.AsyncClient
) -> None:
    finished(lab, [episode(0, 1.0, said=HOSTILE), episode(1, None)], model=HOSTILE)
    for path in ("", "/eval-00000001", "/eval-00000001/rollouts", "/eval-00000001/rollouts/0"):
        answer = await page.get(f"/api/evaluations{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert "\u202e" not in answer.text
        assert "<script>alert(2)" in json.dumps(answer.json())
    assert HOSTILE[:10] not in (await page.get("/")).text


async def test_a_key_in_a_rollout_is_not_shown(lab: Lab, page: httpx.AsyncClient, monkeypatch: Any) -> None:
    monkeypatch.setenv("SOME_API_KEY", "very-secret-value-1234")
    finished(lab, [episode(0, 1.0, said="it is very-secret-value-1234")])
    for path in ("rollouts", "rollouts/0"):
        assert "very-secret-value" not in (await page.get(f"/api/evaluations/eval-00000001/{path}")).text


async def test_no_request_writes_anything(lab: Lab, page: httpx.AsyncClient, environment: Path) -> None:
    job = finished(lab, mixed(8))
    finished(lab, mixed(8), id="eval-00000002", model="other")
    before = files_below(lab.settings.state_dir / "evals") | files_below(lab.workspace.root)
    paths = [
        *DATA,
        "environments/sums",
        *(
            f"evaluations/{job.id}{rest}"
            for rest in ("", "/rollouts", "/rollouts/0", "/zeros", "/compare/eval-00000002")
        ),
    ]
    assert [(path, (await page.get(f"/api/{path}")).status_code) for path in paths] == [(path, 200) for path in paths]
    assert files_below(lab.settings.state_dir / "evals") | files_below(lab.workspace.root) == before
    assert not lab.settings.snapshots.exists()


async def test_the_ledger_of_a_page_refuses_writes(reading: ReadingLab) -> None:
    with pytest.raises(LedgerError, match="readonly"):
        reading.ledger.record(Evidence("test_reward", "passed", reading.key))


async def test_an_environment_shows_its_gates_and_the_evidence_behind_each(
    lab: Lab, page: httpx.AsyncClient, environment: Path
) -> None:
    (listed,) = (await page.get("/api/environments")).json()["environments"]
    assert [(row["tool"], row["state"]) for row in listed["evidence"]][:2] == [
        ("check_environment", "never-run"),
        ("test_reward", "never-run"),
    ]
    snapshot = await lab.snapshot("sums")
    finding = {"code": "reward-constant", "severity": "blocker", "message": HOSTILE, "fix": "Mend it.", "rows": []}
    row = Evidence(
        "test_reward",
        "failed",
        lab.key,
        "sums",
        snapshot.source,
        snapshot.content,
        data={"cases": 8},
        findings=[finding],
    )
    lab.ledger.record(row)
    shown = (await page.get("/api/environments/sums")).json()
    step = shown["evidence"][1]
    assert (step["state"], step["verdict"]["facts"], step["verdict"]["findings"][0]["code"]) == (
        "failed",
        {"cases": 8},
        "reward-constant",
    )
    assert {gate["tool"]: gate["state"] for gate in shown["gates"]}["push_environment"] == "closed"
    assert {gate["tool"]: gate["unmet"] for gate in shown["gates"]}["push_environment"] == [
        {"tool": "check_environment", "state": "never-run"},
        {"tool": "test_reward", "state": "failed"},
        {"tool": "check_reward_distribution", "state": "never-run"},
    ]


async def test_an_environment_that_cannot_be_read_does_not_hide_the_others(
    lab: Lab, page: httpx.AsyncClient, environment: Path
) -> None:
    other = environment.with_name("big")
    other.mkdir()
    (other / "pyproject.toml").write_text('[project]\nname = "big"\nversion = "0.1.0"\n', encoding="utf-8")
    with (other / "big.py").open("wb") as file:
        file.truncate(600 * 2**20)
    listed = (await page.get("/api/environments")).json()["environments"]
    assert [(one["name"], "unreadable" in one) for one in listed] == [("big", True), ("sums", False)]


async def test_runs_and_spend_come_from_the_ledger(lab: Lab, page: httpx.AsyncClient) -> None:
    lab.ledger.record_run(Run("run_1", "training", "sums", lab.key, "key", lab.platform, max_cost=9.0))
    assert lab.ledger.reserve("key", 9.0, "submit", lab.platform, None)
    (listed,) = (await page.get("/api/runs")).json()["runs"]
    assert (listed["id"], listed["bound"]) == ("run_1", 9.0)
    assert (await page.get("/api/spend")).json()["total"]["counted"] == 9.0
