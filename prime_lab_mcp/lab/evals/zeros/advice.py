"""What to do about each class of zero, and the call that does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.evals.zeros.kinds import Cause, Zero


@dataclass(frozen=True, slots=True)
class Advice:
    text: str
    tool: str
    arguments: tuple[str, ...] = ()
    """Names of those that the view fills in: `environment`, `model`, `max_tokens`, `eval`."""


_AGAIN = ("environment", "model")
RUNAWAY = Advice(
    "Completions that finish need a small part of the limit, and these run on to its end: read them, they may repeat "
    "themselves; a higher limit would pay for more of the same.",
    "read_eval",
    ("eval", "view", "where"),
)
"""For `truncated` where the limit is far above what the others took."""
ADVICE: Mapping[tuple[Zero, Cause], Advice] = {
    ("wrong", ""): Advice(
        "Right form, wrong answer: what training changes. Look whether some groups are mixed.",
        "check_reward_distribution", ("results",),
    ),
    ("unparsed", ""): Advice(
        "Say the form more clearly in the prompt, with one example, or let the parser accept what is meant; "
        "test_reward then shows that wrong answers still earn nothing.",
        "edit_environment", ("environment",),
    ),
    ("truncated", "tokens"): Advice(
        "Cut off by the token limit, which looks like failure: raise it, here and in the training config.",
        "run_eval", (*_AGAIN, "max_tokens"),
    ),
    ("truncated", "shape"): Advice(
        "These end in the open and the results do not say why: raise the limit and compare.",
        "run_eval", (*_AGAIN, "max_tokens"),
    ),
    ("truncated", "context"): Advice(
        "The conversation outgrew the model's context: fewer turns, shorter tool results, or a longer context.",
        "edit_environment", ("environment",),
    ),
    ("truncated", "turns"): Advice(
        "Out of turns before an answer: raise the turns of the environment, or tell the model how many it has.",
        "edit_environment", ("environment",),
    ),
    ("no_tool_call", ""): Advice(
        "The model answers without its tools: say in the prompt when to call them, try a model trained for tools, "
        "or warm up with examples.",
        "edit_environment", ("environment",),
    ),
    ("malformed_tool_json", ""): Advice(
        "JSON errors in the middle are the model's: let the tool's error say what was wrong, take simpler arguments, "
        "or a model that calls tools better.",
        "run_eval", ("environment",),
    ),
    ("malformed_tool_json", "code"): Advice(
        "The model writes raw code where JSON belongs: show one call in the prompt, or take a model that calls tools.",
        "edit_environment", ("environment",),
    ),
    ("malformed_tool_json", "parser"): Advice(
        "The call stands in the text: wrong tool_call_parser. Start the server with the parser of this model "
        "(vLLM: --enable-auto-tool-choice --tool-call-parser NAME), then run again.",
        "run_eval", _AGAIN,
    ),
    ("double_encoded", ""): Advice(
        "Arguments were encoded twice, by the model's chat template or by the model: check the tool_call_parser, "
        "or decode such texts once in the tool.",
        "edit_environment", ("environment",),
    ),
    ("unknown_tool", ""): Advice(
        "It calls tools that do not exist: name the tools in the prompt as they are called, and answer such a call "
        "with the list.",
        "edit_environment", ("environment",),
    ),
    ("bad_arguments", ""): Advice(
        "Valid calls with wrong arguments: task skill, which training can change; clearer descriptions and error "
        "texts help.",
        "edit_environment", ("environment",),
    ),
    ("tool_timeout", ""): Advice(
        "Tools took longer than their limit: make them faster, raise their timeout, or lower concurrency.",
        "run_eval", (*_AGAIN, "concurrency"),
    ),
    ("empty_response", ""): Advice(
        "The model said nothing: look at the endpoint, its chat template and the stop tokens.",
        "preflight", (),
    ),
    ("judge_unparsed", ""): Advice(
        "The judge gave no verdict that the environment could read: ask for one fixed line at temperature 0, or take "
        "a stronger judge.",
        "test_reward", ("environment",),
    ),
    ("infrastructure", "provider"): Advice(
        "The endpoint failed, so this is no wrong answer: lower concurrency or wait, then run again; finished "
        "rollouts are kept.",
        "preflight", (),
    ),
    ("infrastructure", "harness"): Advice(
        "The harness or its sandbox failed, not the model: read the error below, mend it and run again.",
        "run_eval", _AGAIN,
    ),
    ("infrastructure", "environment"): Advice(
        "Code of the environment raised: test_reward shows where.", "test_reward", ("environment",),
    ),
    ("infrastructure", "nonfinite"): Advice(
        "The reward is NaN or infinite: test_reward shows for what.", "test_reward", ("environment",),
    ),
    ("infrastructure", "backend"): Advice(
        "A service behind a tool did not answer: mend it and run again.", "run_eval", _AGAIN,
    ),
    ("infrastructure", "time"): Advice(
        "The time of the rollout ran out: lower concurrency or raise the environment's timeout.",
        "run_eval", (*_AGAIN, "concurrency"),
    ),
}  # fmt: skip


def advice_for(kind: Zero, cause: Cause) -> Advice:
    return ADVICE.get((kind, cause)) or next(a for (k, _), a in ADVICE.items() if k == kind)


def filled(advice: Advice, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the call that are known."""
    return {name: values[name] for name in advice.arguments if values.get(name) is not None}
