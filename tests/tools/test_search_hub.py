"""Looking around on the Hub: what a name is, what can be trained, what it costs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from prime_lab_mcp.lab import hub
from prime_lab_mcp.lab.records import Evidence
from prime_lab_mcp.tools.search_hub import TOOL
from tests.tools.loopback import Desk, desk

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("hub")) as opened:
        yield opened


async def test_a_v1_environment_is_trainable_and_pinned_in_what_to_call_next(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="environment", query="primeintellect/reverse-text")
    assert outcome.status == "passed"
    data = outcome.data
    assert (data["kind"], data["runtime"], data["trainable"], data["versions"]) == (
        "environment", "v1", True, ["0.2.0", "0.1.0"],
    )  # fmt: skip
    assert len(data["content_hash"]) == 64
    assert outcome.next[0].arguments == {"environments": ["primeintellect/reverse-text@0.2.0"]}


async def test_a_v0_environment_is_not_trainable_and_says_why(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="environment", query="primeintellect/old-math")
    assert (outcome.data["runtime"], outcome.data["trainable"]) == ("v0", False)
    assert "v0" in outcome.data["why"]


async def test_an_unlabelled_environment_is_of_unknown_generation(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="environment", query="somebody/word-count")
    assert outcome.data["trainable"] is None


async def test_a_version_that_is_not_there_fails_with_those_that_are(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="environment", query="primeintellect/reverse-text@9.9.9")
    assert (outcome.status, outcome.blockers[0].code) == ("failed", "version-not-found")
    assert "0.2.0" in outcome.blockers[0].message


async def test_a_name_that_nobody_could_be_asked_about_stays_unknown(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="environment", query="openai/gsm8k")
    assert (outcome.status, outcome.data["kind"]) == ("inconclusive", "unknown")
    assert outcome.blockers[0].code == "huggingface-not-asked"


@pytest.mark.parametrize(("dataset", "kind", "status"), [(True, "dataset", "passed"), (False, "neither", "failed")])
async def test_a_dataset_is_told_apart_from_nothing(
    at: Desk, monkeypatch: pytest.MonkeyPatch, dataset: bool, kind: str, status: str
) -> None:
    async def known(*_: object) -> bool:
        return dataset

    monkeypatch.setattr(hub, "is_dataset", known)
    outcome = await at.call(TOOL, kind="environment", query="openai/gsm8k")
    assert (outcome.data["kind"], outcome.status) == (kind, status)


async def test_words_find_environments_and_models_carry_notes_and_own_results(at: Desk) -> None:
    found = await at.call(TOOL, kind="environment", query="reverse")
    assert [m["name"] for m in found.data["matches"]] == ["primeintellect/reverse-text"]
    at.lab.ledger.record(
        Evidence("run_eval", "passed", at.lab.key, "sums", model="Qwen/Qwen3-0.6B", data={"mean_reward": 0.25})
    )
    models = await at.call(TOOL, kind="model", query="qwen3-0.6b")
    (row,) = models.data["models"]
    assert row["trainable"]
    assert (row["input"], row["output"]) == (0.02, 0.06)
    assert row["your_evals"] == [{"environment": "sums", "mean_reward": 0.25, "status": "passed"}]


async def test_gpus_are_listed_with_prices(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="gpu", query="H200")
    assert outcome.data["gpus"][0]["price_per_gpu_hour"] == 3.5


async def test_a_fact_about_one_version_is_of_that_version(at: Desk) -> None:
    old = await hub.fact(at.lab.prime, "primeintellect", "reverse-text", "0.1.0")
    newest = await hub.fact(at.lab.prime, "primeintellect", "reverse-text", None)
    assert old.exists
    assert newest.version == "0.2.0"
    assert old.content_hash
    assert old.content_hash != newest.content_hash
    assert (await hub.fact(at.lab.prime, "primeintellect", "reverse-text", "3.0")).exists is False
    assert (await hub.fact(at.lab.prime, "nobody", "nothing", None)).exists is False


async def test_a_hub_that_does_not_answer_is_no_proof_of_absence(at: Desk) -> None:
    await at.fault("503", "/status")
    assert (await hub.fact(at.lab.prime, "primeintellect", "reverse-text", None)).exists is None


def test_generation_is_read_from_the_requirement_as_prime_labels_it() -> None:
    assert hub.runtime_required(["verifiers>=0.4.0,<0.5"]) == "v1"
    assert hub.runtime_required(["verifiers>=0.1.14"]) == "v0"
    assert hub.runtime_required(["verifiers"]) == "v0"
    assert hub.runtime_required(["numpy"]) is None
