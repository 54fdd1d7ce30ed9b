"""Attacks on the bound of a run: other spellings of a limit, agents and classes that a config does not write, gates.

Every test compares a config with one that verifiers 0.4 or prime-rl treats as the same, or as the dearer of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext, EnvironmentSchemas, SourceMeasurement
from prime_lab_mcp.lab.configs.evidence import _harnesses_by_id, _measurement
from prime_lab_mcp.lab.configs.rules.unproven import unproven_settings
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.training.bound import CostBound, bound_cost
from prime_lab_mcp.lab.training.unpriced_time import unpriced_keys

ID = "me/sums@0.1.0"
MODEL = "Qwen/Qwen3-4B-Instruct-2507"
BASE = f"""
name = "x"
max_steps = 100
seq_len = 4096
[trainer]
[model]
name = "Qwen/Qwen3-4B-Instruct-2507"
[deployment]
num_train_gpus = 1
num_infer_gpus = 1
[inference.vllm]
max_model_len = 32768
[orchestrator]
batch_size = 256
group_size = 8
[orchestrator.train.sampling]
max_completion_tokens = 64
[[orchestrator.train.source]]
name = "s"
env.taskset.id = "{ID}"
"""
NULL = 'env.agent.harness.id = "null"\n'
ONE_TURN = f"{NULL}env.agent.max_turns = 1\n"
EVALS = f"""
[[orchestrator.eval.source]]
name = "e"
env.taskset.id = "{ID}"
{NULL}num_examples = 1000
interval = 1
sampling.max_completion_tokens = 4096
"""


def context(agents: Mapping[str, Mapping[str, Any]] | None = None, own: bool = False, **measured: Any) -> ConfigContext:
    """What is known of files that were checked, with these defaults of their agents."""
    recorded = {"own": own, "agents": agents or {"agent": {"harness": "bash", "max_turns": None}}}
    shapes = {ID: EnvironmentSchemas(episode=recorded, taskset={"properties": {"turns": {}, "max_turns": {}}})}
    each = {ID: SourceMeasurement(**measured)} if measured else {}
    return ConfigContext(shapes=shapes, each=each)


def bound(text: str, known: ConfigContext | None = None) -> CostBound:
    return bound_cost(parse_config(text, Path("configs/rl/x.toml")), 2.0, known)


def most(text: str, known: ConfigContext | None = None) -> float:
    found = bound(text, known).max_cost
    assert found is not None, bound(text, known)
    return found


# --- the limit of a completion ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling",
    [
        "max_completion_tokens = 30000",
        "extra_body.max_tokens = 30000",
        "extra_body.max_completion_tokens = 30000",
        'max_tokens = "30000"',
    ],
)
@pytest.mark.parametrize("agent", ["agent", "helper"])
def test_every_spelling_of_an_agents_limit_of_completions_counts(agent: str, spelling: str) -> None:
    helper = "" if agent == "agent" else 'env.helper.harness.id = "null"\nenv.helper.max_turns = 1\n'
    text = BASE + ONE_TURN + helper
    plain, usual = most(text), most(f"{text}env.{agent}.sampling.max_tokens = 30000\n")
    assert usual > 2 * plain
    assert most(f"{text}env.{agent}.sampling.{spelling}\n") == usual


def test_a_default_limit_of_an_agent_counts_as_a_written_one() -> None:
    default = {"agent": {"harness": "null", "max_turns": 1, "sampling": {"max_tokens": 30000}}}
    assert most(BASE, context(default)) == most(f"{BASE}{ONE_TURN}env.agent.sampling.max_tokens = 30000\n")


@pytest.mark.parametrize("key", ["env.agent.sampling.max_tokens", "sampling.max_completion_tokens"])
def test_a_null_removes_the_limit_of_completions(key: str) -> None:
    limited = BASE + ONE_TURN
    unlimited = limited.replace("[orchestrator.train.sampling]\nmax_completion_tokens = 64\n", "")
    assert most(f'{limited}{key} = "None"\n') == most(unlimited) > most(limited)


def test_a_limit_in_the_extra_body_of_a_source_lowers_no_limit_of_the_run() -> None:
    text = BASE.replace("max_completion_tokens = 64", "max_completion_tokens = 30000") + ONE_TURN
    assert most(f"{text}sampling.extra_body.max_tokens = 64\n") == most(text)


@pytest.mark.parametrize("key", ["n", "best_of", "extra_body.n"])
def test_more_replies_for_a_request_are_counted_and_block(key: str) -> None:
    text = f"{BASE}{ONE_TURN}env.agent.sampling.{key} = 512\n"
    assert most(text) > 2 * most(BASE + ONE_TURN)
    (setting,) = (s for s in unproven_settings(parse_config(text, Path("x.toml"))) if s.path.endswith(key))
    assert setting.blocks


@pytest.mark.parametrize("key", ["min_tokens", "ignore_eos", "use_beam_search", "extra_body.min_tokens"])
def test_every_key_of_an_agents_sampling_that_verifiers_does_not_name_is_named(key: str) -> None:
    text = f"{BASE}{ONE_TURN}env.agent.sampling.{key} = 1\n"
    assert any(s.path.endswith(f"sampling.{key}") for s in unproven_settings(parse_config(text, Path("x.toml"))))


def test_the_named_keys_of_an_agents_sampling_are_no_extra_keys() -> None:
    text = f"{BASE}{ONE_TURN}env.agent.sampling.max_completion_tokens = 64\nenv.agent.sampling.temperature = 1.0\n"
    assert unproven_settings(parse_config(text, Path("x.toml"))) == ()


# --- harnesses ----------------------------------------------------------------------------------------------------


def test_without_a_named_harness_nothing_is_bounded_unless_the_check_recorded_one() -> None:
    refused = bound(BASE)
    assert refused.max_cost is None
    assert refused.key == "orchestrator.train.source.env.agent.harness.id"
    assert '"null"' in refused.fix
    assert f"create_environment(hub={ID!r}" in refused.fix.replace('"', "'")
    assert bound(BASE, context()).max_cost is None
    pinned = context({"agent": {"harness": "null", "max_turns": None}})
    assert most(BASE, pinned) == most(BASE + NULL)
    assert most(BASE, pinned) == most(f"{BASE}env.agent.harness.env.A = '1'\n", pinned)


def test_a_harness_that_is_written_as_null_is_the_one_of_the_taskset() -> None:
    pinned = context({"agent": {"harness": "null", "max_turns": None}})
    assert bound(f'{BASE}env.agent.harness = "None"\n', pinned).max_cost is None


def test_the_harness_of_every_agent_counts() -> None:
    found = bound(f'{BASE}{NULL}env.helper.harness.id = "rlm"\n')
    assert (found.max_cost, found.key) == (None, "orchestrator.train.source.env.helper.max_turns")


def test_agents_of_a_class_of_verifiers_have_their_own_harnesses() -> None:
    paired = f'{BASE}{NULL}env.id = "user-sim"\n'
    assert bound(paired).key == "orchestrator.train.source.env.assistant.harness.id"
    assert most(f'{paired}env.assistant.harness.id = "null"\n') > most(BASE + NULL)


# --- turns --------------------------------------------------------------------------------------------------------

TWO = {"agent": {"harness": "null", "max_turns": 1}, "user": {"harness": "null", "max_turns": 200}}


def test_a_written_default_of_one_agent_leaves_the_turns_of_the_others() -> None:
    known = context(TWO)
    assert most(f"{BASE}env.agent.max_turns = 1\n", known) == most(BASE, known)
    assert most(BASE, known) > most(BASE, context({**TWO, "user": TWO["agent"]}))


def test_a_null_removes_the_limit_of_turns() -> None:
    known = context({"agent": {"harness": "null", "max_turns": 1}})
    assert most(f'{BASE}env.agent.max_turns = "None"\n', known) == most(BASE + NULL) > most(BASE, known)


@pytest.mark.parametrize("name", ["turns", "max_turns"])
def test_no_key_of_a_taskset_limits_the_turns(name: str) -> None:
    known = context({"agent": {"harness": "null", "max_turns": None}})
    assert most(f"{BASE}env.taskset.{name} = 1\n", known) == most(BASE, known)


def test_default_retries_count_as_written_ones() -> None:
    retried = context({"agent": {"harness": "null", "retries": {"max_retries": 20, "rules": []}}})
    assert most(BASE, retried) == most(f"{BASE}{NULL}env.agent.retries.max_retries = 20\n") > 5 * most(BASE + NULL)


# --- classes that play several rollouts ---------------------------------------------------------------------------


def test_a_class_of_ones_own_counts_with_the_rollouts_that_an_evaluation_measured() -> None:
    text = BASE + NULL + EVALS
    agents = {"agent": {"harness": "null", "max_turns": None}}
    eight = most(text, context(agents, own=True, plays=(({}, 8),)))
    assert eight == most((BASE + NULL + EVALS).replace(NULL, f'{NULL}env.id = "best-of-n"\nenv.n = 8\n'))
    assert eight > 5 * most(text, context(agents, own=True, plays=(({}, 1),)))


def test_a_class_of_ones_own_that_nothing_measured_has_no_bound() -> None:
    found = bound(BASE + NULL, context(own=True))
    assert (found.max_cost, found.key) == (None, "orchestrator.train.source.env")
    assert "run_eval" in found.fix


@pytest.mark.parametrize(
    ("written", "key"),
    [("env.n = 64\n", "env.n"), ("env.league.rounds = 64\n", "env.league"), ("env.taskset.rounds = 64\n", "env")],
)
def test_settings_with_which_a_class_of_ones_own_was_not_evaluated_have_no_bound(written: str, key: str) -> None:
    found = bound(BASE + NULL + written, context(own=True, plays=(({}, 1),)))
    assert (found.max_cost, found.key) == (None, f"orchestrator.train.source.{key}")


def test_arguments_that_select_held_out_tasks_need_no_evaluation_of_their_own() -> None:
    text = f'{BASE}{NULL}{EVALS}env.taskset.split = "eval"\n'
    agents = {"agent": {"harness": "null", "max_turns": None}}
    assert bound(text, context(agents, own=True, plays=(({}, 1),))).max_cost is None
    assert most(text, context(agents, own=True, plays=(({}, 1),), held_out={"split": "eval"})) > 0


def test_a_key_that_may_let_a_strangers_class_play_more_often_has_no_bound_until_it_was_checked() -> None:
    assert bound(f"{BASE}{NULL}env.n = 64\n").key == "orchestrator.train.source.env.n"
    assert most(f"{BASE}{NULL}env.n = 64\n", context()) == most(BASE + NULL)


def test_what_is_assumed_of_a_strangers_evaluation_is_said() -> None:
    evals = EVALS.replace(ID, "them/other@1.0.0")
    assert '"them/other@1.0.0", whose files no check here has seen' in bound(BASE + NULL + evals, context()).why


# --- evaluations, concurrency and tasks ---------------------------------------------------------------------------


def minutes_of_evaluations(text: str) -> float:
    return float(bound(text).why.split(" evaluations of up to ")[1].split(" minutes")[0].replace(",", ""))


def test_evaluations_have_no_more_permits_than_the_orchestrator() -> None:
    text = (BASE + NULL + EVALS).replace("num_infer_gpus = 1", "num_infer_gpus = 7")
    few = text.replace("group_size = 8\n", "group_size = 8\nconcurrency.max_inflight = 16\n")
    assert minutes_of_evaluations(few) > 6 * minutes_of_evaluations(text)


def test_a_run_that_begins_with_few_rollouts_at_once_takes_longer() -> None:
    text = (BASE + NULL).replace("num_infer_gpus = 1", "num_infer_gpus = 7")
    few = text.replace("group_size = 8\n", "group_size = 8\nconcurrency.initial_inflight = 1\n")
    many = text.replace("group_size = 8\n", "group_size = 8\nconcurrency.initial_inflight = 512\n")
    assert most(few) > most(text) + 100
    assert most(many) == most(text)


def test_a_group_size_that_is_written_as_a_decimal_counts() -> None:
    assert (
        most(f"{BASE}{NULL}group_size = 8192.0\n") == most(f"{BASE}{NULL}group_size = 8192\n") > 5 * most(BASE + NULL)
    )


def test_tasks_that_were_counted_with_other_arguments_limit_no_evaluation() -> None:
    text = (BASE + NULL + 'env.taskset.level = "tiny"\n' + EVALS).replace("num_examples = 1000\n", "")
    found = bound(text, context(tasks=10))
    assert (found.max_cost, found.key) == (None, "orchestrator.eval.num_examples")
    assert most(f'{text}env.taskset.level = "tiny"\n', context(tasks=10)) > 0


def test_a_model_that_teaches_itself_reads_each_sample_twice() -> None:
    text = (BASE + NULL).replace("batch_size = 256", 'algo.type = "opsd"\nbatch_size = 256')
    assert most(text) > most(BASE + NULL)


# --- gates and rollouts that end in errors ------------------------------------------------------------------------


def gated(limits: str = "") -> str:
    return f'{BASE}{NULL}[orchestrator.train.source.curriculum.gates.g]\ntype = "advantage_range"\n{limits}'


def test_a_gate_that_may_reject_nearly_every_group_counts_what_prime_rl_accepts() -> None:
    known = context(usable=0.9, usable_group=8)
    plain, wide = bound(gated(), known), bound(gated("reject_min = -0.9\nreject_max = 0.9\n"), known)
    assert plain.max_cost is not None
    assert wide.max_cost is not None
    assert wide.max_cost > 50 * plain.max_cost
    assert "rollouts are counted for each one of a batch, because a gate" in plain.why
    assert "ends a run only after 10 batches" in wide.why
    assert bound(gated("reject_min = 0\nreject_max = 0.0\n"), known) == plain


def test_a_gate_of_a_batch_in_tokens_has_no_bound_where_it_rejects_more() -> None:
    text = gated("reject_max = 0.9\n").replace("batch_size = 256", "token_batch_size = 100000")
    assert bound(text, context(usable=0.9)).key == "orchestrator.train.source.curriculum.gates"


def test_groups_that_are_smaller_than_the_evaluated_ones_are_less_often_usable() -> None:
    same, larger = (most(gated(), context(usable=0.9, usable_group=size)) for size in (8, 64))
    assert larger > 5 * same


def test_one_gated_source_counts_with_its_own_evaluation() -> None:
    other = f'\n[[orchestrator.train.source]]\nname = "t"\nenv.taskset.id = "me/other@0.1.0"\n{NULL}'
    known = context(usable=0.01, usable_group=8)
    mixed = ConfigContext(shapes=known.shapes, each=known.each, usable=1.0, usable_group=8)
    assert most(gated() + other, mixed) > 10 * most(gated(), context(usable=1.0, usable_group=8))


def test_rollouts_that_end_in_errors_are_played_anew() -> None:
    none, some = (most(BASE + NULL, context(failed=share)) for share in (0.0, 0.25))
    assert some > 1.8 * none


# --- what a run does besides its batches ---------------------------------------------------------------------------


def test_a_batch_in_tokens_has_no_bound_where_few_tasks_start_in_a_minute() -> None:
    """Short rollouts fill the same tokens with many more starts."""
    tokens = (BASE + ONE_TURN).replace("batch_size = 256", "token_batch_size = 1000000")
    assert most(tokens) > 0
    found = bound(tokens.replace("group_size", "tasks_per_minute = 60\ngroup_size"))
    assert (found.max_cost, found.key) == (None, "orchestrator.tasks_per_minute")


def test_batches_that_train_nothing_are_collected_anew_for_the_same_step() -> None:
    """With one group in a batch, a share of 0.5 usable groups, of which training keeps half, empties 3 of 4 batches."""
    agents = {"agent": {"harness": "null", "max_turns": 1}}
    one_group = BASE.replace("batch_size = 256", "batch_size = 8")
    seldom, often = (context(agents, usable=share, usable_group=8) for share in (1.0, 0.5))
    assert most(one_group, often) > 1.9 * most(one_group, seldom)
    assert "4.0 batches are counted for each step" in bound(one_group, often).why
    (caution,) = bound(one_group, context(agents)).left_out
    assert "how often was not measured" in caution
    assert bound(BASE, context(agents)).left_out == ()
    assert most(BASE, often) == most(BASE, seldom)  # one of 32 groups is usable
    kept = one_group.replace(
        "[orchestrator.train.sampling]",
        "[orchestrator.train]\nfilter_zero_advantages = false\n[orchestrator.train.sampling]",
    )
    assert most(kept, often) == most(kept, seldom) < most(one_group, seldom)


FAR = BASE.replace("max_steps = 100", "max_steps = 1").replace("num_infer_gpus = 1", "num_infer_gpus = 7")
TWENTY_TURNS = 'env.agent = {harness = {id = "bash"}, max_turns = 20, runtime = {type = "subprocess"}}\n'


def test_one_rollout_is_no_faster_for_more_gpus() -> None:
    """20 turns of 32,768 tokens at 25 tokens a second take 7.3 hours, however few rollouts a batch has."""
    few = FAR.replace("batch_size = 256", "batch_size = 8").replace("max_completion_tokens = 64\n", "")
    hours = bound(few + TWENTY_TURNS).hours
    assert hours is not None
    assert hours > 20 * 32768 / 25 / 3600


def test_an_evaluation_lasts_as_long_as_its_longest_rollout() -> None:
    short = FAR + ONE_TURN
    evaluated = f'{short}[[orchestrator.eval.source]]\nnum_examples = 1\nenv.taskset.id = "{ID}"\n{TWENTY_TURNS}'
    hours = bound(evaluated).hours
    assert hours is not None
    assert hours > 20 * 32768 / 25 / 3600


def test_a_context_that_the_config_extends_is_not_that_of_the_model() -> None:
    served = (BASE + NULL).replace("max_model_len = 32768\n", "")
    assert most(served) > 0
    scaled = served.replace(
        "[orchestrator]\n", 'rope_scaling = {rope_type = "yarn", factor = 8.0}\n[orchestrator]\n', 1
    )
    assert (bound(scaled).max_cost, bound(scaled).key) == (None, "inference.vllm.max_model_len")


def test_a_null_removes_the_sampling_of_an_agent() -> None:
    """The class's limit of 16 tokens goes with its table, and the run's own is left."""
    limited = {"agent": {"harness": "null", "max_turns": 1, "sampling": {"max_tokens": 16}}}
    text = BASE.replace("max_completion_tokens = 64", "max_completion_tokens = 30000")
    assert (
        most(f'{text}env.agent.sampling = "None"\n', context(limited))
        == most(text + ONE_TURN)
        > most(text, context(limited))
    )


def test_a_pace_of_new_sandboxes_has_no_bound() -> None:
    found = bound(f'{BASE}{ONE_TURN}env.agent.runtime = {{type = "prime", creates_per_min = 1}}\n')
    assert found.max_cost is None
    assert str(found.key).endswith("env.agent.runtime.creates_per_min")


def test_a_pace_of_new_sandboxes_that_a_class_has_by_default_has_no_bound() -> None:
    agents = {"agent": {"harness": "null", "runtime": "prime", "creates_per_min": 1}}
    paced = ConfigContext(shapes={ID: EnvironmentSchemas(episode={"own": False, "agents": agents, "retries": {}})})
    found = bound(BASE + ONE_TURN, paced)
    assert found.max_cost is None
    assert str(found.key).endswith("env.agent.runtime.creates_per_min")
    for written in ('creates_per_min = "None"', 'type = "subprocess"'):
        assert most(f"{BASE}{ONE_TURN}env.agent.runtime = {{{written}}}\n", paced) > 0


def test_frequent_checkpoints_are_counted() -> None:
    each, seldom = (f"[ckpt]\ninterval = {steps}\n" for steps in (1, 20))
    assert most(BASE.replace("[trainer]\n", each + "[trainer]\n") + ONE_TURN) > most(BASE + ONE_TURN)
    assert most(BASE.replace("[trainer]\n", seldom + "[trainer]\n") + ONE_TURN) == most(BASE + ONE_TURN)


@pytest.mark.parametrize(
    "table",
    [
        "[trainer.model]\nfsdp_cpu_offload = true\n",
        "[trainer.model]\nfull_offload = true\n",
        "[trainer.model.ac_offloading]\nmax_inflight_activations = 1\n",
        "[trainer.model]\nfused_lm_head_token_chunk_size = 1\n",
        "[trainer.model]\ndeepep_token_chunk_size = 8\n",
        "[trainer.model]\nmoe_use_grouped_mm = false\n",
        '[trainer]\nmatmul_precision = "highest"\n',
        "[inference.kv_cache_offload]\ncpu.num_bytes = 1000000\n",
        '[orchestrator.algo.teacher]\nbase_url = "https://models.example/v1"\nwait_for_ready_timeout = 9000000\n',
    ],
)
def test_settings_whose_time_no_number_bounds_are_named_and_take_a_persons_answer(table: str) -> None:
    text = BASE.replace("[trainer]\n", table if table.startswith("[trainer]") else f"[trainer]\n{table}") + ONE_TURN
    config = parse_config(text, Path("x.toml"))
    (key,) = unpriced_keys(config)
    assert key.rpartition(".")[2] in table
    assert bound(text).left_out == (f"how much longer {key} makes the run is not known, and the bound leaves it out",)


def test_the_defaults_of_prime_rl_are_in_the_bound() -> None:
    text = f"{BASE}{ONE_TURN}".replace(
        "[trainer]\n", "[trainer.model]\noptim_cpu_offload = true\nfused_lm_head_token_chunk_size = 8192\n"
    )
    assert bound(text).left_out == ()


# --- which evaluation measured it ----------------------------------------------------------------------------------


def evaluated(share: float, named_by: str, status: Any = "passed", traces: int = 1) -> Evidence:
    groups = {"share": share, "group_size": 8}
    data = {"usable_groups": groups, "error_rate": 0.0, "endpoint_named_by": named_by, "traces_per_episode": traces}
    return Evidence("check_reward_distribution", status, "w", "sums", "s", model=MODEL, data=data)


GATED = f'{BASE}{NULL}curriculum.gates.signal.type = "advantage_range"\n'


@pytest.mark.parametrize("status", ["passed", "inconclusive"])
def test_an_endpoint_that_the_agent_named_makes_no_run_cheaper(status: str) -> None:
    """A server of the agent's own answers so that every group is usable, after the platform measured one in five."""
    honest, own = evaluated(0.2, "platform"), evaluated(1.0, "call", status, traces=9)
    measured = _measurement([own, honest], MODEL)
    assert (measured.usable, measured.plays, measured.unvouched) == (0.2, (({}, 1),), False)
    alone = replace(_measurement([own], MODEL), plays=())
    assert alone.unvouched
    known = ConfigContext(each={ID: measured})
    assert most(GATED, known) > 4 * most(BASE + NULL, known)
    refused = bound(GATED, ConfigContext(each={ID: alone}))
    assert refused.max_cost is None
    assert "no evaluation at an endpoint of the platform or of the user" in refused.why


