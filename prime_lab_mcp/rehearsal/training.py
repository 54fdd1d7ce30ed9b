"""The routes of hosted training: prices, submission, reading and control of runs."""

from __future__ import annotations

import json
import re
import time

from prime_lab_mcp.rehearsal import account, curves, faults, runs, schema_cache
from prime_lab_mcp.rehearsal.call import Answer, PlatformCall, PlatformRoute, Raw, Refusal, as_json, iso
from prime_lab_mcp.rehearsal.skill import TRAINABLE
from prime_lab_mcp.rehearsal.store import Body, new_id
from prime_lab_mcp.rehearsal.submission import check

PREPARE = "prepare-offered"
"""Name of the counter that holds the index of the current entry of PREPARATIONS."""
PREPARATIONS = ("current", "off", "drifted", "mismatched")
"""`drifted`: the schema lacks `schema_cache.DRIFTED_KEY`. `mismatched`: the schema is not the runtime's."""
_KNOWN_CLIENT = re.compile(r"prime-cli/0\.18\.|(?!prime-cli/)")
_DEFAULT_GPU = "H200_141GB"
_COMPONENTS = ("orchestrator", "trainer", "inference", "env-server")
_LEVELS = ("DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR")


# --- offers ---


def available_models(call: PlatformCall) -> Answer:
    """List the models of the stand-in, and those that a test added through `/rehearsal/platform`."""
    trainable = (*TRAINABLE, *(added["name"] for added in call.session.all("model")))
    cluster = {"clusterId": "rehearsal-cluster", "clusterName": "Rehearsal", "gpuType": _DEFAULT_GPU}
    return {
        "models": [{"name": name, "clusters": [cluster]} for name in trainable],
        "onDemand": [
            {
                "gpuType": gpu,
                "pricePerGpuHour": price,
                "availableNow": gpu == _DEFAULT_GPU,
                "isBeta": True,
                "discountLabel": "rehearsal price",
            }
            for gpu, price in runs.GPU_PRICES.items()
        ],
        "onDemandBetaAccess": True,
    }


def gpu_types(call: PlatformCall) -> Answer:
    return {"gpuTypes": list(runs.GPU_PRICES)}


def prepare(call: PlatformCall) -> Answer:
    """The schema with which prime checks a config before submission. Only prime 0.18 is known to find it
    (schema_cache.py)."""
    chosen = PREPARATIONS[int(call.session.value(PREPARE))]
    if chosen == "off" or not _KNOWN_CLIENT.match(call.agent):
        raise Refusal(404, "Local validation is not offered on the rehearsal platform")
    release: schema_cache.Release = "drifted" if chosen == "drifted" else "current"
    commit = "0" * 40 if chosen == "mismatched" else schema_cache.commit(release)
    return {
        "contract_version": 1,
        "mode": call.body.get("mode", "rl"),
        "runtime": {
            "repository": "ghcr.io/primeintellect-ai/prime-rl",
            "digest": f"sha256:{'0' * 64}",
            "image_commit": commit,
            "source_commit": None,
            "schema_commit": commit,
        },
        "schema_install": schema_cache.install(release),
        "submission_supported": True,
    }


# --- submitting ---


def submit(call: PlatformCall) -> Answer:
    config = call.body.get("config")
    gpu = str(call.body.get("gpuType") or _DEFAULT_GPU)
    problems = check(call, config, gpu)
    if problems:
        raise Refusal(422, problems)
    assert isinstance(config, dict)
    account.require_money(call.session)
    if team_id := call.body.get("teamId"):
        account.team(call, id=team_id)
    first_step = 0
    if resume_from := call.body.get("resumeFrom"):
        first_step = _resume_step(call, _by_id(call, str(resume_from)))
    return _launch(call, call.body.get("name"), config, gpu, first_step)


def _launch(call: PlatformCall, name: str | None, config: Body, gpu: str, first_step: int) -> Answer:
    orchestrator = config["orchestrator"]
    deployment = config.get("deployment") or {}
    gpus = _gpu_count(deployment)
    id = new_id("run")
    run: Body = {
        "id": id,
        "name": name or config.get("name"),
        "created": call.session.now(),
        "speed": call.store.speed,
        "config": config,
        "first_step": first_step,
        "events": [],
        "team_id": call.body.get("teamId"),
        "gpu_type": gpu,
        "gpu_count": gpus,
        "price_per_gpu_hour": runs.GPU_PRICES[gpu],
        "max_steps": config.get("max_steps"),
        "base_model": (config.get("model") or {}).get("name", TRAINABLE[0]),
        "batch_size": int(orchestrator.get("batch_size") or 128),
        "group_size": int(orchestrator.get("group_size") or 1),
        "learning_rate": float(config["trainer"].get("optim", {}).get("lr", 1e-6)),
        "environments": _environments(orchestrator["train"]["source"]),
        "resumed_from": call.body.get("resumeFrom"),
        "schema_commit": (call.body.get("normalizedConfig") or {}).get("schema_commit"),
    }
    run["faults"] = faults.for_named(call.session, "run", run["name"] or "")
    call.session.put("run", id, run)
    rate = runs.GPU_PRICES[gpu]
    return {
        "runId": id,
        "tokenValue": f"rehearsal-run-token-{id}",
        "onDemand": True,
        "gpuType": gpu,
        "pricePerGpuHour": rate,
        "estimatedCostPerHour": round(rate * gpus, 4),
        "isBeta": True,
    }


