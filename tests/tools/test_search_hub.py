"""Looking around on the Hub: what a name is, what can be trained, what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.hub.ownership import TrainingCandidate
from prime_lab_mcp.lab.models.listing import best_matches
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.tools import create_environment, push_environment, read_reference
from prime_lab_mcp.tools.search_hub import TOOL
from tests.tools.loopback import Desk, desk

pytestmark = pytest.mark.anyio


async def test_a_v1_environment_is_trainable_and_pinned_in_what_to_call_next(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="environment", query="primeintellect/reverse-text")
    assert outcome.status == "passed"
    data = outcome.data
    assert (data["kind"], data["runtime"], data["trainable"], data["versions"]) == (
        "environment",
        "v1",
        True,
        ["0.2.0", "0.1.0"],
    )
    assert len(data["content_hash"]) == 64
    assert [(n.tool, n.arguments) for n in outcome.next] == [
        ("create_environment", {"name": "reverse_text", "hub": "primeintellect/reverse-text@0.2.0"}),
        ("write_training_config", {"environments": ["primeintellect/reverse-text@0.2.0"]}),
        ("submit_training", {"environment": "primeintellect/reverse-text@0.2.0"}),
    ]
    assert (data["ours"], data["fast_path"]) == (False, True)
    offered = [call["tool"] for call in data["offered"]]
    assert offered == ["create_environment", "check_environment", "test_reward", "run_eval"]
    assert all(call["why"].startswith(("pulls", "shows")) for call in data["offered"])


async def test_the_pull_that_tells_what_is_trained_on_comes_before_the_config_unless_it_is_here(at: Desk) -> None:
    first = (await at.call(TOOL, kind="environment", query="primeintellect/reverse-text")).next[0]
    assert "before money is spent: how many tasks it has, whether some are held out" in first.why
    (at.lab.workspace.root / "environments" / "reverse_text").mkdir(parents=True)
    again = await at.call(TOOL, kind="environment", query="primeintellect/reverse-text")
    assert [one.tool for one in again.next] == ["write_training_config", "submit_training"]


async def test_a_list_says_which_matches_can_be_trained_and_leads_to_one_that_can(at: Desk) -> None:
    found = await at.call(TOOL, kind="environment", query="primeintellect")
    trainable = [row["trainable"] for row in found.data["matches"] if "trainable" in row]
    assert trainable[0] is True
    assert False in trainable
    [following] = found.next
    assert (following.arguments or {})["query"] == found.data["matches"][0]["name"]


async def test_a_v0_environment_is_not_trainable_and_says_why(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="environment", query="primeintellect/old-math")
    assert (outcome.data["runtime"], outcome.data["trainable"]) == ("v0", False)
    assert "v0" in outcome.data["why"]
    assert not outcome.data["fast_path"]
    assert not {"write_training_config", "submit_training"} & {n.tool for n in outcome.next}


async def test_an_unlabelled_environment_is_of_unknown_generation(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="environment", query="somebody/word-count")
    assert (outcome.data["trainable"], outcome.data["fast_path"]) == (None, False)
    assert [n.tool for n in outcome.next] == ["create_environment"]


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

    monkeypatch.setattr(lookup, "is_dataset", known)
    outcome = await at.call(TOOL, kind="environment", query="openai/gsm8k")
    assert (outcome.data["kind"], outcome.status) == (kind, status)


async def test_words_find_environments_and_models_carry_notes_and_own_results(at: Desk) -> None:
    found = await at.call(TOOL, kind="environment", query="reverse")
    assert [m["name"] for m in found.data["matches"]] == ["primeintellect/reverse-text"]
    named = await at.call(TOOL, kind="environment", query="primeintellect/reverse-text")
    assert found.next == named.next  # the only match is not searched for once more
    assert found.data["matches"][0]["trainable"]
    at.lab.ledger.record(
        Evidence("run_eval", "passed", at.lab.key, "sums", model="Qwen/Qwen3-0.6B", data={"mean_reward": 0.25})
    )
    models = await at.call(TOOL, kind="model", query="qwen3-0.6b")
    (row,) = models.data["models"]
    assert row["trainable"]
    assert (row["input"], row["output"]) == (0.02, 0.06)
    assert (row["readiness"], row["renderer"], row["native"], row["lora_gpus"]) == (
        "ready",
        "qwen3",
        True,
        {"H200_141GB": 1},
    )
    assert row["your_evals"] == [{"environment": "sums", "mean_reward": 0.25, "status": "passed"}]


async def test_a_model_that_is_known_but_not_offered_comes_from_the_registry_with_its_dates(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="model", query="qwen/qwen3-30b-a3b-instruct-2507")
    assert (outcome.status, [f.code for f in outcome.findings]) == ("passed", ["model-not-offered"])
    (row,) = outcome.data["models"]
    assert (row["trainable"], row["readiness"]) == (False, "not listed")
    assert row["baseline"].endswith("(2026-01-04)")
    unknown = await at.call(TOOL, kind="model", query="nobody/nothing-3b")
    assert (unknown.status, unknown.blockers[0].code) == ("failed", "nothing-found")


async def test_a_model_that_is_trained_but_not_served_is_told(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def one() -> list[dict[str, object]]:
        return [{"id": "openai/gpt-4.1-mini", "serving": "gateway"}]

    monkeypatch.setattr(at.lab.prime, "inference_models", one)
    outcome = await at.call(TOOL, kind="model", query="qwen3-0.6b")
    assert (outcome.status, [f.code for f in outcome.findings]) == ("passed", ["model-not-served"])
    assert "endpoint" in outcome.findings[0].fix
    closed = await at.call(TOOL, kind="model", query="gpt-4.1-mini")
    assert (closed.data["models"][0]["readiness"], closed.findings) == ("closed", ())


async def test_one_list_that_cannot_be_had_leaves_the_other(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def none() -> list[dict[str, object]]:
        raise LabError("no answer", fix="Try again.", code="platform-unreachable")

    monkeypatch.setattr(at.lab.prime, "inference_models", none)
    outcome = await at.call(TOOL, kind="model", query="qwen3-0.6b")
    assert (outcome.status, outcome.findings[0].severity) == ("passed", "warning")
    assert outcome.data["models"][0]["trainable"]
    page = await at.call(read_reference.TOOL, topic="lab://models")
    assert "Which models it serves could not be had" in page.data["text"]


async def test_gpus_are_listed_with_prices(at: Desk) -> None:
    outcome = await at.call(TOOL, kind="gpu", query="H200")
    (gpu,) = outcome.data["gpus"]
    assert (gpu["price_per_gpu_hour"], gpu["memory"], gpu["available_now"]) == (3.5, 141, True)
    assert "available now: H200_141GB" in outcome.summary
    assert [(n.tool, n.arguments) for n in outcome.next] == [("search_hub", {"kind": "environment"})]


async def test_words_of_a_query_are_looked_for_one_by_one_where_the_whole_is_nowhere(at: Desk) -> None:
    found = await at.call(TOOL, kind="environment", query="lines in reverse for a model")
    names = [row["name"] for row in found.data["matches"]]
    assert names == ["primeintellect/reverse-text"]
    at.environment("measured")
    models = await at.call(TOOL, kind="model", query="small qwen 0.6B")
    assert models.data["models"][0]["id"] == "Qwen/Qwen3-0.6B"
    (step,) = models.next
    assert (step.tool, (step.arguments or {})["model"]) == ("run_eval", "Qwen/Qwen3-0.6B")


async def test_the_name_that_was_asked_for_comes_first_then_names_that_begin_with_it(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ["a/old-math", "b/word-math", "c/math-proofs", "d/math"]

    async def listed(*_: object) -> list[dict[str, str]]:
        return [{"environment": name} for name in named]

    async def unknown(_prime: object, owner: str, name: str) -> HubEntry:
        return HubEntry(owner, name, True, runtime="v0" if name == "math" else "v1")

    monkeypatch.setattr(at.lab.prime, "env_list", listed)
    monkeypatch.setattr(lookup, "look_up_environment", unknown)
    found = await at.call(TOOL, kind="environment", query="math")
    assert [row["name"] for row in found.data["matches"]] == ["d/math", "c/math-proofs", "a/old-math", "b/word-math"]
    models = await at.call(TOOL, kind="model", query="qwen3-4b")
    names = [row["id"].rpartition("/")[2].lower() for row in models.data["models"]]
    assert names == sorted(names, key=lambda name: (name != "qwen3-4b", not name.startswith("qwen3-4b")))


def test_a_match_of_more_words_comes_first_and_fillers_are_no_words() -> None:
    texts = {"a/math": "math", "b/word-problems": "math word problems", "c/of": "of the"}
    assert best_matches(texts, "word problems of math") == ["b/word-problems", "a/math"]


@pytest.mark.slow
async def test_a_fact_about_one_version_is_of_that_version(at: Desk) -> None:
    old = await lookup.hub_fact(at.lab.prime, "primeintellect", "reverse-text", "0.1.0")
    newest = await lookup.hub_fact(at.lab.prime, "primeintellect", "reverse-text", None)
    assert old.exists
    assert newest.version == "0.2.0"
    assert old.content_hash
    assert old.content_hash != newest.content_hash
    assert (await lookup.hub_fact(at.lab.prime, "primeintellect", "reverse-text", "3.0")).exists is False
    assert (await lookup.hub_fact(at.lab.prime, "nobody", "nothing", None)).exists is False


async def test_a_hub_that_does_not_answer_is_no_proof_of_absence(at: Desk) -> None:
    await at.fault("503", "/status")
    assert (await lookup.hub_fact(at.lab.prime, "primeintellect", "reverse-text", None)).exists is None


async def test_a_hub_that_does_not_answer_is_looked_into_by_preflight(at: Desk) -> None:
    await at.fault("503", "/status")
    outcome = await at.call(TOOL, kind="environment", query="primeintellect/reverse-text")
    assert outcome.status == "inconclusive"
    assert [call.tool for call in outcome.next] == ["preflight"]


def test_generation_is_read_from_the_requirement_as_prime_labels_it() -> None:
    assert lookup.runtime_required(["verifiers>=0.4.0,<0.5"]) == "v1"
    assert lookup.runtime_required(["verifiers>=0.1.14"]) == "v0"
    assert lookup.runtime_required(["verifiers"]) == "v0"
    assert lookup.runtime_required(["numpy"]) is None


def test_what_is_ours_keeps_its_gates_and_says_so(tmp_path: Path) -> None:
    entry = HubEntry("me", "sums", True, "0.1.0", runtime="v1")
    push = Push(str(tmp_path), "sums_env", "me", "sums", "0.1.0", "s", "c", "h", "prime")
    ours = TrainingCandidate(entry, "0.1.0", "v1", True, (push,), str(tmp_path))
    assert not ours.fast
    assert "keeps its gates" in ours.as_json()["gates"]
    assert "offered" not in ours.as_json()
    config = ("write_training_config", {"environments": ["me/sums@0.1.0"]})
    gone = ("create_environment", {"name": "sums", "hub": "me/sums@0.1.0"})
    assert [(n.tool, n.arguments) for n in ours.next()] == [gone, config]
    (tmp_path / "environments" / "sums_env").mkdir(parents=True)
    status = ("workflow_status", {"environment": "sums_env"})
    assert [(n.tool, n.arguments) for n in ours.next()] == [status, config]
    by_hand = TrainingCandidate(entry, "0.1.0", "v1", True, (), "/elsewhere")
    assert "no push_environment published them" in by_hand.as_json()["gates"]


def test_a_v0_environment_is_pulled_and_then_ported_to_be_trained() -> None:
    old = TrainingCandidate(HubEntry("me", "old-sums", True, "0.1.0", runtime="v0"), "0.1.0", "v0", False, (), "/w")
    assert [(n.tool, n.arguments) for n in old.next()] == [
        ("create_environment", {"name": "old_sums", "hub": "me/old-sums@0.1.0"}),
        ("create_environment", {"name": "old_sums-v1", "port": "old_sums"}),
    ]


def test_the_port_of_a_pulled_environment_gets_a_name_that_no_folder_has(tmp_path: Path) -> None:
    (tmp_path / "environments" / "old_sums_v1").mkdir(parents=True)
    entry = HubEntry("me", "old-sums", True, "0.1.0", runtime="v0")
    _, port = TrainingCandidate(entry, "0.1.0", "v0", False, (), str(tmp_path)).next()
    assert port.arguments == {"name": "old_sums-v1-2", "port": "old_sums"}


@pytest.mark.slow
async def test_taking_up_the_offer_to_validate_does_not_make_a_foreign_environment_ours(tmp_path: Path) -> None:
    async with desk(tmp_path) as opened:
        ref = "primeintellect/reverse-text"
        pulled = await opened.call(create_environment.TOOL, name="reverse_text", hub=f"{ref}@0.2.0")
        assert pulled.status == "passed"
        copy = await opened.lab.snapshot("reverse_text")
        outcome = await opened.call(TOOL, kind="environment", query=ref)
        assert copy.cli_hash == outcome.data["content_hash"]
        assert (outcome.data["ours"], outcome.data["fast_path"]) == (False, True)


@pytest.mark.slow
async def test_what_was_written_here_stays_ours_under_any_name_pulled_back_or_not(tmp_path: Path) -> None:
    async with desk(tmp_path) as opened:
        opened.environment("mine")
        pushed = await opened.call(push_environment.TOOL, environment="mine")
        name = f"{pushed.data['owner']}/{pushed.data['name']}"
        await opened.call(create_environment.TOOL, name="again", hub=name)
        outcome = await opened.call(TOOL, kind="environment", query=name)
        assert (outcome.data["ours"], outcome.data["fast_path"]) == (True, False)
        assert outcome.next[0].tool == "workflow_status"
        assert "its gates stay" in outcome.summary


async def test_of_several_models_the_missing_ones_are_named_and_the_calls_keep_the_others(at: Desk) -> None:
    """A user asked for two models of which one is not offered: nothing said so, and `next` had a third."""
    at.environment("measured")
    two = await at.call(TOOL, kind="model", query="Qwen/Qwen3-99.5B, Qwen/Qwen3-4B-Instruct-2507 and qwen3-0.6b")
    [missing] = [f for f in two.findings if f.code == "model-not-offered"]
    assert '"Qwen/Qwen3-99.5B"' in missing.message
    asked = [(one.tool, (one.arguments or {})["model"]) for one in two.next]
    assert asked == [("run_eval", "Qwen/Qwen3-4B-Instruct-2507"), ("run_eval", "Qwen/Qwen3-0.6B")]
    everything = await at.call(TOOL, kind="model")
    assert 'query="NAME NAME" says which of them are not offered.' in everything.summary
    assert everything.next[0].why.endswith("or the model that the user named in its place")
