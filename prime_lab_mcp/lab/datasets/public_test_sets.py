"""The names of public benchmarks: test sets, and datasets that have a training split and a test split.

Benchmarks are reported, because models may have memorised them: Qwen2.5-Math-7B completes 54.6 % of MATH-500's
questions from their first 60 %, but none of a benchmark that is newer than the model (arXiv 2507.10532).
"""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["test-only", "has-training"]

_TEST_ONLY = (
    "math-500",
    "hendrycks_math_500",
    "aime24",
    "aime_2024",
    "aime25",
    "aime_2025",
    "aimo-validation-aime",
    "aimo-validation-amc",
    "amc23",
    "minervamath",
    "minerva_math",
    "olympiadbench",
    "openai_humaneval",
    "humaneval",
    "humanevalplus",
    "humaneval-x",
    "multipl-e",
    "mbppplus",
    "gpqa",
    "gpqa_diamond",
    "truthful_qa",
    "mmlu-pro",
    "mmlu-redux",
    "mmlu-redux-2.0",
    "bbh",
    "bigbenchhard",
    "big_bench_hard",
    "bigbench",
    "ifeval",
    "simpleqa",
    "code_generation_lite",
    "livecodebench",
    "cruxeval",
    "bigcodebench",
    "ds1000",
    "mgsm",
    "gsm-plus",
    "gsm1k",
    "gsm_symbolic",
    "swe-bench_verified",
    "swe-bench_lite",
    "agieval",
    "berkeley-function-calling-leaderboard",
    "mt_bench_prompts",
    "alpaca_eval",
    "ceval-exam",
    "cmmlu",
    "mmmlu",
)
_HAS_TRAINING = (
    "gsm8k",
    "hendrycks_math",
    "competition_math",
    "mmlu",
    "ai2_arc",
    "hellaswag",
    "winogrande",
    "piqa",
    "siqa",
    "social_i_qa",
    "commonsense_qa",
    "openbookqa",
    "boolq",
    "sciq",
    "squad",
    "squad_v2",
    "trivia_qa",
    "nq_open",
    "natural_questions",
    "web_questions",
    "hotpot_qa",
    "quac",
    "coqa",
    "mbpp",
    "code_contests",
    "aqua_rat",
    "math_qa",
    "svamp",
    "multiarith",
    "mawps",
    "asdiv",
    "medmcqa",
    "med_qa",
    "pubmed_qa",
    "snli",
    "multi_nli",
    "anli",
    "glue",
    "super_glue",
    "imdb",
    "sst2",
    "ag_news",
    "logiqa",
    "reclor",
    "strategyqa",
    "cosmos_qa",
    "lambada",
    "cnn_dailymail",
    "xsum",
    "wmt14",
    "wmt16",
)
_BY_FULL_ID: dict[str, Kind] = {
    "eleutherai/math": "has-training",
    "hendrycks/math": "has-training",
    "lighteval/math": "has-training",
    "ucinlp/drop": "has-training",
    "ehovy/race": "has-training",
    "codeparrot/apps": "has-training",
    "cais/hle": "test-only",
    "race": "has-training",
    "drop": "has-training",
}
"""Benchmarks whose names other datasets share. Only these full ids count. Some old datasets have no owner."""


def _comparable_name(name: str) -> str:
    return re.sub(r"[-_. ]", "", name.casefold())


_BY_NAME: dict[str, Kind] = {
    **{_comparable_name(name): "has-training" for name in _HAS_TRAINING},
    **{_comparable_name(name): "test-only" for name in _TEST_ONLY},
}


def known_benchmark(dataset: str) -> Kind | None:
    """Return the kind of a public benchmark, given its id on the Hub; None for other datasets.

    `test-only` means that the whole benchmark is a test set, and `has-training` that only its held-out splits are.
    Copies under other owners count too.
    """
    full = dataset.strip().casefold()
    return _BY_FULL_ID.get(full) or _BY_NAME.get(_comparable_name(full.rpartition("/")[2]))
