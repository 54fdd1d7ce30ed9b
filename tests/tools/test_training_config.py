"""Writing and checking a training config, as an agent meets it."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput, PrimeError
from prime_lab_mcp.lab.base.fix import SameCall, calls_named_in
from prime_lab_mcp.lab.configs.config import read_config
from prime_lab_mcp.lab.distribution.sample import easy_first
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.listing import search_gpus
from prime_lab_mcp.lab.prime.answers import HostedGpuOffer, PlatformModels, ValidateAnswer, Wallet
from prime_lab_mcp.lab.prime.pods import GpuOffer, Pod
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job, Push, Run
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.training.declined import newest_decline, record_decline
from prime_lab_mcp.lab.training.next_step import step_after_the_push
from prime_lab_mcp.tools import check_training_config, submit_training, write_training_config
from prime_lab_mcp.tools.tool import Call
from tests.lab.configs.examples import SHARED_LORA, SOUND
from tests.lab.evals.finished import episode, finished

pytestmark = pytest.mark.anyio
PINNED = "alice/tiny-env@0.1.0"


@dataclass
class Platform:
    """What `prime` would say. `hub` maps `owner/name` to its status; an absent name is not found."""

    answer: ValidateAnswer = field(default_factory=lambda: ValidateAnswer("valid", (), "f" * 40))
    hub: dict[str, dict[str, Any]] = field(default_factory=dict)
    online: bool = True
    offers: tuple[HostedGpuOffer, ...] = (HostedGpuOffer("H200", 2.5, True, False),)
    asked: list[Path] = field(default_factory=list)
    rented: tuple[GpuOffer, ...] = ()
    balance: float = 100.0
    trainable: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"Qwen/Qwen3-4B-Instruct-2507": ("H200",)})

    async def train_validate(self, path: Path) -> ValidateAnswer:
        self.asked.append(path)
        return self.answer

    async def wallet(self) -> Wallet:
        return Wallet(self.balance, "USD")

    async def models(self) -> PlatformModels:
        self._reach()
        return PlatformModels(self.trainable, self.offers)

    async def ask_entries_ahead(self, refs: Sequence[str]) -> None:
        """Nothing is faster here."""

    async def env_status(self, ref: str) -> dict[str, Any]:
        self._reach()
        if ref not in self.hub:
            raise PrimeError("the platform has no such thing", fix="x", code="platform-not-found")
        return self.hub[ref]

    async def env_versions(self, ref: str) -> dict[str, str]:
        return {"0.1.0": "h"} if ref in self.hub else {}

    async def env_inspect(self, ref: str, path: str | None = None) -> dict[str, Any]:
        return {}

    async def gpu_offers(self, gpus: int) -> tuple[GpuOffer, ...]:
        self._reach()
        return self.rented

    async def pods(self) -> tuple[Pod, ...]:
        self._reach()
        return ()

    def _reach(self) -> None:
        if not self.online:
            raise PrimeError("nobody is logged in", fix="x", code="not-logged-in")


def on_hub(runtime: str = "VERIFIERS_V1") -> dict[str, Any]:
    return {"latest_version": {"semantic_version": "0.1.0", "content_hash": "h"}, "runtime": runtime}


@pytest.fixture
def platform(lab: Lab) -> Platform:
    found = Platform(hub={"alice/tiny-env": on_hub()})
    lab.__dict__["prime"] = found
    return found


async def nothing(*_: Any) -> Any:
    return None


def call(lab: Lab) -> Call:
    return Call(lab=lab, snapshot=None, progress=nothing, references=None, prove=nothing)  # type: ignore[arg-type]


async def write(lab: Lab, **given: Any) -> Outcome:
    return await write_training_config.run(call(lab), write_training_config.Args(**given))


async def check(lab: Lab, path: str) -> Outcome:
    return await check_training_config.run(call(lab), check_training_config.Args(path=path))


def put(lab: Lab, path: str, text: str) -> str:
    file = lab.workspace.resolve(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return path


def environment(lab: Lab, name: str = "tiny_env", split: str | None = None) -> Path:
    folder = lab.workspace.environments / name
    (folder / name).mkdir(parents=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "0.1.0"\n', encoding="utf-8")
    body = f"    split: {split}\n" if split else "    pass\n"
    (folder / name / "taskset.py").write_text(f"class Config(vf.TasksetConfig):\n{body}", encoding="utf-8")
    return folder


def pushed(lab: Lab, api: str = "v1", version: str = "0.1.0") -> None:
    lab.ledger.record_push(
        Push(lab.key, "tiny_env", "alice", "tiny-env", version, "s", "c", "h", lab.platform, api=api)
    )


def codes(outcome: Outcome, severity: str = "blocker") -> set[str]:
    return {f.code for f in outcome.findings if f.severity == severity}


# Writing


async def test_a_written_config_passes_its_check(lab: Lab, platform: Platform) -> None:
    written = await write(lab, environments=[PINNED], eval={"split": "eval"})
    checked = await check(lab, written.data["path"])
    assert (written.status, written.data["path"], written.data["version"]) == ("passed", "configs/rl/tiny-env.toml", 1)
    assert (checked.status, codes(checked)) == ("passed", set())
    assert written.data["sha256"] == checked.data["sha256"] == checked.facts.config_sha256
    assert checked.next[0].tool == "submit_training"


async def test_the_same_call_again_writes_nothing_new(lab: Lab, platform: Platform) -> None:
    first = await write(lab, environments=[PINNED])
    again = await write(lab, environments=[PINNED])
    assert (again.data["path"], again.data["sha256"], again.data["existed"]) == (
        first.data["path"],
        first.data["sha256"],
        True,
    )


async def test_other_values_become_a_new_version_beside_the_old(lab: Lab, platform: Platform) -> None:
    first = await write(lab, environments=[PINNED])
    before = lab.workspace.resolve(first.data["path"]).read_bytes()
    second = await write(lab, environments=[PINNED], steps=50)
    assert (second.data["path"], second.data["version"]) == ("configs/rl/tiny-env-v2.toml", 2)
    assert lab.workspace.resolve(first.data["path"]).read_bytes() == before
    entries = json.loads(lab.workspace.resolve("configs/registry.json").read_text(encoding="utf-8"))["configs"]
    assert [(e["version"], e["active"], e["environments"]) for e in entries] == [
        (1, False, [PINNED]),
        (2, True, [PINNED]),
    ]


async def test_a_file_of_the_user_s_own_is_never_overwritten(lab: Lab, platform: Platform) -> None:
    put(lab, "configs/rl/mine.toml", "# mine\n")
    written = await write(lab, environments=[PINNED], name="mine")
    assert written.data["path"] == "configs/rl/mine-v2.toml"
    assert lab.workspace.resolve("configs/rl/mine.toml").read_text(encoding="utf-8") == "# mine\n"


async def test_an_unreadable_registry_stops_before_anything_is_written(lab: Lab, platform: Platform) -> None:
    put(lab, "configs/registry.json", "{")
    with pytest.raises(BadInput) as caught:
        await write(lab, environments=[PINNED])
    assert caught.value.code == "config-registry-unreadable"
    assert not lab.workspace.resolve("configs/rl").exists()


async def test_a_pushed_environment_is_named_as_it_was_pushed(lab: Lab, platform: Platform) -> None:
    environment(lab, split='Literal["train", "eval"] = "train"')
    pushed(lab)
    written = await write(lab, environments=["tiny_env"])
    assert written.data["environments"] == [PINNED]
    assert written.data["eval_sources"] == [{"id": PINNED, "split": "eval"}]


async def test_held_out_tasks_that_its_check_found_are_evaluated(lab: Lab, platform: Platform) -> None:
    pushed(lab)
    for told, expected in (
        ("split=dev: 1,035 tasks compared", [{"id": PINNED, "split": "dev"}]),
        ("split=dev: not compared, because loading it failed (load-failed)", []),
        ("eval_dataset: 35 tasks compared", []),
        (None, []),
    ):
        data = {"tasks": 500, "held_out": told}
        lab.ledger.record(Evidence("check_environment", "passed", lab.key, "tiny_env", "s", "c", data=data))
        assert (await write(lab, environments=[PINNED])).data["eval_sources"] == expected
        assert (await write(lab, environments=[PINNED], eval={})).data["eval_sources"] == []


async def test_an_environment_that_is_not_published_is_refused_for_hosted_training(
    lab: Lab, platform: Platform
) -> None:
    environment(lab)
    with pytest.raises(BadInput) as caught:
        await write(lab, environments=["tiny_env"])
    assert caught.value.code == "environment-not-published"
    own = await write(lab, environments=["tiny_env"], target="self-managed")
    checked = await check(lab, own.data["path"])
    assert (own.data["environments"], checked.status) == (["tiny-env"], "passed")


async def test_a_v0_folder_that_was_checked_is_said_to_be_not_trainable_where_it_is_written(
    lab: Lab, platform: Platform
) -> None:
    environment(lab)
    lab.ledger.record(Evidence("check_environment", "failed", lab.key, "tiny_env", "s", "c", data={"api": "v0"}))
    written = await write(lab, environments=["tiny_env"], target="self-managed")
    assert "v0-not-trainable" in codes(written, "warning")
    assert platform.asked == []


async def test_a_name_on_the_hub_is_pinned_to_its_latest_version(lab: Lab, platform: Platform) -> None:
    written = await write(lab, environments=["alice/tiny-env"])
    assert written.data["environments"] == [PINNED]


async def test_what_cannot_be_pinned_is_written_with_a_warning_and_blocked_by_the_check(
    lab: Lab, platform: Platform
) -> None:
    platform.online = False
    written = await write(lab, environments=["bob/unknown"])
    assert codes(written, "warning") == {"config-unpinned-source"}
    assert "config-unpinned-source" in codes(await check(lab, written.data["path"]))


async def test_evidence_of_evals_decides_sizes(lab: Lab, platform: Platform) -> None:
    environment(lab)
    pushed(lab)
    for tool, data, model in (
        ("check_environment", {"tasks": 100, "api": "v1"}, None),
        (
            "run_eval",
            {"distribution": {"completion_tokens": {"p95": 900}, "usable_groups": {"share": 0.3}}},
            "Qwen/Qwen3-4B-Instruct-2507",
        ),
    ):
        lab.ledger.record(
            Evidence(
                tool, "passed", lab.key, "tiny_env", "s", "c", data=data, model=model, sampling={"temperature": 0.7}
            )
        )
    written = await write(lab, environments=["tiny_env"])
    checked = await check(lab, written.data["path"])
    text = lab.workspace.resolve(written.data["path"]).read_text(encoding="utf-8")
    assert "max_completion_tokens = 1152  # 1.25 times the 900 tokens" in text
    assert "batch_size = 432" in text  # 8 groups of 16, where 30 % have a gradient
    assert "max_steps = 37 " in text  # ten passes over 100 tasks
    assert codes(checked, "warning") == {"config-eval-sampling", "config-no-eval"}
    assert checked.data["estimate"]["gradient_rollouts_per_step"] == 129.6


async def test_several_environments_have_shares_and_evidence_of_their_own(lab: Lab, platform: Platform) -> None:
    for name, usable, solved in (("tiny_env", 0.9, 2), ("other_env", 0.3, 40)):
        environment(lab, name, split='Literal["train", "eval"] = "train"' if name == "tiny_env" else None)
        hub = name.replace("_", "-")
        lab.ledger.record_push(Push(lab.key, name, "alice", hub, "0.1.0", name, "c", "h", lab.platform, api="v1"))
        needed = {"code": "secret-needed", "rows": [{"variable": "SEARCH_KEY", "optional": False}]}
        lab.ledger.record(
            Evidence("check_environment", "passed", lab.key, name, name, "c", findings=(needed,), data={"tasks": 500})
        )
        told = {
            "usable_groups": {"share": usable, "group_size": 16},
            "mean": 0.4,
            "difficulty": {"never": 9, "easy": solved},
        }
        lab.ledger.record(
            Evidence(
                "run_eval",
                "passed",
                lab.key,
                name,
                name,
                "c",
                data={"id": f"eval-{name}", "distribution": told},
                model="Qwen/Qwen3-4B-Instruct-2507",
            )
        )
    written = await write(lab, environments=["tiny_env", "other_env"], ratios=[2, 1], notes="both at once")
    text = lab.workspace.resolve(written.data["path"]).read_text(encoding="utf-8")
    assert "ratio = 2.0  # as asked: 67% of the tasks" in text
    assert "eval-other_env" in text
    assert written.data["eval_sources"] == [{"id": PINNED, "split": "eval"}]
    assert codes(written, "info") == {"config-curriculum-advised", "config-source-without-eval"}
    assert codes(written, "warning") == {"config-secret-needed"}
    (advised,) = [f for f in written.findings if f.code == "config-curriculum-advised" and "other" in f.message]
    assert easy_first(None) in advised.fix
    assert '"level"' not in advised.fix
    assert 'curriculum="both"' in advised.fix
    commands = {f.fix.partition("`")[2].partition("`")[0] for f in written.findings}
    assert "prime env secret create alice/other-env -n SEARCH_KEY" in commands
    registered = json.loads(lab.workspace.resolve("configs/registry.json").read_text(encoding="utf-8"))["configs"]
    assert registered[0]["notes"] == "both at once"
    platform.hub["alice/other-env"] = on_hub()
    assert (await check(lab, written.data["path"])).status == "passed"


@pytest.mark.parametrize("ratios", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, float("inf")], [1.0, 2.0, 3.0]])
async def test_ratios_are_one_number_above_0_for_each_environment(
    lab: Lab, platform: Platform, ratios: list[float]
) -> None:
    with pytest.raises(BadInput) as caught:
        await write(lab, environments=[PINNED, "bob/other@1.0.0"], ratios=ratios)
    assert (caught.value.code, lab.workspace.resolve("configs").exists()) == ("config-ratios", False)


async def test_a_new_config_tells_every_chosen_value_with_its_reason(lab: Lab, platform: Platform) -> None:
    written = await write(lab, environments=[PINNED])
    changes = {c["key"]: c for c in written.data["changes"]}
    assert {"orchestrator.group_size", "max_steps", "trainer.optim.lr", "gpu_type", "seq_len"} <= set(changes)
    assert all(c["why"] and "from" not in c for c in changes.values())
    assert (written.data["gpu_type"], written.data["price_per_gpu_hour"]) == ("H200", 2.5)
    assert codes(written, "info") == {"config-unmeasured"}
    assert written.data["hardware"] == "2 H200 GPUs: 1 train, 1 generate"


async def test_without_a_free_gpu_the_platform_chooses_and_that_is_said(lab: Lab, platform: Platform) -> None:
    platform.offers = (HostedGpuOffer("H200", 2.5, False, False),)
    written = await write(lab, environments=[PINNED])
    assert "gpu_type" not in written.data
    (finding,) = [f for f in written.findings if f.code == "config-gpu-type-open"]
    assert "H200 at 2.5" in finding.message


async def test_an_evaluation_of_local_files_counts_on_one_s_own_gpus(lab: Lab, platform: Platform) -> None:
    folder = environment(lab)
    source = (await lab.snapshot(f"environments/{folder.name}")).source
    lab.ledger.record(
        Evidence(
            "run_eval",
            "passed",
            lab.key,
            "tiny_env",
            source,
            "c",
            model="Qwen/Qwen3-4B-Instruct-2507",
            data={"id": "eval-1", "distribution": {"completion_tokens": {"p95": 900, "p99": 1000}}},
        )
    )
    written = await write(lab, environments=["tiny_env"], target="self-managed")
    (change,) = [c for c in written.data["changes"] if c["key"].endswith("max_completion_tokens")]
    assert (change["to"], "eval-1" in change["why"]) == ("1152", True)


async def test_an_older_config_is_migrated_with_every_change_listed(lab: Lab, platform: Platform) -> None:
    put(lab, "old/rl.toml", SHARED_LORA.replace("alice/tiny-env@0.1.0", "alice/tiny-env"))
    assert codes(await check(lab, "old/rl.toml")) == {"migration"}
    written = await write(lab, based_on="old/rl.toml")
    assert (written.data["based_on"], written.data["path"]) == ("old/rl.toml", "configs/rl/rl.toml")
    assert {c["key"] for c in written.data["changes"]} >= {"model", "rollouts_per_example", "buffer.easy_threshold"}
    assert all({"key", "to", "why"} <= set(c) for c in written.data["changes"])
    checked = await check(lab, written.data["path"])
    assert (checked.status, checked.data["based_on"]) == ("passed", "old/rl.toml")


async def test_a_config_in_three_files_is_migrated_by_folder_or_file_and_checked(lab: Lab, platform: Platform) -> None:
    model = '[model]\nname = "Qwen/Qwen3-4B-Instruct-2507"\n'
    put(lab, "old/tiny/train.toml", f"max_steps = 40\n{model}[optim]\nlr = 2e-6\n")
    put(lab, "old/tiny/infer.toml", model)
    orchestrator = "batch_size = 64\nrollouts_per_example = 16\nseq_len = 2048\nmax_steps = 40\n"
    env = '[[env]]\nid = "alice/tiny-env"\n'
    put(lab, "old/tiny/orch.toml", f"{orchestrator}{model}[sampling]\nmax_tokens = 256\n{env}")
    for older in ("old/tiny", "old/tiny/orch.toml"):
        written = await write(lab, based_on=older)
        assert (written.data["based_on"], written.data["path"]) == ("old/tiny", "configs/rl/tiny.toml")
        assert {"orchestrator.env.id", "orchestrator.rollouts_per_example"} <= {
            c["key"] for c in written.data["changes"]
        }
    table = tomllib.loads(lab.workspace.resolve("configs/rl/tiny.toml").read_text(encoding="utf-8"))
    made = table["orchestrator"]
    assert (table["max_steps"], made["batch_size"], made["group_size"]) == (40, 64, 16)
    assert made["train"]["sampling"]["max_completion_tokens"] == 256
    assert table["trainer"]["optim"]["lr"] == 2e-6
    assert (await check(lab, "configs/rl/tiny.toml")).status == "passed"
    # A part of the old config is no config, and its check leads to the migration of all parts.
    part = await check(lab, "old/tiny/orch.toml")
    assert (part.status, part.next[0].tool) == ("failed", "write_training_config")
    assert (await write(lab, **dict(part.next[0].arguments or {}))).data["path"] == "configs/rl/tiny.toml"


async def test_files_with_secrets_are_still_found_from_where_the_new_config_lies(lab: Lab, platform: Platform) -> None:
    secrets = put(lab, "old/secrets.env", "WANDB_API_KEY=x\n")
    written = await write(lab, based_on=put(lab, "old/rl.toml", SHARED_LORA))
    assert (await check(lab, written.data["path"])).status == "passed"
    assert "../../old/secrets.env" in lab.workspace.resolve(written.data["path"]).read_text(encoding="utf-8")
    lab.workspace.resolve(secrets).unlink()
    assert codes(await check(lab, written.data["path"])) == {"config-env-file-missing"}


async def test_files_with_secrets_that_are_gone_are_dropped_and_said(lab: Lab, platform: Platform) -> None:
    written = await write(lab, based_on=put(lab, "old/rl.toml", SHARED_LORA))
    assert (await check(lab, written.data["path"])).status == "passed"
    assert "env_files" in {c["key"] for c in written.data["changes"]}


async def test_a_price_is_told_where_the_platform_names_one(lab: Lab, platform: Platform) -> None:
    written = await write(lab, environments=[PINNED])
    assert written.data["price_per_hour"] == 5.0
    platform.online = False
    assert "price_per_hour" not in (await write(lab, environments=[PINNED])).data


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"environments": []},
        {"environments": ["no-such-folder"]},
        {"environments": [PINNED], "name": "../x"},
        {"based_on": "missing.toml"},
        {"based_on": "../outside.toml"},
        {"based_on": "environments"},
    ],
)
async def test_wishes_that_cannot_be_met_are_refused_with_a_fix(
    lab: Lab, platform: Platform, given: dict[str, Any]
) -> None:
    with pytest.raises(BadInput) as caught:
        await write(lab, **given)
    assert caught.value.fix
    assert not lab.workspace.resolve("configs").exists()


async def test_a_misspelt_model_is_warned_about_with_the_right_one(lab: Lab, platform: Platform) -> None:
    misspelt = "Qwen/Qwen3-4B-Instuct-2507"
    with pytest.raises(BadInput, match="it trains Qwen/Qwen3-4B-Instruct-2507"):
        await write(lab, environments=[PINNED], model=misspelt)
    written = await write(lab, environments=[PINNED], model=misspelt, target="self-managed")
    (finding,) = [f for f in written.findings if f.code == "config-default-renderer"]
    assert "Did you mean Qwen/Qwen3-4B-Instruct-2507" in finding.message


async def test_a_gpu_that_is_not_free_is_warned_about_with_those_that_are(lab: Lab, platform: Platform) -> None:
    platform.offers = (
        *platform.offers,
        HostedGpuOffer("H100", 2.0, False, False),
        HostedGpuOffer("A1", 1, None, False),
    )
    pod = GpuOffer("id1", "L40S_48GB", 2, 48, 1.8, "p", "US", "High", False)
    platform.rented = (pod,)
    for given, free in (
        ({"gpu_type": "H100"}, "H200"),
        ({"gpu_type": "B9"}, "H200"),
        ({"gpu_type": "H100", "target": "self-managed"}, "L40S_48GB"),
    ):
        written = await write(lab, environments=[PINNED], **given)
        (finding,) = [f for f in written.findings if f.code == "config-gpu-type-open"]
        assert (finding.severity, str(given["gpu_type"]) in finding.message, free in finding.message) == (
            "warning",
            True,
            True,
        )
    for given in ({"gpu_type": "H200"}, {"gpu_type": "A1"}, {"gpu_type": "L40S", "target": "self-managed"}):
        written = await write(lab, environments=[PINNED], **given)
        assert [f for f in written.findings if f.code == "config-gpu-type-open"] == []


async def test_the_pod_that_is_offered_has_the_gpu_that_was_asked_for(lab: Lab, platform: Platform) -> None:
    cheap = GpuOffer("cheap", "A100_80GB", 2, 80, 1.8, "p", "US", "High", False)
    asked = GpuOffer("asked", "H100_80GB", 2, 80, 4.0, "p", "US", "High", False)
    platform.rented = (cheap, asked)
    written = await write(lab, environments=[PINNED], target="self-managed", gpu_type="H100_80GB")
    assert [offer["id"] for offer in written.data["gpu_offers"]["offers"]] == ["asked"]
    assert any("--id asked" in step["command"] for step in written.data["launch"])


async def test_the_search_for_gpus_leads_to_a_config_of_what_was_published_on_a_free_type(
    lab: Lab, platform: Platform
) -> None:
    pushed(lab)
    for free, gpu in ((True, {"gpu_type": "H200"}), (False, {})):
        platform.offers = (HostedGpuOffer("H200", 2.5, free, False),)
        (step,) = (await search_gpus(lab, "")).next
        assert (step.tool, step.arguments) == ("write_training_config", {"environments": [PINNED], **gpu})
        assert (await write(lab, **dict(step.arguments or {}))).status == "passed"


async def test_an_evaluation_by_the_name_on_the_hub_is_what_the_config_rests_on(lab: Lab, platform: Platform) -> None:
    ref, source = "alice/tiny-env", "hub:h"
    job = Job(
        "eval-00000001", lab.key, ref, source, source, "i", "finished", None, 0.0, 0.0, lab.platform, {"hosted": PINNED}
    )
    lab.ledger.create_job(job)
    data = {"id": job.id, "usable_groups": {"share": 0.9, "group_size": 16}, "mean": 0.5}
    data |= {"completion_tokens": {"p95": 700, "p99": 800}, "prompt_tokens": {"p99": 200}}
    model = "Qwen/Qwen3-4B-Instruct-2507"
    lab.ledger.record(Evidence("run_eval", "passed", lab.key, ref, source, source, model=model, data=data))
    for name in (ref, PINNED):
        written = await write(lab, environments=[name], model=model)
        assert "config-unmeasured" not in codes(written, "info")
        assert (
            tomllib.loads(lab.workspace.resolve(written.data["path"]).read_text(encoding="utf-8"))["orchestrator"][
                "train"
            ]["sampling"]["max_completion_tokens"]
            == 896
        )
    own = await write(lab, environments=[ref], model=model, target="self-managed")
    other = await write(lab, environments=["alice/tiny-env@0.2.0"], model=model)
    assert "config-unmeasured" not in codes(own, "info")
    assert "config-unmeasured" in codes(other, "info")


# After a config


async def test_after_a_decline_comes_a_change_and_a_live_run_is_watched(lab: Lab, platform: Platform) -> None:
    environment(lab)
    snapshot = await lab.snapshot("tiny_env")
    push = Push(lab.key, "tiny_env", "alice", "tiny-env", "0.1.0", snapshot.source, "c", "h", lab.platform, api="v1")
    lab.ledger.record_push(push)
    written = await write(lab, environments=["tiny_env"], steps=40)
    record_decline(lab, written.data["sha256"], "the user")
    step = step_after_the_push(lab, snapshot)
    assert step is not None
    assert (step.tool, step.arguments) == ("write_training_config", {"based_on": written.data["path"], "steps": 20})
    assert "declined by the user" in step.why
    changed = await write(lab, **dict(step.arguments or {}))
    following = step_after_the_push(lab, snapshot)
    assert following is not None
    assert (following.tool, following.arguments) == ("check_training_config", {"path": changed.data["path"]})
    run = Run(
        "run_1", "training", "r", lab.key, "i", lab.platform, config_sha256="other", data={"environments": [PINNED]}
    )
    lab.ledger.record_run(run)
    live = step_after_the_push(lab, snapshot)
    assert live is not None
    assert (live.tool, live.arguments) == ("watch_run", {"id": "run_1"})
    lab.ledger.record_run(replace(run, data={**run.data, "ended": "COMPLETED"}))
    assert step_after_the_push(lab, snapshot) == following
    model = read_config(lab.workspace.resolve(changed.data["path"])).model
    assert step_after_the_push(lab, snapshot, model) == following
    assert step_after_the_push(lab, snapshot, "another/model-1B") is None


async def test_a_run_of_the_declined_config_ends_the_decline(lab: Lab) -> None:
    record_decline(lab, "abc", "the user")
    assert newest_decline(lab) is not None
    later = Run("run_1", "training", "r", lab.key, "i", lab.platform, config_sha256="abc", at=time.time() + 1)
    lab.ledger.record_run(later)
    assert newest_decline(lab) is None


# Checking


@pytest.mark.parametrize(
    ("answer", "status", "code", "severity"),
    [
        (ValidateAnswer("valid"), "passed", None, "blocker"),
        (ValidateAnswer("not-offered", ("HTTP 405",)), "passed", "config-not-validated-by-platform", "warning"),
        (ValidateAnswer("unavailable", ("not logged in",)), "inconclusive", "config-validation-unavailable", "blocker"),
        (ValidateAnswer("invalid", ("trainer.x: Extra",)), "failed", "config-refused-by-platform", "blocker"),
        (ValidateAnswer("invalid"), "failed", "config-refused-by-platform", "blocker"),
    ],
)
async def test_the_platform_s_word_decides_what_offline_left_open(
    lab: Lab, platform: Platform, answer: ValidateAnswer, status: str, code: str | None, severity: str
) -> None:
    platform.answer = answer
    checked = await check(lab, put(lab, "c.toml", SOUND))
    assert checked.status == status
    assert code is None or code in codes(checked, severity)
    assert checked.facts.touches_platform
    assert (checked.status == "passed") == (not codes(checked))


async def test_a_key_that_the_platform_names_is_shown_as_the_place(lab: Lab, platform: Platform) -> None:
    platform.answer = ValidateAnswer("invalid", ("trainer.model.lora.rnk: Extra inputs are not permitted",))
    checked = await check(lab, put(lab, "c.toml", SOUND))
    assert checked.findings[0].where == "trainer.model.lora.rnk"


async def test_the_platform_is_not_asked_about_what_fails_offline(lab: Lab, platform: Platform) -> None:
    checked = await check(lab, put(lab, "c.toml", SOUND.replace("max_steps = 100\n", "")))
    assert (checked.status, platform.asked, checked.facts.touches_platform) == ("failed", [], False)


async def test_a_v0_environment_of_ours_is_not_trainable(lab: Lab, platform: Platform) -> None:
    pushed(lab, api="v0")
    checked = await check(lab, put(lab, "c.toml", SOUND))
    assert (checked.status, codes(checked), platform.asked) == ("failed", {"v0-not-trainable"}, [])


async def test_a_v0_environment_of_others_is_not_trainable(lab: Lab, platform: Platform) -> None:
    platform.hub["alice/tiny-env"] = on_hub("VERIFIERS_V0")
    checked = await check(lab, put(lab, "c.toml", SOUND))
    assert "v0-not-trainable" in codes(checked)


async def test_an_environment_that_the_hub_lacks_is_a_blocker(lab: Lab, platform: Platform) -> None:
    platform.hub.clear()
    checked = await check(lab, put(lab, "c.toml", SOUND))
    assert "config-environment-missing" in codes(checked)


async def test_a_hub_that_cannot_be_asked_is_left_to_the_gate(lab: Lab, platform: Platform) -> None:
    platform.online = False
    checked = await check(lab, put(lab, "c.toml", SOUND))
    assert (checked.status, codes(checked)) == ("passed", set())


async def test_a_model_that_the_platform_does_not_train_fails_its_check_with_the_list_as_the_next_call(
    lab: Lab, platform: Platform
) -> None:
    checked = await check(lab, put(lab, "c.toml", SOUND.replace("Qwen3-4B-Instruct-2507", "Qwen3-8B")))
    assert (checked.status, codes(checked)) == ("failed", {"model-not-offered"})
    assert [(n.tool, n.arguments) for n in checked.next] == [("search_hub", {"kind": "model"})]


async def test_no_config_is_written_for_a_model_that_the_platform_does_not_train(lab: Lab, platform: Platform) -> None:
    old = put(lab, "old.toml", SOUND.replace("Qwen3-4B-Instruct-2507", "Qwen3-8B"))
    for given in ({"environments": [PINNED], "model": "Qwen/Qwen3-8B"}, {"based_on": old}):
        with pytest.raises(BadInput) as caught:
            await write(lab, **given)
        assert (caught.value.code, "Qwen3-4B-Instruct-2507" in caught.value.message) == ("model-not-offered", True)
        near = [one.changes for one in calls_named_in(caught.value.fix) if isinstance(one, SameCall)]
        assert near == [{"model": "Qwen/Qwen3-4B-Instruct-2507"}, {"target": "self-managed"}]
        assert caught.value.next == ()
    assert not lab.workspace.resolve("configs/rl").exists()
    assert (await write(lab, based_on=old, model="Qwen/Qwen3-4B-Instruct-2507")).status == "passed"


async def test_a_model_of_ones_own_gpus_or_of_a_platform_without_a_list_is_not_looked_up(
    lab: Lab, platform: Platform
) -> None:
    given = {"environments": [PINNED], "model": "Qwen/Qwen3-8B"}
    assert (await write(lab, **given, target="self-managed")).status == "passed"
    platform.online = False
    assert (await write(lab, **given)).status == "passed"


async def test_the_report_says_which_schema_judged(lab: Lab, platform: Platform) -> None:
    checked = await check(lab, put(lab, "c.toml", SOUND))
    assert checked.data["schema_commit"].startswith("559b4477")
    assert checked.data["platform_schema_commit"] == "f" * 40
    assert checked.data["price_per_hour"] == 5.0


async def test_a_missing_file_and_one_outside_are_refused(lab: Lab, platform: Platform) -> None:
    for path, code in (("none.toml", "not-found"), ("../x.toml", "outside-workspace")):
        with pytest.raises(BadInput) as caught:
            await check(lab, path)
        assert caught.value.code == code


async def test_reports_stay_short(lab: Lab, platform: Platform) -> None:
    text = SHARED_LORA + "\n".join(f"[old_{i}]\nkey = {i}" for i in range(200))
    written = await write(lab, based_on=put(lab, "old.toml", text))
    assert len(json.dumps(written.data)) < 8_000
    assert written.data["changes_not_shown"] > 150


# One's own GPUs


async def test_a_config_for_ones_own_gpus_says_how_it_is_run_and_what_could_be_rented(
    lab: Lab, platform: Platform
) -> None:
    platform.rented = tuple(
        GpuOffer(f"offer{memory}", f"GPU {memory}GB", 1, memory, memory / 40, "someone", "US", "Available", False)
        for memory in (24, 48, 80, 81, 82, 83, 84)
    )
    found = await write(lab, environments=[PINNED], target="self-managed", gpus=1)
    assert [o["memory_gb"] for o in found.data["gpu_offers"]["offers"]] == [48, 80, 81, 82, 83]
    assert {"launch", "resume", "pod: rent", "pod: end"} <= {s["step"] for s in found.data["launch"]}
    assert any("--id offer48 " in s["command"] for s in found.data["launch"])
    assert "on 1 GPU" in found.summary
    assert len(json.dumps(found.data)) < 8000


async def test_without_an_account_the_config_is_written_and_the_offers_are_unknown(
    lab: Lab, platform: Platform
) -> None:
    platform.online = False
    found = await write(lab, environments=[PINNED], target="self-managed")
    assert lab.workspace.resolve(found.data["path"]).is_file()
    assert found.data["gpu_offers"]["known"] is False
    assert "nobody is logged in" in found.data["gpu_offers"]["why"]


async def test_hosted_training_on_one_gpu_is_refused(lab: Lab, platform: Platform) -> None:
    with pytest.raises(BadInput, match="two GPUs at least") as caught:
        await write(lab, environments=[PINNED], gpus=1)
    assert caught.value.code == "config-gpus"
    assert "launch" not in (await write(lab, environments=[PINNED])).data


# A warm-up


async def test_solved_rollouts_become_a_config_that_passes_its_check(lab: Lab, platform: Platform) -> None:
    finished(lab, [episode(t, 1.0, f"four {t}") for t in range(12)] + [episode(99, 0.0)])
    found = await write(lab, sft="eval-00000001", model="Qwen/Qwen3-1.7B", name="warm")
    again = await write(lab, sft="eval-00000001", model="Qwen/Qwen3-1.7B", name="warm")
    assert (found.data["path"], found.data["conversations"]) == ("configs/sft/warm.toml", 12)
    assert (again.data["existed"], again.data["sha256"]) == (True, found.data["sha256"])
    lines = lab.workspace.resolve("configs/sft/warm/train.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["messages"][-1]["content"] for line in lines] == [f"four {t}" for t in range(12)]
    assert [f.code for f in found.findings] == ["sft-few-examples"]
    checked = await check(lab, found.data["path"])
    assert (checked.status, codes(checked), checked.next) == ("passed", set(), ())
    entry = json.loads(lab.workspace.resolve("configs/registry.json").read_text(encoding="utf-8"))["configs"][-1]
    assert (entry["name"], entry["environments"]) == ("sft/warm", ["sums_v1"])
    with pytest.raises(BadInput, match="supervised fine-tuning") as caught:
        submit_training._existing(call(lab), found.data["path"])
    assert "prime train warm.toml --sft" in caught.value.fix


async def test_a_file_of_conversations_is_copied_and_a_bad_line_is_named(lab: Lab, platform: Platform) -> None:
    good = '{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]}\n'
    put(lab, "mine.jsonl", good * 3)
    found = await write(lab, sft="mine.jsonl", model="Qwen/Qwen3-1.7B", target="self-managed")
    assert lab.workspace.resolve("configs/sft/mine/train.jsonl").read_text(encoding="utf-8") == good * 3
    assert any("configs/sft/mine.toml configs/sft/mine " in s["command"] for s in found.data["launch"])
    assert any(s["command"] == "uv run sft @ configs/sft/mine.toml" for s in found.data["launch"])
    for bad in ('{"messages": []}', '{"text": "a"}', "{", "[1]"):
        put(lab, "bad.jsonl", good + bad + "\n")
        with pytest.raises(BadInput, match="line 2 of") as caught:
            await write(lab, sft="bad.jsonl", model="Qwen/Qwen3-1.7B")
        assert (caught.value.code, caught.value.where) == ("sft-data", "bad.jsonl:2")


async def test_held_out_tasks_are_never_trained_on(lab: Lab, platform: Platform) -> None:
    environment(lab, "sums_v1", split='Literal["train", "eval"] = "train"')
    training = [episode(t, 1.0, f"four {t}") for t in range(12)]
    finished(lab, training[:3], id="eval-00000002", env_args={"split": "eval"})
    finished(lab, training)
    found = await write(lab, sft="eval-00000001", model="Qwen/Qwen3-1.7B")
    assert found.data["conversations"] == 9
    with pytest.raises(BadInput) as caught:
        await write(lab, sft="eval-00000002", model="Qwen/Qwen3-1.7B")
    assert caught.value.code == "sft-held-out"


async def test_what_cannot_be_a_warm_up_is_refused_and_nothing_is_written(lab: Lab, platform: Platform) -> None:
    finished(lab, [episode(t, 0.0) for t in range(12)])
    for given, code in (
        ({"sft": "eval-00000001"}, "sft-nothing-solved"),
        ({"sft": "no such thing"}, "sft-data"),
        ({"sft": "owner/set", "model": None}, "sft-no-model"),
        ({"sft": "owner/set", "group": 8, "curriculum": "gate"}, "bad-argument"),
        ({"sft": "owner/set", "extra": {"data.nonsense": 1}}, "config-unknown-key"),
        ({"sft": "owner/set", "gpus": 4, "batch": 6}, "config-batch-group"),
    ):
        with pytest.raises(BadInput) as caught:
            await write(lab, **({"model": "Qwen/Qwen3-1.7B"} | given))
        assert caught.value.code == code
    assert not lab.workspace.resolve("configs").exists()


# What comes next


async def test_a_sound_config_leads_to_the_test_that_its_submission_would_ask_for(lab: Lab, platform: Platform) -> None:
    environment(lab, split='"train"')
    pushed(lab)
    written = await write(lab, environments=["alice/tiny-env@0.1.0"], eval={"split": "eval"})
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, "tiny_env", "s", "c"))
    first = await check(lab, written.data["path"])
    assert (first.next[0].tool, first.next[0].arguments) == (
        "test_reward",
        {"environment": "tiny_env", "env_args": {"split": "eval"}},
    )
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, "tiny_env", "s", "c", env_args={"split": "eval"}))
    second = await check(lab, written.data["path"])
    assert second.next[0].tool == "submit_training"
