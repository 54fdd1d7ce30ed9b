"""`write_training_config`: writes a current prime-rl config with a reason for every value, new or from an older
file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

import anyio
from pydantic import AfterValidator, Field

from prime_lab_mcp.lab.base.errors import BadInput, BudgetError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.author import ConfigRequest, WrittenConfig, write_config
from prime_lab_mcp.lab.configs.own_gpus import LaunchGuidance, launch_guidance, shares_one_gpu
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices
from prime_lab_mcp.lab.configs.rules.run import OWN_SPLIT
from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT
from prime_lab_mcp.lab.configs.warm_up.author import hosted_steps, write_warm_up
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.training.budget import ConfigBudget, WalletBudget
from prime_lab_mcp.lab.training.cost import CostForecast, forecast_from_ledger
from prime_lab_mcp.lab.training.evaluations import pull_for_held_out_tasks
from prime_lab_mcp.lab.training.next_step import untested_source
from prime_lab_mcp.lab.training.wallet import WalletForRun, wallet_findings
from prime_lab_mcp.tools.argument_types import Dollars
from prime_lab_mcp.tools.budgeting import (
    bound_sentence,
    budget_data,
    far_bound_reason,
    fuller_call,
    fuller_sentence,
    larger_steps_call,
    over_budget,
    shorter_call,
    wallet_call,
)
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

_CHANGES = 40
"""Number of changes in a report. The rest is counted, and the comments of the file name all changes."""
_MOST_GPUS = 512
_NAMED_SUM = "; where the user named a sum, first this call again with that sum as budget"


def _short(text: str) -> str:
    if not 1 <= len(text) <= 300:
        raise ValueError("must have 1 to 300 characters")
    return text


def _sane(number: int) -> int:
    if number > 10_000_000:
        raise ValueError("is beyond any run")
    return number


def _rate(number: float) -> float:
    if not 0 < number <= 1:
        raise ValueError("must be above 0 and at most 1")
    return number


def _few(number: int | None) -> int | None:
    if number is not None and number > _MOST_GPUS:
        raise ValueError(f"is more than {_MOST_GPUS}")
    return number


Positive = Annotated[int, Field(ge=1), AfterValidator(_sane)]
Text = Annotated[str, AfterValidator(_short)]
"""A validator, because a bound in the schema would lengthen what every client reads at every start."""


class Args(Arguments):
    ONE_OF: ClassVar[tuple[str, ...]] = ("environments", "based_on", "sft")

    environments: Annotated[list[Text] | None, Field(description="Folders, or owner/name@version.")] = None
    ratios: list[float] | None = None
    model: Text | None = None
    target: Literal["hosted", "self-managed"] = "hosted"
    name: Text | None = None
    budget: Annotated[Dollars | None, Field(description="US dollars.")] = None
    steps: Positive | None = None
    batch: Annotated[Positive | None, Field(description="Rollouts a step.")] = None
    group: Annotated[int | None, Field(ge=2, description="Rollouts a task.")] = None
    max_tokens: Annotated[Positive | None, Field(description="Per completion.")] = None
    lora: bool | None = None
    lr: Annotated[float, AfterValidator(_rate)] | None = None
    gpus: Annotated[Positive | None, AfterValidator(_few), Field(description="Train and infer.")] = None
    gpu_type: Text | None = None
    wandb: Annotated[Text | None, Field(description="Project.")] = None
    curriculum: Literal["gate", "pools", "both"] | None = None
    env_args: Annotated[dict[str, Any] | None, Field(description="Taskset keys.")] = None
    eval: Annotated[dict[str, Any] | None, Field(description="Keys of held-out tasks; {}: none.")] = None
    extra: Annotated[dict[str, Any] | None, Field(description='More keys: {"seq_len": 8192}.')] = None
    notes: Text | None = None
    based_on: Annotated[Text | None, Field(description="Old config or folder.")] = None
    sft: Annotated[Text | None, Field(description="SFT warm-up: eval id or dataset.")] = None


async def run(call: Call, args: Args) -> Outcome:
    if args.gpus == 1 and args.target == "hosted" and args.sft is None:
        raise BadInput(
            "hosted training takes two GPUs at least: one trains, one generates",
            fix=Fix(
                "Pass ",
                SameCall(gpus=2),
                " or more, or ",
                SameCall(target="self-managed"),
                " for a single GPU of your own.",
            ),
            code="config-gpus",
        )
    if args.sft is not None:
        if args.budget is not None:
            raise BadInput(
                "a warm-up has no bound of its cost",
                fix=Fix("Leave ", SameCall.without("budget"), " out."),
                code="price-unbounded",
            )
        return await _warmed_up(call, args, args.sft)
    budgeted = ConfigBudget(call.lab, args.budget) if args.budget is not None else None
    held = await _wallet(call, args)
    wallet = WalletBudget(call.lab, held.free) if held is not None and budgeted is None else None
    fit = budgeted.fit if budgeted is not None else wallet.fit if wallet is not None else None
    try:
        written = await write_config(call.lab, config_request(args), datetime.now(UTC).date(), fit)
    except BudgetError as error:
        raise over_budget(error, "write_training_config", args) from None
    own = await _own_gpus(call, written)
    fuller = budgeted.fuller if budgeted is not None else None
    budget = budget_data(call, written, args.budget, args, fuller)
    price = written.price_per_gpu_hour
    likely = forecast_from_ledger(call.lab, written.config, price) if price is not None else None
    cost = _cost(likely)
    pull = pull_for_held_out_tasks(call.lab, written.config.table) if written.config.target == "hosted" else None
    low = _wallet_sentence(likely, held)
    smaller = wallet.sentence(_sizes_summary(wallet.sizes)) if wallet is not None else ""
    low += f" {smaller}" if smaller else ""
    short = bool(smaller) and _falls_short(likely, held)
    affordable = wallet_call(wallet, args.model_dump(mode="json", exclude_unset=True)) if short else None
    check = Next("check_training_config", "judges it before it is paid for", {"path": written.relative})
    blind = "" if written.config.eval_sources else _blind(written)
    untested = untested_source(call.lab, written.config) if written.config.target == "hosted" else None
    usual = (_count_tasks(call, written), untested, check, _own_split(written), pull)
    larger = await larger_steps_call(call, written, args, config_request(args))
    others = (shorter_call(written, args), larger, fuller_call(fuller, args, args.budget))
    following = [one for one in (affordable, *usual, *others) if one is not None]
    if args.budget is None and affordable is None and price is not None and written.config.target == "hosted":
        following[0] = replace(following[0], why=following[0].why + _NAMED_SUM)
    return Outcome(
        "passed",
        _summary(written)
        + (low if short else "")
        + _model_sentence(written, args)
        + _arguments_sentence(written, args)
        + _uncounted_sentence(written)
        + _cost_sentence(budget, cost)
        + fuller_sentence(fuller, call="the last call of next")
        + ("" if short else low)
        + blind,
        (*written.findings, *own.findings),
        _data(written) | cost | budget | own.data,
        next=tuple(following),
        facts=Facts(config_sha256=written.config.sha256, model=written.config.model),
    )


def _blind(written: WrittenConfig) -> str:
    """What a run without held-out tasks cannot show, said before it is paid for."""
    if not written.without_held_out:
        return " It evaluates no held-out tasks: its rewards alone prove no progress."
    names = quote(", ".join(sorted(written.without_held_out)), 120)
    if written.without_held_out <= written.own_splits.keys():
        folders = quote(", ".join(sorted(folder for folder, _ in written.own_splits.values())), 120)
        return (
            f" The published code of {names} has no held-out tasks, so the run evaluates none. Those of the folder "
            f"{folders} judge its checkpoint afterwards: run_eval(compare_base=true) with their env_args."
        )
    return (
        f" The code of {names} has no held-out tasks, so this run cannot show whether the model gets better at tasks "
        f"that it was not trained on. {OWN_SPLIT}"
    )


def _own_split(written: WrittenConfig) -> Next | None:
    """The call towards held-out tasks of one's own, where the code is here and has none."""
    ids = sorted(written.without_held_out - written.own_splits.keys()) if not written.config.eval_sources else []
    if not ids or written.config.target != "hosted":
        return None
    why = "where a `split` with tasks of your own goes, by edit_environment, to judge the checkpoint by"
    return Next("read_environment", why, {"environment": written.folders[ids[0]]})