def test_an_evaluation_that_decided_nothing_does_not_replace_one_that_did() -> None:
    small, large = evaluated(1.0, "platform", "inconclusive"), evaluated(0.2, "platform")
    assert _measurement([small, large], MODEL).usable == 0.2
    assert _measurement([small], MODEL).usable == 1.0


@pytest.mark.parametrize(
    ("harness", "played", "counts"),
    [("bash", "null", False), ("bash", "bash", True), ("bash", "", False), ("null (default)", "", True),
     (None, "null", True), ("bash", None, True)],
)  # fmt: skip
def test_an_evaluation_by_another_harness_makes_no_run_cheaper(
    harness: str | None, played: str | None, counts: bool
) -> None:
    check = Evidence(
        "check_environment", "passed", "w", "sums", "s", data={"roles": [{"name": "agent", "harness": "null"}]}
    )
    measured = _measurement([replace(evaluated(1.0, "platform"), harness=harness), check], MODEL, {}, played)
    assert (measured.usable, bool(measured.plays)) == ((1.0, True) if counts else (None, False))


def test_the_bound_asks_for_evaluations_by_the_harness_of_each_training_source() -> None:
    text = f'{BASE}{NULL}[[orchestrator.train.source]]\nenv.taskset.id = "me/other@0.1.0"\n'
    sources = parse_config(text, Path("configs/rl/x.toml")).sources
    assert _harnesses_by_id(sources) == {ID: "null", "me/other@0.1.0": ""}
