"""Hosted evaluations, which progress with time like runs, and uploaded evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prime_lab_mcp.rehearsal import account, faults, inference
from prime_lab_mcp.rehearsal.answers import final
from prime_lab_mcp.rehearsal.call import Answer, PlatformCall, PlatformRoute, Refusal, iso
from prime_lab_mcp.rehearsal.model import Conversation, answer
from prime_lab_mcp.rehearsal.skill import quantile
from prime_lab_mcp.rehearsal.store import Body, Session, new_id

Status = Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]
PENDING_SECONDS = 0.4
SECONDS_PER_SAMPLE = 0.05
LONGEST_SECONDS = 6.0
"""Rehearsal seconds, like those of a run."""
SYSTEM = "Solve the problem. Put only the final number inside <answer></answer> tags."


@dataclass(frozen=True, slots=True)
class Progress:
    status: Status
    samples: int
    ended: float | None
    error: str | None = None


def progress(evaluation: Body, now: float) -> Progress:
    """The progress of an evaluation at a time; a pure function."""
    total = int(evaluation["samples"])
    if not evaluation["hosted"]:
        return Progress(evaluation["status"], total, evaluation.get("ended"))
    speed, created = float(evaluation["speed"]), float(evaluation["created"])
    until = evaluation["cancelled"]
    elapsed = ((until if until is not None else now) - created) * speed
    length = min(LONGEST_SECONDS, SECONDS_PER_SAMPLE * total)
    share = min(1.0, max(0.0, (elapsed - PENDING_SECONDS) / length))
    breaks: Status | None = None
    if "fails" in evaluation["faults"]:
        breaks = "FAILED"
    elif "times-out" in evaluation["faults"]:
        breaks = "TIMEOUT"
    stops_at = 0.5 if breaks or "stall" in evaluation["faults"] else 1.0
    done = int(total * min(share, stops_at))
    if breaks and share >= stops_at:
        at = created + (PENDING_SECONDS + stops_at * length) / speed
        return Progress(breaks, done, at, f"rehearsal: the evaluation ended as {breaks}")
    if share >= 1.0 and stops_at == 1.0:
        return Progress("COMPLETED", total, created + (PENDING_SECONDS + length) / speed)
    if until is not None:
        return Progress("CANCELLED", done, until)
    return Progress("PENDING" if elapsed < PENDING_SECONDS else "RUNNING", done, None)


def _tasks(session: Session, evaluation: Body) -> list[Body]:
    """The tasks of an evaluation: the prompts registered for its environment, else small sums."""
    names = set(evaluation["environment_names"])
    names |= {name.rpartition("/")[2] for name in names}
    wanted = int(evaluation["num_examples"])
    answers = [a for a in session.all("answer") if a.get("environment") in names and a.get("prompt")]
    answers = answers[:wanted]
    if answers:
        return [{"prompt": a["prompt"], "answer": a["answer"]} for a in answers]
    tasks = []
    for index in range(wanted):
        a = 11 + int(quantile("term", *sorted(names), str(index)) * 80)
        b = 11 + int(quantile("other", *sorted(names), str(index)) * 80)
        tasks.append({"prompt": f"(rehearsal) What is {a} + {b}?", "answer": str(a + b)})
    return tasks


def samples(call: PlatformCall, evaluation: Body, done: int) -> list[Body]:
    if not evaluation["hosted"]:
        return call.session.all("sample", evaluation["id"])
    rollouts = int(evaluation["rollouts_per_example"])
    book = inference.book(call.session, call.store.folder)
    rows: list[Body] = []
    for index, task in enumerate(_tasks(call.session, evaluation)):
        messages = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": task["prompt"]},
        ]
        for rollout in range(rollouts):
            reply = answer(evaluation["model"], Conversation.of(messages), book, nth=rollout)
            reward = float(f"<answer>{final(task['answer'])}</answer>" in reply.text)
            rows.append(
                {
                    "id": f"{evaluation['id']}_{len(rows)}",
                    "example_id": index,
                    "rollout": rollout,
                    "task": evaluation["environment_names"][0],
                    "prompt": messages,
                    "completion": [{"role": "assistant", "content": reply.text}],
                    "answer": task["answer"],
                    "reward": reward,
                    "score": reward,
                    "correct": bool(reward),
                    "metrics": {"correct_answer": reward},
                    "is_truncated": reply.finish == "length",
                    "error": None,
                    "num_input_tokens": reply.prompt_tokens,
                    "num_output_tokens": reply.completion_tokens,
                    "info": {"rehearsal": True},
                }
            )
    return rows[:done]


def _find(call: PlatformCall) -> Body:
    evaluation = call.session.get("evaluation", call.path["id"])
    if evaluation is None:
        raise Refusal(404, f"Evaluation {call.path['id']} not found")
    return evaluation


def _evaluation_reply(call: PlatformCall, evaluation: Body) -> Body:
    at = progress(evaluation, call.session.now())
    metrics = evaluation.get("metrics")
    if evaluation["hosted"] and at.samples:
        rewards = [s["reward"] for s in samples(call, evaluation, at.samples)]
        metrics = {"avg_score": sum(rewards) / len(rewards), "reward": sum(rewards) / len(rewards)}
    return {
        "evaluation_id": evaluation["id"],
        "name": evaluation["name"],
        "model_name": evaluation["model"],
        "status": at.status,
        "is_hosted": evaluation["hosted"],
        "environment_ids": evaluation["environment_ids"],
        "environment_names": evaluation["environment_names"],
        "metadata": evaluation["metadata"],
        "metrics": metrics,
        "total_samples": at.samples,
        "avg_score": (metrics or {}).get("avg_score"),
        "error_message": at.error,
        "viewer_url": f"{call.base}/dashboard/evaluations/{evaluation['id']}",
        "created_at": iso(evaluation["created"]),
        "finalized_at": iso(at.ended),
        "rehearsal": True,
    }


def create_hosted(call: PlatformCall) -> Answer:
    account.require_money(call.session)
    ids = call.body.get("environment_ids") or []
    if not ids:
        raise Refusal(422, [{"loc": ["body", "environment_ids"], "msg": "Field required"}])
    config = dict(call.body.get("eval_config") or {})
    if not inference.exists(str(call.body.get("inference_model"))):
        raise Refusal(404, f"Model {call.body.get('inference_model')} not found")
    created = []
    for id in ids:
        environment = call.session.get("environment", str(id))
        if environment is None:
            raise Refusal(404, f"Environment {id} not found")
        examples = int(config.get("num_examples") or 5)
        rollouts = int(config.get("rollouts_per_example") or 3)
        name = str(call.body.get("name") or f"rehearsal-{environment['name']}")
        evaluation: Body = {
            "id": new_id("ev"),
            "name": name,
            "hosted": True,
            "speed": call.store.speed,
            "model": str(call.body.get("inference_model")),
            "created": call.session.now(),
            "environment_ids": [id],
            "cancelled": None,
            "environment_names": [f"{environment['owner']}/{environment['name']}"],
            "num_examples": examples,
            "rollouts_per_example": rollouts,
            "samples": examples * rollouts,
            "metadata": config | {"rehearsal": True},
            "faults": faults.for_named(call.session, "evaluation", name),
        }
        # There may be fewer registered prompts than requested.
        evaluation["samples"] = len(_tasks(call.session, evaluation)) * rollouts
        call.session.put("evaluation", evaluation["id"], evaluation)
        created.append(evaluation["id"])
    return {"evaluation_id": created[0], "evaluation_ids": created, "status": "PENDING"}


def listing(call: PlatformCall) -> Answer:
    wanted = call.query.get("environment_name", "")
    evaluations = [
        e
        for e in reversed(call.session.all("evaluation"))
        if not wanted or any(wanted in (n, n.rpartition("/")[2]) for n in e["environment_names"])
    ]
    skip, limit = call.number("skip", 0), call.number("limit", 50, low=1)
    page = [_evaluation_reply(call, e) for e in evaluations[skip : skip + limit]]
    return {"evaluations": page, "total": len(evaluations), "skip": skip, "limit": limit}


def get(call: PlatformCall) -> Answer:
    return _evaluation_reply(call, _find(call))


def get_samples(call: PlatformCall) -> Answer:
    evaluation = _find(call)
    rows = samples(call, evaluation, progress(evaluation, call.session.now()).samples)
    page, limit = call.number("page", 1, low=1), call.number("limit", 100, low=1)
    start = (page - 1) * limit
    return {
        "samples": rows[start : start + limit],
        "total": len(rows),
        "page": page,
        "limit": limit,
        "has_more": start + limit < len(rows),
    }


def logs(call: PlatformCall) -> Answer:
    evaluation = _find(call)
    at = progress(evaluation, call.session.now())
    if at.status == "PENDING":
        return {"logs": "Waiting for container to start..."}
    lines = [f"(rehearsal) evaluating {evaluation['environment_names'][0]}"]
    lines += [f"(rehearsal) {n} of {evaluation['samples']}" for n in range(1, at.samples + 1)]
    if at.error:
        lines.append(f"ERROR {at.error}")
    return {"logs": "\n".join(lines)}


def cancel(call: PlatformCall) -> Answer:
    evaluation = _find(call)
    at = progress(evaluation, call.session.now())
    if at.status not in ("PENDING", "RUNNING"):
        raise Refusal(400, f"Evaluation {evaluation['id']} is already {at.status}")
    evaluation["cancelled"] = call.session.now()
    call.session.put("evaluation", evaluation["id"], evaluation)
    return {"message": f"Evaluation {evaluation['id']} cancelled (rehearsal)."}


def create_pushed(call: PlatformCall) -> Answer:
    body = call.body
    ids = [e.get("id") for e in body.get("environments") or []]
    held = [call.session.get("environment", str(id)) for id in ids]
    evaluation: Body = {
        "id": new_id("ev"),
        "name": str(body.get("name") or "rehearsal"),
        "hosted": False,
        "model": body.get("model_name"),
        "created": call.session.now(),
        "status": "RUNNING",
        "environment_ids": ids,
        "samples": 0,
        "metadata": body.get("metadata") or {},
        "environment_names": [f"{e['owner']}/{e['name']}" for e in held if e] or ["unknown"],
        "metrics": body.get("metrics"),
        "faults": {},
    }
    call.session.put("evaluation", evaluation["id"], evaluation)
    return {"evaluation_id": evaluation["id"]}


def update(call: PlatformCall) -> Answer:
    evaluation = _find(call)
    names = {"name": "name", "model_name": "model", "metadata": "metadata", "metrics": "metrics"}
    evaluation |= {ours: call.body[theirs] for theirs, ours in names.items() if theirs in call.body}
    call.session.put("evaluation", evaluation["id"], evaluation)
    return _evaluation_reply(call, evaluation)


def add_samples(call: PlatformCall) -> Answer:
    evaluation = _find(call)
    rows = [row for row in call.body.get("samples") or [] if isinstance(row, dict)]
    for row in rows:
        call.session.put("sample", new_id("smp"), row, parent=evaluation["id"])
    evaluation["samples"] += len(rows)
    call.session.put("evaluation", evaluation["id"], evaluation)
    return {"samples_pushed": len(rows)}


def finalize(call: PlatformCall) -> Answer:
    evaluation = _find(call)
    evaluation |= {"status": "COMPLETED", "ended": call.session.now()}
    evaluation["metrics"] = call.body.get("metrics") or evaluation["metrics"]
    call.session.put("evaluation", evaluation["id"], evaluation)
    return _evaluation_reply(call, evaluation)


ENDPOINTS = (
    PlatformRoute("GET", "/evaluations/", listing),
    PlatformRoute("POST", "/evaluations/", create_pushed),
    PlatformRoute("GET", "/evaluations/{id}", get),
    PlatformRoute("PUT", "/evaluations/{id}", update),
    PlatformRoute("GET", "/evaluations/{id}/samples", get_samples),
    PlatformRoute("POST", "/evaluations/{id}/samples", add_samples),
    PlatformRoute("POST", "/evaluations/{id}/finalize", finalize),
    PlatformRoute("POST", "/hosted-evaluations", create_hosted),
    PlatformRoute("GET", "/hosted-evaluations/{id}/logs", logs),
    PlatformRoute("PATCH", "/hosted-evaluations/{id}/cancel", cancel),
)