def _uncounted_sentence(written: WrittenConfig) -> str:
    """Says that the number of tasks limits nothing, where it is unknown."""
    if not written.uncounted:
        return ""
    names = quote(", ".join(sorted(written.uncounted)), 120)
    return f" How many tasks {names} has is not known here, so nothing limits how often the run passes over them."


def _count_tasks(call: Call, written: WrittenConfig) -> Next | None:
    """The call that counts the tasks of a source whose files are here and were never checked."""
    selected = {source.id for source in written.config.train_sources if source.args}
    for id, folder in written.uncounted.items():
        checked = folder is None or call.lab.ledger.evidence(call.lab.key, tool="check_environment", environment=folder)
        if id not in selected and folder is not None and not checked:
            why = "counts the tasks, which limit the steps: then write the config again"
            return Next("check_environment", why, {"environment": folder})
    return None


def _model_sentence(written: WrittenConfig, args: Args) -> str:
    """Which model is trained and why, where the call named none and evaluations chose the model."""
    why = written.proposal.plan.choices.because.get("model")
    if args.model is not None or args.based_on is not None or not why:
        return ""
    return f" It trains {quote(written.config.model, 80)[1:-1]}: {why}. model=NAME trains another."


def _arguments_sentence(written: WrittenConfig, args: Args) -> str:
    """Which tasks are trained on, where the config selects some."""
    given = dict.fromkeys(arguments_summary(s.args) for s in written.config.train_sources if s.args)
    if not given:
        return ""
    asked = args.env_args is not None or args.based_on is not None
    why = "" if asked else ", with which it was proven; pass env_args={} for the defaults"
    return f" It trains with {' and with '.join(given)}{why}."