def _gpu_count(deployment: Body) -> int:
    if deployment.get("type") == "multi_node":
        nodes = int(deployment.get("num_train_nodes") or 1)
        nodes += int(deployment.get("num_infer_nodes") or 1)
        return nodes * int(deployment.get("gpus_per_node") or 8)
    train = int(deployment.get("num_train_gpus") or 1)
    return train + int(deployment.get("num_infer_gpus") or 1)


def _environments(sources: list[Body]) -> list[Body]:
    ids = [str(s["env"]["taskset"]["id"]) for s in sources]
    return [{"id": id, "name": s.get("name") or id} for id, s in zip(ids, sources, strict=True)]


# --- reading ---


def _by_id(call: PlatformCall, id: str) -> Body:
    run = call.session.get("run", id)
    if run is None:
        raise Refusal(404, f"Run {id} not found")
    return run


def _run(call: PlatformCall) -> Body:
    return _by_id(call, call.path["id"])


def _state(call: PlatformCall, run: Body) -> runs.RunState:
    return runs.state(run, call.session.now())


def _run_reply(call: PlatformCall, run: Body) -> Body:
    at = _state(call, run)
    reply: Body = {
        "id": run["id"],
        "name": run["name"],
        "userId": account.USER_ID,
        "teamId": run["team_id"],
        "primeClusterId": "rehearsal-cluster",
        "status": at.status,
        "kind": "DEDICATED_FULL_FT",
        "baseModel": run["base_model"],
        "environments": run["environments"],
        "maxSteps": run["max_steps"],
        "batchSize": run["batch_size"],
        "rolloutsPerExample": run["group_size"],
        "seqLen": run["config"].get("seq_len"),
        "gpuCount": run["gpu_count"],
        "runConfig": run["config"],
        "learningRate": run["learning_rate"],
        "errorMessage": at.error,
        "schemaCommit": run.get("schema_commit"),
        "notice": "rehearsal: no GPU is used and nothing is billed",
        "createdAt": iso(run["created"]),
        "updatedAt": iso(max(at.updated, run["created"])),
        "startedAt": iso(at.started),
        "completedAt": iso(at.ended),
    }
    if at.status == "QUEUED":
        reply |= {"runsAhead": 1, "queueReason": "rehearsal: waiting for GPUs"}
        if runs.fault(run, "queue") is not None:
            waited = (call.session.now() - run["created"]) * run["speed"]
            reply["createdAt"] = iso(time.time() - waited * runs.BILLED_SECONDS_PER_STEP / runs.STEP_SECONDS)
    if at.status == "FAILED":
        reply["failureAnalysis"] = {"rootCause": at.error, "evidence": [at.error], "confidence": 0.9}
    wandb = (run["config"].get("monitors") or {}).get("wandb")
    if isinstance(wandb, dict):
        reply |= {"wandbProject": wandb.get("project"), "wandbRunName": wandb.get("name")}
    return reply


