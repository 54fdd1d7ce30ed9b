"""Writes the run card: a Markdown page with all facts that are needed to repeat a run.

The ledger holds the facts of the time of submission. If the platform answers, the page also shows the run's present
status and results. The page states which facts are missing.
"""

from __future__ import annotations

import hashlib
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import as_mapping, quote, redact
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.evidence import evidence_of_push
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.config_gate import source_proofs
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push, Run
from prime_lab_mcp.lab.training.run_results import run_results
from prime_lab_mcp.lab.training.sources import recorded_source_facts

_PROOFS = ("check_environment", "test_reward", "run_eval", "check_reward_distribution", "push_environment")
_WANDB = "https://wandb.ai"


def submission_facts(lab: Lab, config: TrainingConfig, key: str, resume_from: str | None = None) -> dict[str, Any]:
    """Collect the facts of a submission for the run card. Called when the submission is recorded."""
    checked = lab.ledger.evidence(lab.key, tool="check_training_config", config_sha256=config.sha256)
    resumed = lab.ledger.runs(id=resume_from, platform=lab.platform) if resume_from else []
    entries = [_environment(lab, config, source, resumed[0].name if resumed else None) for source in config.sources]
    return {
        "environments": [entry for at, entry in enumerate(entries) if entry not in entries[:at]],
        "config_evidence": [_proof(row) for row in checked[:1]],
        "server": {"prime-lab-mcp": _version("prime-lab-mcp"), "python": platform.python_version()},
        "wandb": dict(_wandb(config)),
        "intent": key,
    }


def _environment(lab: Lab, config: TrainingConfig, source: ConfigSource, resumed: str | None) -> dict[str, Any]:
    push = lab.newest_push(source.owner, source.env_name, source.version) if source.owner else None
    entry: dict[str, Any] = {"id": source.id, "kind": source.kind, "version": source.version, "args": dict(source.args)}
    if push is None:
        return entry | {"ours": False}
    facts = replace(recorded_source_facts(lab, source, push, config.group_of(source)), resumed_run=resumed)
    return entry | {
        "ours": True,
        "source": push.source,
        "content": push.content,
        "cli_hash": push.cli_hash,
        "hub_hash": push.hub_hash,
        "verified": push.verified,
        "evidence": [_proof(row) for row in _proofs(lab, push, source_proofs(facts, lab.platform, config.model))],
    }


def _proofs(lab: Lab, push: Push, opened: Sequence[Evidence]) -> Iterator[Evidence]:
    """The newest check and push of the files, what opened the gate, and the evaluation that was judged for that."""
    rows = evidence_of_push(lab, push)
    judged = {id for row in opened if row.tool == "check_reward_distribution" and (id := _evaluation(row))}
    evaluated = next((r for r in rows if r.tool == "run_eval" and _evaluation(r) in judged), None)
    for tool in _PROOFS:
        if tool == "run_eval":
            row = evaluated
        else:
            among = opened if tool in ("test_reward", "check_reward_distribution") else rows
            row = next((r for r in among if r.tool == tool), None)
        if row is not None:
            yield row


def _evaluation(row: Evidence) -> Any:
    return row.arguments.get("id") or row.data.get("id")


def _proof(row: Evidence) -> dict[str, Any]:
    return {
        "id": row.id,
        "tool": row.tool,
        "status": row.status,
        "at": row.at,
        "model": row.model,
        "toolchain": {name: version for name, version in row.toolchain.items() if isinstance(version, str)},
        "results_sha256": row.results_sha256,
        "evaluation": _evaluation(row),
        "usable_groups": as_mapping(row.data.get("usable_groups")).get("share"),
        "validation": row.data.get("validation"),
        "schema_commit": row.data.get("platform_schema_commit"),
    }


def _wandb(config: TrainingConfig) -> Iterator[tuple[str, str]]:
    table = config.at("monitors.wandb")
    for name in ("entity", "project", "name"):
        value = table.get(name) if isinstance(table, Mapping) else None
        if isinstance(value, str):
            yield name, value


def note_on_card(lab: Lab, run: Run, **facts: Any) -> Run:
    """Add facts of the tool (approval, forecast, versions) to a run's card, and record the run."""
    card = {**as_mapping(run.data.get("card")), **facts}
    changed = replace(run, data={**dict(run.data), "card": card}, at=run.at or time.time())
    lab.ledger.record_run(changed)
    return changed


