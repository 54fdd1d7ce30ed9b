"""Training runs: what one is called and may cost, submitting it at most once, and settling what is not known.

A run's name ends in eight hex digits of its intent, so that after a timeout or a crash the platform itself says whether
it exists. While the platform cannot be asked, nothing is sent again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.errors import BadInput, LabError, PrimeError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Submitted
from prime_lab_mcp.lab.prime.refusals import Refusal
from prime_lab_mcp.lab.records import Run
from prime_lab_mcp.lab.text import quote

TERMINAL = frozenset({"COMPLETED", "FAILED", "STOPPED"})
"""A run in these has ended for good; a PAUSED one can be resumed."""
SETTLE_SECONDS = 330.0
"""prime may take 300 s over a submission; until then a run that is not listed may still appear."""
MINUTES_PER_STEP = 6.0
"""Upper bound for a small step with generation, training and weight transfer (judgement from prime-rl's recipes)."""
START_HOURS = 0.5
TOKENS_PER_GPU_SECOND = 2500.0
SLACK = 2.0
"""Generation may take this much longer than at the assumed speed, before it counts as an overrun."""
_NAME_LINE = re.compile(r"""^(name\s*=\s*)(["'])([^"'\n]*)\2[ \t]*(#.*)?$""", re.M)
_TABLE = re.compile(r"^\s*\[", re.M)
_SECRETS = ("WANDB_API_KEY", "HF_TOKEN")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an intent stands: `fresh` may be sent, `existing` is a run with `id` and `status`."""

    state: Literal["fresh", "existing"]
    key: str
    attempt: int
    name: str
    id: str | None = None
    status: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL or self.status == "DELETED"


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars. `max_cost` None: no price is known, or the run has no end."""

    price_per_hour: float | None
    max_cost: float | None
    hours: float | None
    why: str


async def standing(lab: Lab, config: Config, *, resume_from: str | None = None, again: bool = False) -> Standing:
    """Look the intent up, here and where needed on the platform. Raises PrimeError while that cannot be asked."""
    attempt = 1
    while lab.ledger.intent(_key(lab, config, resume_from, attempt + 1), lab.platform) is not None:
        attempt += 1
    key = _key(lab, config, resume_from, attempt)
    name = run_name(config, key)
    known = lab.ledger.intent(key, lab.platform)
    if known is None or known.state == "open":
        return Standing("fresh", key, attempt, name)
    id = str(known.result["id"]) if known.state == "done" else await _settled(lab, config, key, attempt, name, known.at)
    if id is None:
        return Standing("fresh", key, attempt, name)
    found = Standing("existing", key, attempt, name, id, await status_of(lab, id))
    if again and found.ended:
        key = _key(lab, config, resume_from, attempt + 1)
        return Standing("fresh", key, attempt + 1, run_name(config, key))
    return found


async def _settled(lab: Lab, config: Config, key: str, attempt: int, name: str, sent_at: float) -> str | None:
    """What became of a submission whose answer was lost: the run's id, or None when there certainly is none."""
    id = await find(lab, name)
    if id is not None:
        remember(lab, config, key, attempt, name, Submitted(id, None, None), await cost_of(lab, config), None, None)
        return id
    if not lab.settings.rehearsal and time.time() - sent_at < SETTLE_SECONDS:
        raise PrimeError(
            f"whether run {name} was created is not known yet; the platform does not list it so far",
            fix="Call submit_training again in six minutes; it looks before it sends.",
            code="submit-outcome-unknown",
        )
    lab.ledger.release(key, lab.platform)
    return None


async def find(lab: Lab, name: str) -> str | None:
    """Id of the account's run of this name. Raises PrimeError when the platform cannot be asked."""
    found = await lab.prime.train_list(name)
    return str(found[-1]["id"]) if found else None


async def status_of(lab: Lab, id: str) -> str:
    """Status in the platform's words, or DELETED."""
    try:
        return str((await lab.prime.train_get(id)).get("status") or "UNKNOWN").upper()
    except LabError as error:
        if error.code == "platform-not-found":
            return "DELETED"
        raise


def _key(lab: Lab, config: Config, resume_from: str | None, attempt: int) -> str:
    parts = ["submit", config.sha256, config.name, resume_from, attempt, lab.platform]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def run_name(config: Config, key: str) -> str:
    """The name on the platform: that of the config and eight hex digits of the intent."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", config.name)[:48].strip("-") or "run"
    return f"{stem}-{key[:8]}"


def named(text: str, name: str) -> str:
    """The text of a config with its top-level `name` set, and not one other byte changed. Raises BadInput."""
    first_table = _TABLE.search(text)
    head = first_table.start() if first_table else len(text)
    found = _NAME_LINE.search(text, 0, head)
    set_name = f'name = "{name}"\n'
    changed = f'{text[: found.start(2)]}"{name}"{text[found.end(3) + 1 :]}' if found else set_name + text
    try:
        same = tomllib.loads(changed) == {**tomllib.loads(text), "name": name}
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise BadInput(
            "the config's top-level name cannot be set without touching the rest",
            fix='Write it plainly at the top: name = "my-run".',
            code="config-bad-name",
        )
    return changed


def write_copy(lab: Lab, config: Config, name: str, key: str) -> Path:
    """What is submitted: the validated bytes under the run's name, in the state directory. Raises BadInput.

    Secret files that the config names are linked at the same place beside the copy, never copied.
    """
    root = lab.settings.state_dir / "runs" / key[:16]
    copy = root / config.path.resolve().relative_to(lab.workspace.root)
    copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    copy.write_bytes(named(config.text, name).encode("utf-8"))
    for field in ("env_file", "env_files"):
        value = config.table.get(field)
        for path in [value] if isinstance(value, str) else value if isinstance(value, list) else ():
            _link(lab, config, copy, root, str(path))
    return copy


def _link(lab: Lab, config: Config, copy: Path, root: Path, path: str) -> None:
    wanted = (config.path.parent / path).resolve()
    link = Path(os.path.normpath(copy.parent / path))
    if not wanted.is_relative_to(lab.workspace.root) or not link.is_relative_to(root) or not wanted.is_file():
        raise BadInput(
            f"the config names the secrets file {quote(path, 120)}, which is not a file of the workspace",
            fix="Put the file beside the config, or take env_files out and let the server's environment provide it.",
            code="config-secrets-file",
        )
    link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    link.unlink(missing_ok=True)
    link.symlink_to(wanted)


def secrets(lab: Lab, config: Config) -> dict[str, str]:
    """Keys to hand on by name: W&B's where the config logs there, others only where a person allowed it."""
    if lab.settings.rehearsal:
        return {}
    wanted = {name for name in _SECRETS if name in lab.settings.allow_env}
    if isinstance(config.at("monitors.wandb"), Mapping):
        wanted.add("WANDB_API_KEY")
    return {name: os.environ[name] for name in sorted(wanted) if os.environ.get(name)}


async def cost_of(lab: Lab, config: Config, first_step: int = 0) -> Cost:
    """`bound` at the price that the platform names now. Raises PrimeError."""
    return bound(config, (await lab.prime.models()).price(config.gpu_type), first_step)


def bound(config: Config, price_per_gpu_hour: float | None, first_step: int = 0) -> Cost:
    """An upper bound on what a run costs, with the assumptions it rests on."""
    price = None if price_per_gpu_hour is None else round(price_per_gpu_hour * config.gpus, 4)
    if price is None:
        gpu = f" for {quote(config.gpu_type, 60)}" if config.gpu_type else ""
        return Cost(None, None, None, f"the platform names no hourly price{gpu}")
    if config.max_steps is None:
        return Cost(price, None, None, "the config sets no max_steps, so the run never ends by itself")
    tokens = (config.batch_size or 0) * (config.max_completion_tokens or config.seq_len)
    generating = SLACK * tokens / (TOKENS_PER_GPU_SECOND * max(1, config.infer_gpus)) / 60
    minutes = max(MINUTES_PER_STEP, generating)
    hours = START_HOURS + max(0, config.max_steps - first_step) * minutes / 60
    why = f"at most {hours:.1f} h: {config.max_steps} steps of up to {minutes:.0f} minutes, half an hour to start"
    return Cost(price, round(price * hours, 2), round(hours, 2), why)


async def submit(
    lab: Lab, config: Config, at: Standing, cost: Cost, resume_from: str | None, copy: Path
) -> tuple[Run, Submitted]:
    """Send once. After an answer that is not known, the platform is asked by name. Raises PrimeError."""
    claim = lab.ledger.claim(at.key, "submit", lab.platform)
    if claim.state != "open":
        raise PrimeError(
            f"another server is submitting {at.name} right now",
            fix="Call submit_training again in a minute; it returns that run.",
            code="submit-in-flight",
        )
    try:
        answer = await lab.prime.train_submit(copy, resume_from=resume_from, secrets=secrets(lab, config))
    except Refusal as refused:
        if refused.effect == "none":
            lab.ledger.release(at.key, lab.platform)
            raise
        answer = await _recovered(lab, at, refused)
    run = remember(lab, config, at.key, at.attempt, at.name, answer, cost, resume_from, copy)
    return run, answer


async def _recovered(lab: Lab, at: Standing, refused: Refusal) -> Submitted:
    try:
        id = await find(lab, at.name)
    except LabError as error:
        raise _unknown(at, refused) from error
    if id is not None:
        return Submitted(id, None, None)
    if lab.settings.rehearsal:
        lab.ledger.release(at.key, lab.platform)
        raise refused
    raise _unknown(at, refused)


def _unknown(at: Standing, refused: Refusal) -> PrimeError:
    return PrimeError(
        f"whether run {at.name} was created is not known: {refused.message}",
        fix="Call submit_training again in six minutes; it looks the run up before it sends anything.",
        code="submit-outcome-unknown",
    )


def remember(
    lab: Lab,
    config: Config,
    key: str,
    attempt: int,
    name: str,
    answer: Submitted,
    cost: Cost,
    resume_from: str | None,
    copy: Path | None,
) -> Run:
    """Record the run, count its upper bound against the cap, and settle the intent."""
    data: dict[str, Any] = {
        "model": config.model,
        "environments": [s.id for s in config.sources],
        "max_steps": config.max_steps,
        "gpus": config.gpus,
        "gpu_type": answer.gpu_type or config.gpu_type,
        "attempt": attempt,
        "max_hours": cost.hours,
    }
    if resume_from:
        data["resumed_from"] = resume_from
    if copy is not None:
        data |= {"copy": str(copy), "copy_sha256": hashlib.sha256(copy.read_bytes()).hexdigest()}
    price = answer.estimated_cost_per_hour if answer.estimated_cost_per_hour is not None else cost.price_per_hour
    run = Run(
        id=answer.id,
        kind="training",
        name=name,
        workspace=lab.key,
        intent=key,
        platform=lab.platform,
        config_path=config.path.resolve().relative_to(lab.workspace.root).as_posix(),
        config_sha256=config.sha256,
        price_per_hour=price,
        max_cost=cost.max_cost,
        data=data,
    )
    lab.ledger.record_run(run)
    lab.ledger.commit_spend(key, cost.max_cost or 0.0, f"training run {answer.id}", lab.platform)
    lab.ledger.settle(key, lab.platform, {"id": answer.id, "name": name})
    return run