def _cost_sentence(budget: Mapping[str, Any], cost: Mapping[str, Any]) -> str:
    """What the summary says of the cost: the bound of a config, with a budget or without."""
    if not budget:
        likely, most = cost.get("cost", {}).get("dollars", {}).get("expected"), cost.get("cost", {}).get("upper_bound")
        if likely is None or most is None:
            return ""
        reason = far_bound_reason(likely, most)
        why = f" {reason}." if reason else ""
        return (
            f" It costs likely ${likely:.2f} and at most ${most:.2f}; where the user named a sum, this call with that "
            f"sum as budget writes one that stays below it.{why}"
        )
    likely = cost.get("cost", {}).get("dollars", {}).get("expected")
    expected = f", and likely ${likely:.2f}" if likely is not None else ""
    return f" It costs at most ${budget['budget']['at_most']:.2f}{expected}.{bound_sentence(budget)}"


async def _wallet(call: Call, args: Args) -> WalletForRun | None:
    """The wallet that pays for the run; None where none does or nobody knows what it holds."""
    if args.target != "hosted":
        return None
    try:
        return WalletForRun.of(call.lab, await call.lab.prime.wallet())
    except LabError:
        return None


def _wallet_sentence(likely: CostForecast | None, wallet: WalletForRun | None) -> str:
    """What the wallet means for the run; empty where the wallet is unknown or holds the bound."""
    if wallet is None or likely is None or likely.upper_bound is None:
        return ""
    messages = [f.message for f in wallet_findings(wallet, likely.upper_bound, likely)]
    return "".join(f" {message[0].upper()}{message[1:]}." for message in messages)


def _sizes_summary(sizes: Mapping[str, Any]) -> str:
    """The arguments of a smaller run in words: `This call with steps=20 and batch=32`."""
    return f"This call with {NamedCall('write_training_config').changed(**sizes).text.partition(' with ')[2]}"


def _falls_short(likely: CostForecast | None, wallet: WalletForRun | None) -> bool:
    """Whether the wallet has less for the run than it costs at the upper end of what is likely, or nobody knows."""
    return wallet is None or likely is None or likely.dollars is None or likely.dollars[2] > wallet.free


async def _warmed_up(call: Call, args: Args, source: str) -> Outcome:
    written = await anyio.to_thread.run_sync(
        write_warm_up, call.lab, config_request(args), source, datetime.now(UTC).date()
    )
    config, examples = written.config, written.examples
    own = LaunchGuidance({}, ())
    if config.target == "self-managed":
        own = await launch_guidance(call.lab, config, written.relative, conversations=written.data)
    else:
        dataset = examples.name if written.data is None else None
        own.data["launch"] = [s.as_json() for s in hosted_steps(config, written.relative, dataset)]
    data = {
        "path": written.relative,
        "sha256": config.sha256,
        "version": written.version,
        "schema_commit": SCHEMA_COMMIT,
        "target": config.target,
        "model": config.model,
        "data": written.data or examples.name,
        "existed": written.existed,
    }
    if examples.rows is not None:
        data |= {"conversations": len(examples.rows), "tokens": examples.tokens}
    how = "there already, with the same values" if written.existed else "written"
    return Outcome(
        "passed",
        f"{written.relative} is {how}: {config.max_steps} steps of supervised fine-tuning of {config.model} on "
        f"{examples.source_summary}. A person starts it; then evaluate again, and train what it gave.",
        (*examples.findings, *own.findings),
        data | own.data,
        next=(Next("check_training_config", "judges it before it is paid for", {"path": written.relative}),),
        facts=Facts(config_sha256=config.sha256, model=config.model),
    )