async def run_card(lab: Lab, id: str) -> str:
    """The card of one run as Markdown. Raises BadInput (`run-not-found`) for a run started on another machine."""
    runs = [r for r in lab.ledger.runs(id=id, platform=lab.platform) if r.kind == "training"]
    if not runs:
        raise BadInput(
            f"no training run {quote(id, 80)} was started from this machine",
            fix=Fix(
                "Call ",
                NamedCall("watch_run"),
                " without an id to list the runs; the platform's page shows runs started elsewhere.",
            ),
            code="run-not-found",
        )
    run = runs[0]
    try:
        now, silent = await lab.prime.train_get(id), ""
    except LabError as error:
        now, silent = {}, error.message
    try:
        frontend = await lab.prime.frontend()
    except LabError:
        frontend = "https://app.primeintellect.ai"
    results = [] if silent else await _results(lab, run)
    head = _head(lab, run, now, silent, frontend)
    return "\n".join([*head, *_chain(lab, run), *results, *_gate(lab, run), *_facts(run), *_config(run)]) + "\n"


async def _results(lab: Lab, run: Run) -> list[str]:
    try:
        return [await run_results(lab, run)]
    except LabError as error:
        return [f"\n## Results\n\n- Missing: {error.message}"]


def _head(lab: Lab, run: Run, now: Mapping[str, Any], silent: str, frontend: str) -> Iterator[str]:
    yield f"# Run {run.id} ({run.name})"
    yield ""
    if lab.settings.rehearsal:
        yield "A rehearsal: no GPU was used and nothing was paid.\n"
    yield f"- Page: {frontend}/dashboard/training/{run.id}"
    yield f"- W&B: {_wandb_link(run, now)}"
    yield f"- Recorded here: {_time(run.at)}"
    if silent:
        yield f"- Status, start and end: missing, the platform could not be asked ({silent})"
        return
    for label, name in (("Status", "status"), ("Started", "started_at"), ("Ended", "completed_at")):
        yield f"- {label}: {quote(str(now[name]), 80) if now.get(name) else 'not yet'}"
    if now.get("error_message"):
        yield f"- The platform's reason: {quote(str(now['error_message']), 300)}"


def _wandb_link(run: Run, now: Mapping[str, Any]) -> str:
    settings = as_mapping(as_mapping(run.data.get("card")).get("wandb"))
    for name in ("wandb_url", "wandb_run_url"):
        if now.get(name):
            return quote(str(now[name]), 200)
    project = now.get("wandb_project") or settings.get("project")
    if not project:
        return "the config does not log there"
    entity, label = (
        now.get("wandb_entity") or settings.get("entity"),
        now.get("wandb_run_name") or settings.get("name"),
    )
    where = f"{_WANDB}/{entity}/{project}" if entity else f"project {project} of the key's default entity"
    return quote(f"{where}, run {label or run.name}", 300) + " (the run's own address is not told by the platform)"


def _chain(lab: Lab, run: Run) -> Iterator[str]:
    """The runs that this run continues, back to the first."""
    listed, before = {run.id}, run.data.get("resumed_from")
    if before:
        yield "\n## Continues\n"
    while isinstance(before, str) and before not in listed:
        listed.add(before)
        older = lab.ledger.runs(id=before, platform=lab.platform)
        origin = f"started {_time(older[0].at)}" if older else "not started from this machine"
        yield f"- {before}: {origin} (lab://runs/{before}/card)"
        before = older[0].data.get("resumed_from") if older else None
    later = [r for r in lab.ledger.runs(platform=lab.platform) if r.data.get("resumed_from") == run.id]
    if later:
        yield "\n## Continued as\n"
    for one in later:
        yield f"- {one.id}: started {_time(one.at)} (lab://runs/{one.id}/card)"


def _gate(lab: Lab, run: Run) -> Iterator[str]:
    """The evaluations whose distribution opened the gate of each of the user's environments."""
    card = as_mapping(run.data.get("card"))
    proofs = [
        (environment.get("id"), proof)
        for environment in card.get("environments") or ()
        if isinstance(environment, Mapping)
        for proof in environment.get("evidence") or ()
        if proof.get("tool") == "check_reward_distribution" and proof.get("evaluation")
    ]
    if proofs:
        yield "\n## Evaluations that opened the gate\n"
    for environment, proof in proofs:
        share = proof.get("usable_groups")
        usable = f", {share:.0%} of groups with a gradient" if isinstance(share, int | float) else ""
        model = proof.get("model") or "a model that is not recorded"
        yield f"- {environment}: {proof['evaluation']} with {model}{usable} (lab://evals/{proof['evaluation']}/report)"


