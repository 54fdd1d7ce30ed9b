"""Warnings about keys whose migration changes what a run learns.

Most renamed or dropped keys, such as the name of a cluster, do not change the training. Keys about the algorithm, the
teacher, thinking, sampling, truncated completions and difficulty change the training, and so does a misspelt key on
which somebody relied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.migrate.rows import KeyChange

_MEANINGS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), meaning, fix)
    for pattern, meaning, fix in (
        (
            r"(^|\.)(loss|loss_type)$",
            "the algorithm: the new config trains with GRPO on the environment's reward",
            'To learn from a teacher, write [orchestrator.algo] type = "opd" with teacher.name and teacher.base_url by '
            "hand, or choose another algorithm of lab://reference/training-config.",
        ),
        (
            r"(^|\.)teacher(\.|$)|teacher_",
            "the teacher: the new config learns from the reward alone",
            'Write [orchestrator.algo] type = "opd" with teacher.name and teacher.base_url by hand.',
        ),
        (
            r"(^|\.)enable_thinking$",
            "whether the model thinks first: the renderer of the model decides that now",
            "Choose a model of the other kind (Instruct or Thinking), or set the renderer's own key for it, e.g. "
            'extra={"orchestrator.renderer": {"name": "qwen3", "enable_thinking": false}}.',
        ),
        (
            r"(^|\.)reasoning_effort$",
            "how long the model thinks in training: the renderer of the model decides that now",
            "Set the renderer's own key for it where it has one, and max_tokens for the room it needs.",
        ),
        (
            r"sampling\.(top_p|top_k|min_p|temp_scheduler\b.*|repetition_penalty)$",
            "what is sampled in training: tokens are drawn from the whole distribution at one temperature",
            "Nothing to do where you meant the default; evaluate at the temperature of training.",
        ),
        (
            r"(mask|zero)_truncated_completions$",
            "how cut completions count: they are trained on with their reward",
            "Give completions room with max_tokens, so that few are cut.",
        ),
        (
            r"(^|\.)max_turns$",
            "the number of turns: the taskset or its agent bounds them now",
            'Pass env_args={"max_turns": N} if the taskset has the key, or set env.agent.max_turns of the source.',
        ),
        (
            r"max_async_level$",
            "how old a rollout may be: the bound counts optimizer steps",
            "Compare orchestrator.max_off_policy_steps with the value that you mean.",
        ),
        (
            r"(buffer|filters).*(type|threshold|filtering|easy|hard|zero_adv)|^(pre|post)_batch_filters",
            "which tasks are drawn: a curriculum takes the place of the buffer or filter",
            "Compare the curriculum of each source with what you mean; curriculum= chooses another.",
        ),
    )
)
_MISTYPED = re.compile(r"^it (must be|is \"None\")")


def migration_findings(changes: Iterable[KeyChange]) -> Iterator[Finding]:
    """Yield a warning for every key whose migration changes what the run learns."""
    for change in changes:
        if change.to == "kept" or (change.place is not None and change.place.rpartition(".")[2] == _leaf(change.key)):
            continue
        if change.to.startswith("dropped") and (_MISTYPED.match(change.why) or "is no key of this table" in change.why):
            yield _warning(
                change,
                f"the setting: {change.why}",
                f"Set the key that you mean with extra; the old value was {quote(change.was, limit=60)}.",
            )
            continue
        for pattern, meaning, fix in _MEANINGS:
            if pattern.search(change.key) and not _same_algorithm(change):
                yield _warning(change, meaning, fix)
                break


def _warning(change: KeyChange, meaning: str, fix: str) -> Finding:
    now = "is left out" if change.to.startswith("dropped") else f"became {quote(change.to, limit=100)}"
    return Finding(
        "migration-meaning",
        "warning",
        f"{quote(change.key, limit=100)} {now}. This changes {meaning}.",
        fix,
        change.key,
    )


def _same_algorithm(change: KeyChange) -> bool:
    return change.place == "orchestrator.algo.type" or (
        change.key.endswith("max_async_level") and change.to.startswith("dropped")
    )


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]