async def _own_gpus(call: Call, written: WrittenConfig) -> LaunchGuidance:
    if written.config.target != "self-managed":
        return LaunchGuidance({}, ())
    asked = written.proposal.plan.choices.gpu_type
    return await launch_guidance(call.lab, written.config, written.relative, shared=_shared(written), gpu_type=asked)


def _shared(written: WrittenConfig) -> bool:
    return written.config.target == "self-managed" and shares_one_gpu(written.proposal.plan.choices.gpus)


def config_request(args: Args) -> ConfigRequest:
    """Convert the arguments to the request of the config writer."""
    choices = ConfigChoices(
        sources=(),
        **args.model_dump(
            include={
                "model",
                "target",
                "steps",
                "batch",
                "group",
                "max_tokens",
                "lora",
                "lr",
                "gpus",
                "gpu_type",
                "wandb",
                "curriculum",
            }
        ),
    )
    return ConfigRequest(
        environments=tuple(args.environments or ()),
        choices=choices,
        env_args=args.env_args,
        extra=args.extra or {},
        ratios=tuple(args.ratios or ()),
        notes=args.notes,
        held_out=args.eval,
        name=args.name,
        based_on=args.based_on,
    )


def _summary(written: WrittenConfig) -> str:
    plan, config = written.proposal.plan, written.config
    how = "there already, with the same values" if written.existed else "written"
    mode = "LoRA" if plan.lora_rank else "full fine-tuning"
    changed = count(sum(change.to != "kept" for change in written.changes), "change")
    based = f", based on {written.based_on} with {changed}" if written.based_on else ""
    price = f", {written.price_per_hour:.2f} dollars an hour" if written.price_per_hour is not None else ""
    return (
        f"{written.relative} is {how}{based}: {config.max_steps} steps of {config.batch_size} rollouts in groups of "
        f"{config.group_size}, {mode}, on {count(1 if _shared(written) else config.gpus, 'GPU')}{price}."
    )


def _data(written: WrittenConfig) -> dict[str, Any]:
    changed = [change for change in written.changes if change.to != "kept"]
    data: dict[str, Any] = {
        "path": written.relative,
        "sha256": written.config.sha256,
        "version": written.version,
        "schema_commit": SCHEMA_COMMIT,
        "target": written.config.target,
        "model": written.config.model,
        "environments": [s.id for s in written.config.train_sources],
        "eval_sources": [{"id": s.id, **dict(s.args)} for s in written.config.eval_sources],
        "existed": written.existed,
        "changes": [change.as_json() for change in changed[:_CHANGES]],
    }
    if unchanged := [change.key for change in written.changes if change.to == "kept"]:
        data["kept"] = unchanged[:_CHANGES]
    if written.based_on:
        data["based_on"] = written.based_on
    if len(changed) > _CHANGES:
        data["changes_not_shown"] = len(changed) - _CHANGES
    if written.config.gpu_type:
        data["gpu_type"] = written.config.gpu_type
    data["hardware"] = written.hardware
    if written.price_per_hour is not None:
        data |= {"price_per_hour": written.price_per_hour, "price_per_gpu_hour": written.price_per_gpu_hour}
    return data


def _cost(likely: CostForecast | None) -> dict[str, Any]:
    """The cost forecast without its assumptions; check_training_config lists those."""
    estimate = likely.as_json() if likely else {}
    return {"cost": {key: value for key, value in estimate.items() if key != "assumptions"}} if estimate else {}


TOOL = Tool(
    name="write_training_config",
    title="Write training config",
    description="Write configs/rl/NAME.toml for prime-rl, each value with its reason.",
    args=Args,
    run=run,
    effect="writes",
    needs_verdicts=True,
    open_world=True,
)