def listing(call: PlatformCall) -> Answer:
    team_id = call.query.get("team_id")
    held = [r for r in reversed(call.session.all("run")) if not team_id or r["team_id"] == team_id]
    page, limit = call.number("page", 1, low=1), call.number("limit", 20, low=1)
    start = (page - 1) * limit
    return {
        "runs": [_run_reply(call, r) for r in held[start : start + limit]],
        "total": len(held),
        "page": page,
        "limit": limit,
        "total_pages": max(1, -(-len(held) // limit)),
    }


def get(call: PlatformCall) -> Answer:
    return {"run": _run_reply(call, _run(call))}


def metrics(call: PlatformCall) -> Answer:
    run = _run(call)
    first, last = int(run["first_step"]), _state(call, run).step
    low = max(first, call.number("min_step", first, high=10**9))
    high = min(last, call.number("max_step", last, low=-1, high=10**9)) if last >= 0 else -1
    limit = call.number("limit", 10**6, low=1, high=10**6)
    rows = [row for s in range(low, high + 1) for row in curves.uploads(run, s)]
    return Raw(as_json({"metrics": rows[-limit:]}), "application/json")


def progress(call: PlatformCall) -> Answer:
    run = _run(call)
    at = _state(call, run)
    steps = curves.sampled_steps(run, at)
    updated = at.updated
    if at.status == "RUNNING":
        # Uses the watcher's clock and the billed length of a step, so that a stalled run is visible.
        updated = time.time() - runs.idle(run, at, call.session.now())
    return {
        "latestStep": at.step if at.step >= 0 else None,
        "stepsWithSamples": steps,
        "stepsWithDistributions": steps,
        "lastUpdatedAt": iso(updated),
    }


def samples(call: PlatformCall) -> Answer:
    run = _run(call)
    step = call.number("step", 0, high=10**9)
    page, limit = call.number("page", 1, low=1), call.number("limit", 100, low=1, high=1000)
    total = run["batch_size"] if step in curves.sampled_steps(run, _state(call, run)) else 0
    start = (page - 1) * limit
    rows = [curves.rollout(run, step, i) for i in range(start, min(start + limit, total))]
    return {
        "run_id": run["id"],
        "samples": rows,
        "total": total,
        "page": page,
        "limit": limit,
        "total_pages": -(-total // limit),
    }


def distributions(call: PlatformCall) -> Answer:
    run = _run(call)
    steps = curves.sampled_steps(run, _state(call, run))
    step = call.number("step", steps[-1] if steps else 0, high=10**9)
    if step not in steps:
        return {"bins": [], "step": None}
    return {"bins": curves.histogram(run, step, call.query.get("type", "rewards")), "step": step}


def checkpoints(call: PlatformCall) -> Answer:
    run = _run(call)
    at = _state(call, run)
    interval, last = runs.checkpoint_interval(run), at.steps_done
    steps = [s for s in range(interval, last + 1, interval) if s > run["first_step"]]
    if at.status in ("COMPLETED", "PAUSED") and last not in steps:
        steps.append(last)
    wanted = call.query.get("status_filter")
    return {
        "checkpoints": [
            {
                "id": f"ckpt_{run['id']}_{step}",
                "rftRunId": run["id"],
                "step": step,
                "storageUrl": f"{call.base}/rehearsal/checkpoints/{run['id']}/step_{step}",
                "status": "READY",
                "sizeBytes": 8_000_000_000,
                "createdAt": iso(at.updated),
                "uploadedAt": iso(at.updated),
            }
            for step in steps
        ]
        if wanted in (None, "READY")
        else []
    }


def env_servers(call: PlatformCall) -> Answer:
    run = _run(call)
    status = "Running" if _state(call, run).status == "RUNNING" else "Terminated"
    return {
        "env_servers": [
            {"env_name": e["name"], "env_index": i, "pod_name": f"env-{i}", "status": status}
            for i, e in enumerate(run["environments"])
        ]
    }


def logs(call: PlatformCall) -> Answer:
    run = _run(call)
    at = _state(call, run)
    if at.started is None and at.status in ("QUEUED", "PENDING"):
        raise Refusal(404, f"Run {run['id']} is {at.status.lower()}; logs are not available yet")
    component = call.query.get("component", "orchestrator")
    if component not in _COMPONENTS:
        raise Refusal(422, [{"loc": ["query", "component"], "msg": f"one of {_COMPONENTS}"}])
    search, level = call.query.get("search", ""), call.query.get("level")
    pattern = search if call.query.get("regex", "").lower() == "true" else re.escape(search)
    begin = at.started if at.started is not None else run["created"]
    lines = [
        json.dumps(
            {
                "timestamp": iso(begin + step * runs.STEP_SECONDS / run["speed"]),
                "level": kind,
                "message": text,
            }
        )
        for step, kind, text in curves.log_lines(run, at, component, call.session.now())
        if re.search(pattern, text) and (level is None or kind == level)
    ]
    return {"logs": "\n".join(lines[-call.number("tail_lines", 1000, low=1) :])}


def usage(call: PlatformCall) -> Answer:
    run = _run(call)
    at = _state(call, run)
    rows = [curves.metrics(run, s) for s in range(int(run["first_step"]), at.steps_done)]
    output = sum(int(run["batch_size"] * m["num_output_tokens/mean"]) for m in rows if m)
    given = sum(int(run["batch_size"] * m["train/agg/effective/num_input_tokens/mean"]) for m in rows if m)
    return {
        "run_id": run["id"],
        "run_name": run["name"],
        "base_model": run["base_model"],
        "status": at.status,
        "total_tokens": given + output,
        "total_cost_usd": runs.cost(run, at),
        "record_count": len(rows),
        "training": {
            "tokens": given + output,
            "input_tokens": given,
            "output_tokens": output,
            "cost_usd": runs.cost(run, at),
        },
        "inference": {"tokens": given + output, "input_tokens": given, "output_tokens": output, "cost_usd": 0.0},
        "pricing": {
            "training_per_mtok": None,
            "inference_input_per_mtok": None,
            "inference_output_per_mtok": None,
        },
    }


# --- controlling ---


def _record(call: PlatformCall, run: Body, kind: str) -> None:
    run["events"].append({"at": call.session.now(), "kind": kind})
    call.session.put("run", run["id"], run)


def stop(call: PlatformCall) -> Answer:
    run = _run(call)
    if _state(call, run).status not in runs.TERMINAL:
        _record(call, run, "stop")
    return {"run": _run_reply(call, run)}


def restart(call: PlatformCall) -> Answer:
    run = _run(call)
    at = _state(call, run)
    if at.status != "RUNNING":
        raise Refusal(400, f"Only RUNNING runs can be restarted; this one is {at.status}")
    _record(call, run, "restart")
    return {"run": _run_reply(call, run)}


def pause(call: PlatformCall) -> Answer:
    run = _run(call)
    at = _state(call, run)
    if at.status != "RUNNING":
        raise Refusal(400, f"Only RUNNING runs can be paused; this one is {at.status}")
    _record(call, run, "pause")
    return {"runId": run["id"], "status": "PAUSING"}


def _resume_step(call: PlatformCall, run: Body) -> int:
    at = _state(call, run)
    if at.status != "PAUSED":
        raise Refusal(409, f"Run {run['id']} is {at.status}; only PAUSED runs can be resumed")
    return at.steps_done


def resume(call: PlatformCall) -> Answer:
    run = _run(call)
    step = _resume_step(call, run)
    account.require_money(call.session)
    gpu = str(call.body.get("gpuType") or run["gpu_type"])
    if gpu not in runs.GPU_PRICES:
        raise Refusal(422, [{"loc": ["body", "gpuType"], "msg": f"unknown GPU type {gpu}"}])
    body = {"resumeFrom": run["id"], "teamId": run["team_id"]}
    again = PlatformCall(call.store, call.session, call.base, call.path, call.query, body)
    return _launch(again, run["name"], run["config"], gpu, step)


def delete(call: PlatformCall) -> Answer:
    run = _run(call)
    call.session.add(account.SPENT_ELSEWHERE, runs.cost(run, _state(call, run)))
    call.session.remove("run", run["id"])
    return {"runId": run["id"], "deleted": True}


_OLD, _NEW = "/rft/runs", "/training/runs"
ENDPOINTS = (
    PlatformRoute("GET", "/training/available-fft-models", available_models),
    PlatformRoute("GET", "/training/available-gpu-types", gpu_types),
    PlatformRoute("POST", f"{_NEW}/prepare", prepare),
    PlatformRoute("POST", _NEW, submit),
    PlatformRoute("POST", f"{_NEW}/{{id}}/pause", pause),
    PlatformRoute("POST", f"{_NEW}/{{id}}/resume", resume),
    PlatformRoute("DELETE", f"{_NEW}/{{id}}", delete),
    PlatformRoute("GET", _OLD, listing),
    PlatformRoute("GET", f"{_OLD}/{{id}}", get),
    PlatformRoute("DELETE", f"{_OLD}/{{id}}", delete),
    PlatformRoute("PUT", f"{_OLD}/{{id}}/stop", stop),
    PlatformRoute("PUT", f"{_OLD}/{{id}}/restart", restart),
    PlatformRoute("GET", f"{_OLD}/{{id}}/metrics", metrics),
    PlatformRoute("GET", f"{_OLD}/{{id}}/progress", progress),
    PlatformRoute("GET", f"{_OLD}/{{id}}/samples", samples),
    PlatformRoute("GET", f"{_OLD}/{{id}}/distributions", distributions),
    PlatformRoute("GET", f"{_OLD}/{{id}}/checkpoints", checkpoints),
    PlatformRoute("GET", f"{_OLD}/{{id}}/env-servers", env_servers),
    PlatformRoute("GET", f"{_OLD}/{{id}}/logs", logs),
    PlatformRoute("GET", f"{_OLD}/{{id}}/env-server-logs", logs),
    PlatformRoute("GET", "/billing/runs/{id}/usage", usage),
)
