"""Attacks by settings of a config outside of the proven files: the question names them, or the run is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.configs.packages import agent_overrides
from prime_lab_mcp.lab.configs.rules.unproven import UnprovenSetting, unproven_cautions, unproven_settings
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from prime_lab_mcp.tools.submit_training import TOOL as SUBMIT
from tests.tools.loopback import CONFIG, Desk, desk

pytestmark = pytest.mark.anyio
LARGE = "Qwen/Qwen3-235B-A22B-Instruct-2507"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("settings")) as opened:
        yield opened


async def submit(at: Desk, *added: str, top: str = "") -> Report:
    """Submit the sound config with more tables at its end and more keys at its top."""
    text = "\n".join((top, CONFIG, *added))
    at.config(text, "configs/rl/settings.toml")
    return await Calls(at.lab, TOOLS, References()).execute("submit_training", {"config": "configs/rl/settings.toml"})


def blockers(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "blocker"}


async def test_the_sound_config_is_asked_about_without_such_a_sentence(at: Desk) -> None:
    report = await submit(at)
    assert report.status == "needs_confirmation", report
    assert "no step here tried" not in str(report.data)


@pytest.mark.parametrize(
    "table",
    [
        '[env_vars]\nHF_ENDPOINT = "https://evil.example"',
        '[env_vars]\nPYTHONPATH = "/tmp/evil"',
        '[orchestrator.env_vars]\nOPENAI_BASE_URL = "https://evil.example/v1"',
        '[trainer.env_vars]\nVLLM_PLUGINS = "evil"',
        '[resume]\ndir = "/data/another-run"\nstep = 100',
        "[trainer.resume]\nstep = 3",
        '[orchestrator.model.client]\nbase_url = "https://evil.example/v1"\nheaders_from_env = {A = "HF_TOKEN"}',
        "[orchestrator.train.sampling.extra_body]\nn = 64",
        "[trainer.debug]\nrandom_init = true",
        '[trainer.model]\nconversion_dir = "/data/other-weights"',
        "[trainer.model.debug]\nnum_layers = 1",
        '[rollout_transport]\ntype = "zmq"\nhost = "evil.example"',
        '[weight_broadcast]\ntype = "nccl"\nhost = "evil.example"',
    ],
)
async def test_what_changes_the_environment_or_the_weights_is_refused(at: Desk, table: str) -> None:
    report = await submit(at, table)
    assert (report.status, [need.tool for need in report.unmet]) == ("blocked", ["check_training_config"]), report
    assert "config-unproven-setting" in report.unmet[0].detail


@pytest.mark.parametrize(
    ("after", "added"),
    [
        ("[inference.vllm]", 'worker_extension_cls = "evil.Worker"'),
        ("[inference.vllm]", 'logits-processors = ["evil:Logits"]'),
        ("[inference.vllm]", "hf_overrides = {num_hidden_layers = 1}"),
        ("[inference.vllm]", "hf-overrides.num_hidden_layers = 1"),
        ("[inference.vllm]", "override_generation_config = {temperature = 0.0}"),
        ("[inference.vllm]", "compilation_config = {level = 0}"),
        ("[inference.vllm]", 'revision = "another-branch"'),
        ("[inference.vllm]", 'tokenizer-revision = "another-branch"'),
        ("[[orchestrator.train.source]]", 'serve.address = "tcp://203.0.113.9:5000"'),
    ],
)
async def test_servers_elsewhere_and_code_of_vllm_are_refused(at: Desk, after: str, added: str) -> None:
    assert after in CONFIG
    at.config(CONFIG.replace(after, f"{after}\n{added}"), "configs/rl/passed.toml")
    report = await Calls(at.lab, TOOLS, References()).execute("submit_training", {"config": "configs/rl/passed.toml"})
    assert report.status == "blocked", report
    assert "config-unproven-setting" in report.unmet[0].detail, report


@pytest.mark.parametrize(
    ("top", "table", "named"),
    [
        ('source_ref = "deadbeef"', "", 'source_ref = "deadbeef"'),
        ('image_tag = "evil:latest"', "", 'image_tag = "evil:latest"'),
        ('volume = "mine"', "", 'volume = "mine"'),
        ("", '[tokenizer]\nchat_template = "{{ evil }}"', "tokenizer.chat_template"),
        ("", '[env_vars]\nNCCL_DEBUG = "INFO"', 'env_vars.NCCL_DEBUG = "INFO"'),
        ("", "[trainer.model]\ntrust_remote_code = true", "trainer.model.trust_remote_code"),
        ("", '[orchestrator.heartbeat]\nurl = "https://evil.example/beat"', "orchestrator.heartbeat.url"),
        ("", '[orchestrator.train.sampling.extra_body]\nchat_template = "x"', "extra_body.chat_template"),
    ],
)
async def test_the_question_names_what_no_step_tried(at: Desk, top: str, table: str, named: str) -> None:
    report = await submit(at, table, top=top)
    assert report.status == "needs_confirmation", report
    assert named in str(report.data["question"])


@pytest.mark.parametrize("option", ["max_num_seqs = 128", 'quantization = "fp8"', 'rope_scaling = {type = "yarn"}'])
async def test_the_question_names_options_of_vllm(at: Desk, option: str) -> None:
    at.config(CONFIG.replace("[inference.vllm]", f"[inference.vllm]\n{option}"), "configs/rl/option.toml")
    report = await Calls(at.lab, TOOLS, References()).execute("submit_training", {"config": "configs/rl/option.toml"})
    assert report.status == "needs_confirmation", report
    assert f"inference.vllm.{option.split()[0]}" in str(report.data["question"])


SOURCE = (
    '[[orchestrator.train.source]]\n[orchestrator.train.source.env.taskset]\nid = "primeintellect/reverse-text@0.2.0"\n'
)
JUDGES = "[[orchestrator.train.source.env.taskset.task.judges]]"
AGENT = "[orchestrator.train.source.env.agent"
TEACHER = (
    '[orchestrator.algo]\ntype = "opd"\n[orchestrator.algo.teacher]\nname = "x"\nbase_url = "https://evil.example/v1"\n'
)


def unproven(tables: str, *, below: str = SOURCE) -> tuple[UnprovenSetting, ...]:
    """The unproven settings of the sound config with more tables after some of its lines."""
    assert below in CONFIG
    return unproven_settings(parse_config(CONFIG.replace(below, f"{below}{tables}\n"), Path("configs/rl/x.toml")))


@pytest.mark.parametrize(
    "tables",
    [
        f'{JUDGES}\nid = "reference"\nbase_url = "https://evil.example/v1"\napi_key_var = "PRIME_API_KEY"',
        f'{AGENT}.client]\ntype = "eval"\napi_key_var = "HF_TOKEN"',
        f'{AGENT}.client]\nbase_url = " https://evil.example/v1"\napi_key_var = "HF_TOKEN"',
        f'{AGENT}.client]\nbase_url = "https://huggingface.co.evil.example/v1"\napi_key_var = "HF_TOKEN"',
        f'{TEACHER}api_key_var = "WANDB_API_KEY"',
    ],
)
def test_a_key_of_the_run_is_sent_to_no_other_server(tables: str) -> None:
    assert [s.value for s in unproven(tables) if s.blocks and s.path.endswith("api_key_var")] != []


@pytest.mark.parametrize(
    "tables",
    [
        f'{AGENT}.client]\nbase_url = "https://router.huggingface.co/v1"\napi_key_var = "HF_TOKEN"',
        f'{AGENT}.client]\ntype = "eval"\napi_key_var = "PRIME_API_KEY"',
    ],
)
def test_a_key_may_be_sent_to_its_own_server(tables: str) -> None:
    assert [s.path for s in unproven(tables) if s.blocks] == []


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        (f'{AGENT}]\nmodel = "openai/gpt-5.5-pro"', "env.agent.model"),
        (f'{JUDGES}\nid = "reference"\nmodel = "openai/gpt-5.5-pro"', "task.judges.model"),
        ('[orchestrator.train.source.env.taskset.task.judge]\nmodel = "openai/o1-pro"', "task.judge.model"),
        ('[orchestrator.train.source.env.taskset.task]\ngrader_model_name = "o1"', "task.grader_model_name"),
        (f'{JUDGES}\nid = "reference"\nbase_url = "https://evil.example/v1"', "task.judges.base_url"),
        (TEACHER, "orchestrator.algo.teacher.base_url"),
    ],
)
def test_models_and_servers_that_are_asked_besides_the_trained_one_are_named(tables: str, named: str) -> None:
    assert any(setting.path.endswith(named) for setting in unproven(tables)), named


@pytest.mark.parametrize(
    "variable",
    ["NCCL_NET_PLUGIN", "OMP_TOOL_LIBRARIES", "WANDB__EXECUTABLE", "VLLM_USE_MODELSCOPE", "WANDB_HTTPS_PROXY",
     "WANDB_INSECURE_DISABLE_SSL", "VLLM_CACHE_ROOT"],
)  # fmt: skip
def test_a_variable_that_names_code_or_servers_blocks_whatever_its_prefix(variable: str) -> None:
    text = f'{CONFIG}\n[env_vars]\n{variable} = "1"\n'
    found = unproven_settings(parse_config(text, Path("configs/rl/x.toml")))
    assert [(s.path, s.blocks) for s in found] == [(f"env_vars.{variable}", True)]


@pytest.mark.parametrize(
    "added",
    [
        'source_ref = "deadbeef"',
        'image_tag = "evil:latest"',
        'volume = "mine"',
        '[tokenizer]\nchat_template = "{{ evil }}"',
        "[trainer.model]\ntrust_remote_code = true",
        "[orchestrator.algo.length_penalty]\nnum_output_tokens_weight = 1000.0",
        '[orchestrator.train.sampling.extra_body]\nchat_template = "x"',
        '[inference.vllm]\nquantization = "fp8"',
    ],
)
def test_other_code_rewards_and_replies_than_the_tried_ones_are_no_matter_of_yes(added: str) -> None:
    text = CONFIG.replace("[inference.vllm]", added) if "[inference" in added else f"{added}\n{CONFIG}\n"
    if added.startswith("[") and "[inference" not in added:
        text = f"{CONFIG}\n{added}\n"
    assert unproven_cautions(parse_config(text, Path("configs/rl/x.toml"))) != ()


def settings_with(tables: str) -> tuple[UnprovenSetting, ...]:
    return unproven_settings(parse_config(f"{CONFIG}\n{tables}\n", Path("configs/rl/x.toml")))


@pytest.mark.parametrize(
    "tables",
    [
        '[tokenizer]\nname = "stranger/tokenizer"',
        '[trainer.tokenizer]\nname = "stranger/tokenizer"',
        '[orchestrator.renderer]\nname = "gpt-oss"',
        '[orchestrator.renderer]\nmodel_identity = "Answer every question with 7"',
        "[orchestrator.renderer]\nenable_thinking = true",
        '[orchestrator.renderer]\nkey_of_a_newer_prime_rl = "Answer with 7"',
        '[orchestrator.algo]\ntype = "opsd"\n[orchestrator.algo.renderer]\ndate_string = "7"',
        '[orchestrator.algo]\ntype = "opsd"\ntemplate = "Answer with {demonstration}"',
        '[orchestrator.algo]\ntype = "echo"\n[orchestrator.algo.roles.user]\nalpha = 1.0',
        "[trainer.loss]\nadv_tau = 0.0",
        "[trainer.model]\nfreeze_moe_router = true",
        "[trainer.ckpt]\nskip_optimizer = true",
        "[weight_broadcast]\nquantize_in_weight_transfer = true",
        '[orchestrator.model.client]\nheaders = {A = "b"}',
        "[orchestrator.a_table_of_a_newer_prime_rl]\nkey = 1",
        '[inference]\n[inference.vllm]\nkv_cache_dtype = "fp8"',
    ],
)
def test_a_setting_that_is_not_known_to_leave_the_evidence_as_it_is_takes_an_answer(tables: str) -> None:
    text = f"{CONFIG}\n{tables}\n"
    if "[inference]" in tables:
        text = CONFIG.replace("[inference]\n\n[inference.vllm]", tables)
    config = parse_config(text, Path("configs/rl/x.toml"))
    assert unproven_cautions(config) != ()
    named = [s.path for s in unproven_settings(config)]
    assert any(tables.rpartition("\n")[2].partition(" ")[0] in path for path in named), named


@pytest.mark.parametrize(
    "tables",
    [
        '[tokenizer]\nname = "Qwen/Qwen3-4B-Instruct-2507"',
        '[orchestrator.renderer]\nname = "auto"',
        '[orchestrator.renderer]\nname = "qwen3"',
        '[orchestrator.algo]\ntype = "grpo"\n[orchestrator.algo.sampling]\nsource = "policy"',
        '[trainer.loss]\ntype = "default"\nkl_tau = 0.001',
        "[trainer.model.lora]\nrank = 16\nalpha = 32.0\n[trainer.optim]\nlr = 1e-5\n[trainer.model.ac]\nfreq = 1",
        "[deployment]\nnum_train_gpus = 1\nnum_infer_gpus = 1\n[monitors.prime]",
        "[orchestrator.concurrency]\nmax_inflight = 64\n[orchestrator.train.sampling]\ntemperature = 1.0",
        "[orchestrator.eval]\ninterval = 5\n[orchestrator.eval.sampling]\nmax_completion_tokens = 512",
    ],
)
def test_what_the_gates_the_bound_and_the_defaults_cover_is_not_asked_about(tables: str) -> None:
    assert settings_with(tables) == ()


def test_a_curriculum_as_it_is_written_here_is_not_asked_about() -> None:
    tables = (
        '[orchestrator.train.source.curriculum.sampler]\ntype = "difficulty_pool"\n'
        "[orchestrator.train.source.curriculum.sampler.pools.hard]\nthreshold = 0.2\nweight = 1.0\n"
        '[orchestrator.train.source.curriculum.gates.signal]\ntype = "advantage_range"\n'
    )
    assert unproven(tables) == ()


@pytest.mark.parametrize(
    "tables",
    [
        '[inference.slurm]\npre_run_command = "curl https://evil.example"',
        '[inference.server]\nhost = "0.0.0.0"',
        '[inference.deployment]\ntype = "disaggregated"\ndecode_vllm_overrides = {model = "evil"}',
    ],
)
def test_commands_and_open_servers_block_at_any_depth(tables: str) -> None:
    assert [s.path for s in settings_with(tables) if s.blocks] != []


async def test_a_prompt_renderer_is_named_in_the_question(at: Desk) -> None:
    report = await submit(at, '[orchestrator.renderer]\nname = "gpt-oss"\nmodel_identity = "You are a parrot"')
    assert report.status == "needs_confirmation", report
    assert 'orchestrator.renderer.model_identity = "You are a parrot"' in str(report.data["question"])


async def test_a_platform_that_validates_nothing_is_no_matter_of_yes(at: Desk) -> None:
    await at.tell("/rehearsal/platform", prepare=False)
    try:
        at.config(CONFIG, "configs/rl/not-offered.toml")
        plan = await at.intent(SUBMIT, config="configs/rl/not-offered.toml")
    finally:
        await at.tell("/rehearsal/platform", prepare=True)
    assert plan is not None
    assert [caution for caution in plan.cautions if "offers no validation" in caution] != []


def test_options_that_only_change_the_speed_are_a_matter_of_yes() -> None:
    text = CONFIG.replace("[inference.vllm]", "[inference.vllm]\nmax_num_seqs = 128")
    assert unproven_cautions(parse_config(text, Path("configs/rl/x.toml"))) == ()


def test_harness_and_runtime_that_no_gate_compares_are_named() -> None:
    """The gate compares the harness of the agent called `agent` alone."""
    tables = (
        f'{AGENT}]\nnetwork_notice = false\n{AGENT}.runtime]\ntype = "docker"\n'
        '[orchestrator.train.source.env.judge.harness]\nid = "bash"\n'
    )
    text = CONFIG.replace(RUNTIME, "").replace(SOURCE, f"{SOURCE}{tables}")
    overrides = agent_overrides(parse_config(text, Path("configs/rl/x.toml")).train_sources[0])
    assert set(overrides) == {"env.agent.network_notice", "env.agent.runtime.type", "env.judge.harness.id"}


def test_settings_of_agents_and_episodes_are_named_as_not_evaluated() -> None:
    tables = (
        f"{AGENT}]\nmax_output_tokens = 1\nmax_turns = 1\ntimeout.scoring = 0.001\n"
        "[orchestrator.train.source.env.retries]\nmax_retries = 9\n"
    )
    config = parse_config(CONFIG.replace(SOURCE, f"{SOURCE}{tables}"), Path("configs/rl/x.toml"))
    assert set(agent_overrides(config.train_sources[0])) == {
        "env.retries",
        "env.agent.max_output_tokens",
        "env.agent.max_turns",
        "env.agent.timeout",
    }


def test_a_penalty_for_length_is_named_as_another_reward() -> None:
    table = "[orchestrator.algo.length_penalty]\nnum_output_tokens_weight = 1000.0\n"
    found = unproven_settings(parse_config(f"{CONFIG}\n{table}", Path("configs/rl/x.toml")))
    assert [str(s) for s in found if "another reward" in s.about] != []


async def test_a_long_argument_hides_no_server_from_the_question(at: Desk) -> None:
    judge = 'id = "reference"\nbase_url = "https://evil.example/v1"\napi_key_var = "OTHER"'
    tables = f'pad = "{"x" * 900}"\n{JUDGES}\n{judge}'
    at.config(CONFIG.replace(SOURCE, f"{SOURCE}{tables}\n"), "configs/rl/padded.toml")
    report = await Calls(at.lab, TOOLS, References()).execute("submit_training", {"config": "configs/rl/padded.toml"})
    assert report.status == "needs_confirmation", report
    assert 'judges.base_url = "https://evil.example/v1"' in str(report.data["question"])


async def test_a_key_for_another_server_is_refused_before_the_question(at: Desk) -> None:
    report = await submit(at, f'{TEACHER}api_key_var = "WANDB_API_KEY"')
    assert (report.status, [need.tool for need in report.unmet]) == ("blocked", ["check_training_config"]), report
    assert "config-unproven-setting" in report.unmet[0].detail


async def test_a_name_of_the_config_is_no_sentence_of_the_question(at: Desk) -> None:
    report = await submit(at, top='gpu_type = "H100_80GB for $0.01 in all"')
    assert 'of type "H100_80GB for $0.01 in all"' in str(report.data.get("question", report))


RUNTIME = '[orchestrator.train.source.env.agent.runtime]\ntype = "subprocess"\n'
"""verifiers rents a sandbox for each rollout unless a config or a package names another runtime."""


@pytest.mark.parametrize(
    ("runtime", "named"),
    [
        (RUNTIME.replace("subprocess", "prime"), 'runs in a rented sandbox ("prime")'),
        (RUNTIME.replace('"subprocess"', '"modal"\ngpu = "H100:8"'), 'runs in a rented sandbox ("modal")'),
        ("", "the default of verifiers is a rented sandbox for each rollout"),
    ],
    ids=["prime", "modal", "default"],
)
async def test_sandboxes_that_a_run_rents_beside_its_gpus_are_a_caution(at: Desk, runtime: str, named: str) -> None:
    assert RUNTIME in CONFIG
    at.config(CONFIG.replace(RUNTIME, runtime), "configs/rl/rented.toml")
    plan = await at.intent(SUBMIT, config="configs/rl/rented.toml")
    assert plan is not None
    assert [caution for caution in plan.cautions if named in caution and "not in the bound" in caution] != []
    report = await Calls(at.lab, TOOLS, References()).execute("submit_training", {"config": "configs/rl/rented.toml"})
    assert report.status == "needs_confirmation", report
    assert "rented sandbox" in str(report.data["question"])


async def test_a_new_volume_has_no_bound(at: Desk) -> None:
    report = await submit(at, top='volume = "mine"\nvolume_size = "90Ti"')
    assert "at most $" not in str(report.data.get("question", ""))
    assert "90Ti" in str(report)


@pytest.mark.parametrize(
    "table",
    [
        f'[trainer.model]\nname = "{LARGE}"\n[orchestrator.model]\nname = "Qwen/Qwen3-4B-Instruct-2507"',
        f'[inference.vllm]\nmodel = "{LARGE}"\n[orchestrator.model]\nname = "Qwen/Qwen3-4B-Instruct-2507"',
    ],
)
async def test_components_with_models_of_their_own_are_refused(at: Desk, table: str) -> None:
    text = CONFIG
    for taken in ('[model]\nname = "Qwen/Qwen3-4B-Instruct-2507"\n', "[inference.vllm]\nmax_model_len = 4096\n"):
        assert taken in text
        text = text.replace(taken, "")
    at.config(f"{text}\n{table}", "configs/rl/models.toml")
    calls = Calls(at.lab, TOOLS, References())
    report = await calls.execute("check_training_config", {"path": "configs/rl/models.toml"})
    assert "config-conflict" in blockers(report), report
