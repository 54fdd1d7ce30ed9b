"""How long a completion and a sample may be.

Rule: 1.25 times the 95th percentile that an evaluation measured (facts/validation 4.1). An evaluation counts all turns
of a rollout together, and tool output among its prompt tokens, so what it measured is the whole sample already.
"""

from __future__ import annotations

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.plan.choices import Choices, Value, up
from prime_lab_mcp.lab.configs.rules_tokens import COMPLETION_MARGIN
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.models import find

ASSUMED_PROMPT = 1024
"""Tokens left for a prompt that nobody measured."""
CUT_OFF = 0.05
"""Share of truncated rollouts from which on the percentile is the evaluation's own limit."""
_THINKING, _PLAIN = 4096, 1024


def budget(choices: Choices, seen: Observed, model: str) -> Value:
    """max_completion_tokens, within what the model's context leaves beside the prompt."""
    if choices.max_tokens is not None:
        return Value(choices.max_tokens, choices.because.get("max_tokens", "as asked"))
    known = find(model)
    chosen = _measured(seen) if seen.completion_tokens else None
    if chosen is None:
        kind = (_THINKING, "a model that thinks first") if known.thinks else (_PLAIN, "a short derivation")
        chosen = Value(kind[0], f"not measured: room for {kind[1]}; run_eval tells")
    if known.context is None:
        return chosen
    room = known.context - (seen.prompt_tokens or ASSUMED_PROMPT)
    if chosen.value <= room:
        return chosen
    return Value(
        max(1, room),
        f"what the context of {known.context} tokens leaves beside the prompt; {chosen.value} were wanted",
    )


def _measured(seen: Observed) -> Value:
    tokens, told = seen.completion_tokens or 0, f", {seen.told}" if seen.told else ""
    if seen.truncated is not None and seen.truncated > CUT_OFF:
        return Value(
            up(2 * tokens, 128),
            f"twice the {tokens} tokens (p95) of the eval{told}: it cut {seen.truncated:.0%} of rollouts off, so that "
            "is its limit and no length",
        )
    size = up(int(COMPLETION_MARGIN * tokens) + 1, 128)
    return Value(size, f"{COMPLETION_MARGIN} times the {tokens} tokens (p95) that the eval measured{told}")


def seq_len(choices: Choices, seen: Observed, budget: int, model: str) -> Value:
    """Tokens of a whole sample. Raises BadInput where one that was asked for cannot hold the budget."""
    prompt = seen.prompt_tokens or ASSUMED_PROMPT
    measured = bool(seen.prompt_tokens and seen.completion_tokens)
    turns = max(s.turns for s in choices.sources)
    longest = max(budget, seen.longest or 0) if measured else budget * turns
    needed = prompt + longest
    if choices.seq_len is not None:
        if choices.seq_len < budget + (seen.prompt_tokens or 0):
            raise BadInput(
                f"seq_len {choices.seq_len} does not hold {budget} completion tokens beside the prompt",
                fix=f"Pass seq_len={up(needed, 1024)} or a smaller max_tokens.",
                code="config-budget-exceeds-seq-len",
            )
        return Value(choices.seq_len, choices.because.get("seq_len", "as asked"))
    kind = "p99 of the eval, with tool output" if seen.prompt_tokens else "assumed"
    times = f" x {turns} turns" if turns > 1 and not measured else ", all turns together" if measured else ""
    completion = f"{longest}{times}" if not measured or longest == budget else f"{longest} (p99{times})"
    size = max(2048, up(needed, 1024))
    context = find(model).context
    if context is not None and size > context >= prompt + budget:
        return Value(context, f"the context of the model; {prompt} + {completion} tokens would take {size}")
    return Value(size, f"{prompt} prompt tokens ({kind}) + {completion}, rounded up")