def _facts(run: Run) -> Iterator[str]:
    card, data = as_mapping(run.data.get("card")), run.data
    yield "\n## What ran\n"
    yield f"- Model: {data.get('model') or 'missing'}"
    yield f"- Steps: {data.get('max_steps') or 'without end'}; GPUs: {data.get('gpus')} of {data.get('gpu_type')}"
    yield f"- Attempt {data.get('attempt', 1)} of intent `{run.intent[:16]}`"
    yield "\n## Environments\n"
    listed = [e for e in card.get("environments") or () if isinstance(e, Mapping)]
    for environment in listed:
        hashes = as_mapping(card.get("hub_hashes"))
        yield from _environment_lines(environment, hashes.get(str(environment.get("id"))))
    if not listed:
        yield f"- {', '.join(map(str, data.get('environments') or ())) or 'missing'}; versions and hashes are missing"
    yield "\n## Money\n"
    price = f"${run.price_per_hour:.2f} per hour" if run.price_per_hour is not None else "missing"
    bound = f"${run.max_cost:.2f}" if run.max_cost is not None else "none is known"
    yield f"- Price: {price}; upper bound: {bound}"
    yield f"- Forecast: {card.get('forecast_said') or 'missing'}"
    yield f"- Approved: {card.get('approved') or 'missing: the answer of the submission was lost'}"
    yield "\n## Versions\n"
    versions = {**as_mapping(card.get("server")), **as_mapping(card.get("versions"))}
    yield from (f"- {name}: {version or 'missing'}" for name, version in versions.items())
    for proof in card.get("config_evidence") or ():
        validation = proof.get("validation") or "not recorded"
        checked = f"check_training_config was {proof.get('status')} (evidence {proof.get('id')})"
        yield f"- Config: {checked}; platform {validation}"
    if card.get("validated"):
        schema = f", schema of {card['schema_commit']}" if card.get("schema_commit") else ""
        yield f"- When it was sent, the platform's validation was: {card['validated']}{schema}"


def _environment_lines(environment: Mapping[str, Any], hub_hash: Any) -> Iterator[str]:
    yield f"- {environment.get('id')} ({environment.get('kind')})"
    if environment.get("args"):
        yield f"  - arguments: {quote(str(dict(environment['args'])), 300)}"
    if not environment.get("ours"):
        content = (
            f"`{hub_hash}` on the Hub when it was sent" if hub_hash else "its hash is missing; the version pins it"
        )
        yield f"  - not published from this machine: {content}"
        return
    yield f"  - source `{environment.get('source')}`"
    yield f"  - content `{environment.get('content')}`"
    stored_hash = hub_hash or environment.get("hub_hash")
    note = f"`{stored_hash}`" if stored_hash else f"its hash is missing (sent: `{environment.get('cli_hash')}`)"
    yield f"  - on the Hub {note}, {'confirmed' if environment.get('verified') == 'hub' else 'sent, not confirmed'}"
    for proof in environment.get("evidence") or ():
        model = f", model {proof['model']}" if proof.get("model") else ""
        versions = ", ".join(f"{k} {v}" for k, v in as_mapping(proof.get("toolchain")).items() if isinstance(v, str))
        yield f"  - evidence {proof['id']}: {proof['tool']} was {proof['status']} at {_time(proof['at'])}{model}" + (
            f" ({versions})" if versions else ""
        )


def _config(run: Run) -> Iterator[str]:
    yield "\n## Config\n"
    yield f"- {run.config_path or 'missing'}, sha256 `{run.config_sha256 or 'missing'}`"
    copy = run.data.get("copy")
    try:
        raw = Path(str(copy)).read_bytes() if copy else None
    except OSError:
        raw = None
    if raw is None:
        yield "- The text that was sent is missing: its copy is no longer in the state directory."
        return
    digest = hashlib.sha256(raw).hexdigest()
    same = digest == run.data.get("copy_sha256")
    yield f"- Sent under the run's name, sha256 `{digest}`" + ("" if same else ": **not what was sent** any more")
    text = redact(raw.decode("utf-8", "replace"))
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall(r"`+", text))])
    yield f"\n{fence}toml\n{text.rstrip()}\n{fence}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
