"""guide/troubleshooting holds every failure pattern of the seeds, and names no finding or tool that is not there."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.resources.fenced import page
from tests.resources.known import codes, tools
from tests.support.laws import every


class Pattern(NamedTuple):
    """`said`: the symptom in the seed's words. `words`: what a row of the guide must say. `code`: its finding."""

    seed: str
    said: str
    words: tuple[str, ...]
    code: str


TRAINER, BENCHMARK, ARTICLE, API = "prime-lab-trainer", "beautifulsoup-rl", "inside-verifiers", "verifiers-api"
PATTERNS = (
    Pattern(
        TRAINER,
        "Reward always 0: Column mapping wrong",
        ("reward always 0", "column mapping wrong"),
        "reward-gold-fails",
    ),
    Pattern(
        TRAINER,
        "parser not matching model output format",
        ("reward always 0", "parser not matching"),
        "reward-gold-fails",
    ),
    Pattern(TRAINER, "regex failing on answer format", ("reward always 0", "regex failing"), "gold-unparseable"),
    Pattern(
        TRAINER,
        "Reward function too lenient (substring match)",
        ("reward always 1", "substring match"),
        "reward-wrong-passes",
    ),
    Pattern(
        TRAINER, "wrong column passed as answer", ("reward always 1", "wrong column passed as answer"), "gold-in-prompt"
    ),
    Pattern(TRAINER, "Low variance: Not enough examples", ("low variance", "not enough examples"), "small-set"),
    Pattern(
        TRAINER,
        "dataset too easy/hard for the model",
        ("low variance", "too easy or too hard"),
        "distribution-no-signal",
    ),
    Pattern(TRAINER, "tolerance too tight", ("low variance", "tolerance too tight"), "reward-too-strict"),
    Pattern(
        TRAINER,
        "Training diverges: Reward signal too sparse (< 5%)",
        ("training diverges", "too sparse"),
        "distribution-weak-signal",
    ),
    Pattern(
        TRAINER, "Too few samples to trust distribution", ("too few samples to trust",), "distribution-sample-count"
    ),
    Pattern(
        TRAINER,
        "Not all zero: Reward function broken / parsing wrong",
        ("not all zero", "parsing wrong"),
        "distribution-all-zero",
    ),
    Pattern(
        TRAINER,
        "Not all ones: Reward function trivially easy / hacked",
        ("not all ones", "hacked"),
        "distribution-all-one",
    ),
    Pattern(TRAINER, "Variance: Training signal too weak to learn", ("deviation below 0.05",), "distribution-constant"),
    Pattern(
        TRAINER, "Model can't follow format at all", ("can't follow the format at all",), "distribution-format-low"
    ),
    Pattern(
        TRAINER, "Gold rewards > wrong rewards", ("gold rewards are not above wrong rewards",), "reward-wrong-passes"
    ),
    Pattern(TRAINER, "Not all rewards identical", ("all rewards identical",), "reward-constant"),
    Pattern(TRAINER, "Do not assume column names", ("assumed column names",), "no-prompt-column"),
    Pattern(TRAINER, "Do not assume [...] answer format", ("which answer format",), "mixed-format"),
    Pattern(TRAINER, "Both [...] use owner/name format", ("dataset or an environment",), "also-an-environment"),
    Pattern(TRAINER, "dataset is private on HF", ("private or gated",), "hub-gated"),
    Pattern(TRAINER, "If not logged in: prime login", ("not logged in",), "not-logged-in"),
    Pattern(
        TRAINER, "libraries installed, prime CLI on PATH", ("prime, verifiers or datasets missing",), "prime-missing"
    ),
    Pattern(TRAINER, "REQUIRED — Hub will not display without it", ("hub does not display it",), "readme-missing"),
    Pattern(TRAINER, "warns about think tags for Qwen3/DeepSeek", ("qwen3 or deepseek", "think"), "think-in-parser"),
    Pattern(TRAINER, "Pass parser= to Rubric", ("parser not matching",), "parser-not-in-rubric"),
    Pattern(TRAINER, "model_ans is None", ("nonetype",), "parse-none"),
    Pattern(
        TRAINER,
        "string completion (mistake of its guide)",
        ("list of messages, taken for a string",),
        "completion-as-string",
    ),
    Pattern(TRAINER, "sync I/O (mistake of its guide)", ("blocking input and output",), "blocking-call"),
    Pattern(
        TRAINER,
        "lr down (failure recipe of its guide)",
        ("training diverges", "learning rate too high"),
        "config-lr-range",
    ),
    Pattern(TRAINER, "OOM (failure recipe of its guide)", ("out of memory (oom)",), "run-failed"),
    Pattern(
        BENCHMARK,
        "Malformed tool arguments from model: Unterminated string",
        ("malformed tool arguments", "unterminated string"),
        "distribution-truncated",
    ),
    Pattern(BENCHMARK, "Could not repair JSON, using empty args", ("could not repair json",), "distribution-truncated"),
    Pattern(BENCHMARK, "Expecting value: line 1 column 1", ("expecting value", "raw code"), "distribution-all-zero"),
    Pattern(BENCHMARK, "Invalid \\escape", ("invalid \\escape",), "distribution-truncated"),
    Pattern(
        BENCHMARK, "0 tool calls: max_tokens too low", ("0 tool calls", "max_tokens too low"), "distribution-truncated"
    ),
    Pattern(
        BENCHMARK,
        "Outputs code blocks, not tool calls",
        ("outputs code blocks, not tool calls",),
        "distribution-all-zero",
    ),
    Pattern(BENCHMARK, "Outputs markdown, not tool calls", ("outputs markdown",), "distribution-all-zero"),
    Pattern(
        BENCHMARK,
        "JSON truncation: Token limit",
        ("replies stop in the middle", "token limit"),
        "distribution-truncated",
    ),
    Pattern(BENCHMARK, "Sandbox timeout: Code too slow", ("sandbox timeout", "code too slow"), "eval-errors"),
    Pattern(BENCHMARK, "Model not found: Wrong model ID", ("model not found", "wrong id"), "endpoint-no-model"),
    Pattern(BENCHMARK, "Listed in API but returns 404 at runtime", ("404 at runtime", "listed"), "endpoint-no-model"),
    Pattern(BENCHMARK, "Empty response: API error", ("empty response", "api error"), "eval-errors"),
    Pattern(BENCHMARK, "Docker image must have: bs4, lxml, html5lib", ("bs4, lxml, html5lib", "image"), "eval-errors"),
    Pattern(
        BENCHMARK,
        "Outdated assumptions cause silent failures or wasted compute",
        ("outdated assumptions",),
        "migration",
    ),
    Pattern(BENCHMARK, "pip install -e . does NOT work!", ("pip install -e .",), "config-unpublished-source"),
    Pattern(
        BENCHMARK,
        "trainer.model.seq_len MUST be >= orchestrator.seq_len",
        ("seq_len of trainer below",),
        "config-seq-len",
    ),
    Pattern(
        BENCHMARK,
        "[trainer.model.lora] NOT [trainer.model.experimental.lora]",
        ("experimental.lora",),
        "config-old-key",
    ),
    Pattern(BENCHMARK, "NO top_p in [orchestrator.sampling]", ("top_p",), "config-unknown-key"),
    Pattern(BENCHMARK, "NO mask_truncated_completions", ("mask_truncated_completions",), "config-unknown-key"),
    Pattern(BENCHMARK, 'NOT type = "online-difficulty"', ('type = "online-difficulty"',), "config-old-key"),
    Pattern(
        BENCHMARK,
        "Checkpointing is OFF by default; spot instances can be reclaimed",
        ("checkpointing is off", "reclaimed"),
        "config-no-checkpoint",
    ),
    Pattern(BENCHMARK, "max_tokens + input < max_model_len", ("max_model_len",), "config-budget-exceeds-seq-len"),
    Pattern(
        BENCHMARK,
        "fsdp_cpu_offload NEVER with LoRA: device mismatch errors",
        ("fsdp_cpu_offload", "device mismatch"),
        "run-failed",
    ),
    Pattern(BENCHMARK, "Decrease if OOM", ("out of memory (oom)",), "config-gpus"),
    Pattern(
        BENCHMARK,
        "qwen3-vl (VL not supported), Mistral (not on HF), closed API",
        ("vision-language", "not on the hugging face hub"),
        "model-not-offered",
    ),
    Pattern(
        BENCHMARK,
        "For models with 0% baseline, use staged training",
        ("0 % baseline", "phases"),
        "distribution-too-hard",
    ),
    Pattern(BENCHMARK, "Configure WandB", ("nothing in w&b",), "config-wandb-key"),
    Pattern(
        BENCHMARK, "2.5x faster with max_tokens 4096", ("steps are slow", "long replies"), "config-completion-budget"
    ),
    Pattern(
        ARTICLE,
        "API stability is another concern: pin exact versions",
        ("broke with an upgrade",),
        "uncapped-verifiers",
    ),
    Pattern(ARTICLE, "from verifiers.api.v1 import load_environment", ("verifiers.api",), "migration"),
    Pattern(ARTICLE, 'task["answer"] in final_response', ("substring match",), "substring-match"),
    Pattern(API, "MissingKeyError (a ValueError subclass)", ("missingkeyerror",), "secret-needed"),
    Pattern(
        API, "is_truncated: whether generation was truncated", ("replies stop in the middle",), "distribution-truncated"
    ),
    Pattern(API, "error: Error if rollout failed", ("never counted as a low score",), "endpoint-unreachable"),
)
GUIDE = page("guide/troubleshooting")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in GUIDE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| symptom"))
]


@every("pattern", PATTERNS, ids=[f"{p.seed}: {p.said[:40]}" for p in PATTERNS])
def test_a_failure_pattern_of_the_seeds_has_a_row_with_its_finding(pattern: Pattern) -> None:
    fitting = [row for row in ROWS if all(word in f"{row[0]} {row[1]}".lower() for word in pattern.words)]
    assert fitting, f"no row says {pattern.words}"
    assert any(f"`{pattern.code}`" in row[2] for row in fitting)


def test_every_row_names_findings_that_exist_and_tools_that_show_them() -> None:
    wrong = []
    for row in ROWS:
        assert len(row) == 4, row
        named, shown = re.findall(r"`([^`]+)`", row[2]), re.findall(r"`([^`]+)`", row[3])
        if not named or set(named) - codes():
            wrong.append((row[0], sorted(set(named) - codes())))
        if not shown or set(shown) - set(tools()):
            wrong.append((row[0], shown))
    assert wrong == []


def test_each_seed_is_covered() -> None:
    assert {p.seed for p in PATTERNS} == {TRAINER, BENCHMARK, ARTICLE, API}
    assert len({(p.seed, p.said) for p in PATTERNS}) == len(PATTERNS)
