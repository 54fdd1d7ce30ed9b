"""The advice for each class of rollouts that earned nothing, and the tool to call next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.evals.zeros.turns import Cause, Zero


@dataclass(frozen=True, slots=True)
class ZeroAdvice:
    """Advice for one class of rollouts, and the tool to call next."""

    text: str
    tool: str
    arguments: tuple[str, ...] = ()
    """Names of the arguments of that call. The view fills in their values."""


AGAIN = ("environment", "model")
"""Arguments of the call that runs the same evaluation again."""
_RENDERING = (
    "in `rendering` the form in which it wrote right answers, and whether they were paid; where they were not, that is "
    'the form of the prompt, and the code of the reward (read_environment with path="*") shows which one it reads'
)
"""What the field `rendering` of test_reward shows: its calibration takes the form of the prompt where none is paid."""
RUNAWAY_ADVICE = ZeroAdvice(
    "Completions that finish need a small part of the limit, and these run on to its end: read them, they may repeat "
    "themselves; a higher limit would pay for more of the same.",
    "read_eval",
    ("eval", "view", "where"),
)
"""Advice on `truncated` rollouts if the token limit is far above the length of the other completions."""
EARLY_ADVICE = ZeroAdvice(
    "The server says that it cut these off, and they are far shorter than max_tokens: another limit held, such as one "
    "of the server. A higher max_tokens changes nothing; read them.",
    "read_eval",
    ("eval", "view", "where"),
)
"""Advice on `truncated` rollouts if all of them are far below the token limit."""
ADVICE: Mapping[tuple[Zero, Cause], ZeroAdvice] = {
    ("wrong", ""): ZeroAdvice(
        "The answers are wrong and their form is not at fault: what training changes. Read some of them.",
        "read_eval",
        ("eval", "view", "where"),
    ),
    ("wrong", "gold"): ZeroAdvice(
        "The replies answer with the reference answer, and the reward does not pay them. It raises, or compares the "
        "text with the unit or LaTeX of the stored answer, or takes another part of the reply (for instance by the "
        "wrong group of a pattern), or reads a form that the prompt does not ask for. "
        f"test_reward shows what it raises, and {_RENDERING}.",
        "test_reward",
        ("environment",),
    ),
    ("wrong", "unpaid"): ZeroAdvice(
        "No reply of this evaluation was paid, so nothing tells wrong answers from right ones in a form that the "
        f"reward does not read. test_reward shows {_RENDERING}. Compare both with some of these replies.",
        "test_reward",
        ("environment",),
    ),
    ("unparsed", ""): ZeroAdvice(
        "Say the form more clearly in the prompt, with one example, or let the parser accept what is meant; "
        "test_reward shows that wrong answers still earn nothing.",
        "read_environment",
        ("environment",),
    ),
    ("unparsed", "lacks"): ZeroAdvice(
        "Read some of these replies beside the paid texts. Where the prompt asks for what they lack, show one whole "
        "reply in it, or evaluate a model that follows it; where it does not, ask for it, or let the reward read these "
        "replies.",
        "read_eval",
        ("eval", "view", "where"),
    ),
    ("unparsed", "asked"): ZeroAdvice(
        "These replies have the form that the prompt asks for, and the reward found no reply of all in form: it reads "
        f"another one. test_reward shows {_RENDERING}. Mend the prompt or the reward.",
        "test_reward",
        ("environment",),
    ),
    ("truncated", "tokens"): ZeroAdvice(
        "Cut off by the token limit, which looks like failure: raise it, here and in the training config.",
        "run_eval",
        (*AGAIN, "max_tokens"),
    ),
    ("truncated", "shape"): ZeroAdvice(
        "These end in the open and the results do not say why: raise the limit and compare.",
        "run_eval",
        (*AGAIN, "max_tokens"),
    ),
    ("truncated", "context"): ZeroAdvice(
        "The conversation outgrew the model's context: fewer turns, shorter tool results, or a longer context.",
        "read_environment",
        ("environment",),
    ),
    ("truncated", "turns"): ZeroAdvice(
        "Out of turns before an answer: raise the turns of the environment, or tell the model how many it has.",
        "read_environment",
        ("environment",),
    ),
    ("no_tool_call", ""): ZeroAdvice(
        "The model answers without its tools: say when to call them, try a model trained for tools, "
        "or warm up with examples.",
        "read_environment",
        ("environment",),
    ),
    ("malformed_tool_json", ""): ZeroAdvice(
        "JSON errors in the middle are the model's: let the tool's error say what was wrong, take simpler arguments, "
        "or a model that calls tools better.",
        "run_eval",
        ("environment",),
    ),
    ("malformed_tool_json", "code"): ZeroAdvice(
        "The model writes raw code where JSON belongs: show one call in the prompt, or take a model that calls tools.",
        "read_environment",
        ("environment",),
    ),
    ("malformed_tool_json", "parser"): ZeroAdvice(
        "The call stands in the text: wrong tool_call_parser. Start the server with the parser of this model "
        "(vLLM: --enable-auto-tool-choice --tool-call-parser NAME), then run again.",
        "run_eval",
        AGAIN,
    ),
    ("double_encoded", ""): ZeroAdvice(
        "Arguments were encoded twice, by the model's chat template or by the model: check the tool_call_parser, "
        "or decode once in the tool.",
        "read_environment",
        ("environment",),
    ),
    ("unknown_tool", ""): ZeroAdvice(
        "It calls tools that do not exist: name the tools in the prompt, and answer such a call with the list.",
        "read_environment",
        ("environment",),
    ),
    ("bad_arguments", ""): ZeroAdvice(
        "Valid calls with wrong arguments: task skill, which training can change; clearer descriptions and error "
        "texts help.",
        "read_environment",
        ("environment",),
    ),
    ("tool_timeout", ""): ZeroAdvice(
        "Tools took longer than their limit: make them faster, raise their timeout, or lower concurrency.",
        "run_eval",
        (*AGAIN, "concurrency"),
    ),
    ("empty_response", ""): ZeroAdvice(
        "The model said nothing: look at the endpoint, its chat template and the stop tokens.",
        "preflight",
        (),
    ),
    ("judge_unparsed", ""): ZeroAdvice(
        "The judge gave no verdict that the environment could read: ask for one fixed line at temperature 0, or take "
        "a stronger judge.",
        "test_reward",
        ("environment",),
    ),
    ("infrastructure", "provider"): ZeroAdvice(
        "The endpoint failed, so this is no wrong answer: lower concurrency or wait, then run again; finished "
        "rollouts are kept.",
        "preflight",
        (),
    ),
    ("infrastructure", "harness"): ZeroAdvice(
        "The harness or its sandbox failed, not the model: read the error below, mend it and run again.",
        "run_eval",
        AGAIN,
    ),
    ("infrastructure", "environment"): ZeroAdvice(
        "Code of the environment raised: test_reward shows where.",
        "test_reward",
        ("environment",),
    ),
    ("infrastructure", "nonfinite"): ZeroAdvice(
        "The reward is NaN or infinite: test_reward shows for what.",
        "test_reward",
        ("environment",),
    ),
    ("infrastructure", "backend"): ZeroAdvice(
        "A service behind a tool did not answer: mend it and run again.",
        "run_eval",
        AGAIN,
    ),
    ("infrastructure", "time"): ZeroAdvice(
        "The time of the rollout ran out: lower concurrency or raise the environment's timeout.",
        "run_eval",
        (*AGAIN, "concurrency"),
    ),
}


def advice_for_zero(kind: Zero, cause: Cause) -> ZeroAdvice:
    """Return the advice for a class and cause. A cause without its own advice gets that of its class."""
    return ADVICE.get((kind, cause)) or next(a for (k, _), a in ADVICE.items() if k == kind)


def known_arguments(advice: ZeroAdvice, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the advised call, with values from `arguments`; those without a value are left out."""
    return {name: arguments[name] for name in advice.arguments if arguments.get(name) is not None}
