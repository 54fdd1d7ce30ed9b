"""From the replies of a child to values.

A reply comes from a process that runs foreign code: anything in it that is not as agreed is `worker-nonsense`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.errors import WorkerError
from prime_lab_mcp.lab.interpreter import Api
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.worker.cases import (
    Arg,
    Case,
    CaseError,
    Component,
    JudgeInfo,
    Loaded,
    Lossy,
    Manner,
    ParserUse,
    RewardInfo,
    Role,
    Row,
    Rows,
    Scored,
    Traits,
)
from prime_lab_mcp.lab.worker.kept import Kept


def nonsense(what: str, reply: object) -> WorkerError:
    """The child answered something that no worker program says."""
    return WorkerError(
        f"the process that runs the environment answered nonsense ({what}): {quote(reply)}",
        fix="Keep the environment's code from writing to file descriptors that it did not open.",
        code="worker-nonsense",
    )


def decode_loaded(reply: Any, api: Api, versions: Mapping[str, Any]) -> Loaded:
    """A `load` reply as a value. Raises WorkerError."""
    try:
        return Loaded(
            api=api,
            kind=str(reply["kind"]),
            tasks=None if reply["tasks"] is None else int(reply["tasks"]),
            infinite=bool(reply["infinite"]),
            rewards=tuple(
                RewardInfo(str(r["name"]), float(r["weight"] or 0.0), r["kind"], bool(r["is_async"]))
                for r in reply["rewards"]
            ),
            fields=tuple(map(str, reply["fields"])),
            system_prompt=reply["system_prompt"],
            verifiers_version=str(versions.get("verifiers")),
            python_version=str(versions.get("python")),
            seconds=float(reply["seconds"]),
            shadowed_by=reply.get("shadowed_by"),
            turns=bool(reply.get("turns", False)),
            judges=_judges(reply),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("load", reply) from error


def decode_traits(reply: Any) -> Traits:
    """A `facts` reply as a value. Raises WorkerError."""
    try:
        roles = reply.get("roles")
        return Traits(
            args=tuple(
                Arg(str(a["name"]), str(a["type"]), a["default"], bool(a["required"]), tuple(a["choices"]))
                for a in reply["args"]
            ),
            held_out=reply.get("held_out"),
            excluded=tuple(map(str, reply.get("excluded", ()))),
            declared_task=str(reply.get("declared_task", "")),
            other_tasks=tuple(map(str, reply.get("other_tasks", ()))),
            tried=int(reply.get("tried", 0)),
            lossy=tuple(Lossy(int(x["row"]), str(x["field"]), str(x["why"])) for x in reply.get("lossy", ())),
            lossy_total=int(reply.get("lossy_total", 0)),
            roles=None
            if roles is None
            else tuple(Role(str(r["name"]), str(r["harness"]), str(r["runtime"]), bool(r["own"])) for r in roles),
            shapes=dict(reply.get("shapes") or {}),
            wire=tuple((int(w["row"]), dict(w["data"])) for w in reply.get("wire", ())),
            parsers=tuple(
                ParserUse(str(p["function"]), str(p["given"]), str(p["environment"])) for p in reply.get("parsers", ())
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("facts", reply) from error


def decode_rows(reply: Any) -> Rows:
    """A `rows` reply as a value. Raises WorkerError."""
    try:
        rows = tuple(
            Row(int(r["index"]), str(r["key"]), tuple(r["prompt"]), r["answer"], r["info"], dict(r["fields"]))
            for r in reply["rows"]
        )
        return Rows(rows, None if reply["total"] is None else int(reply["total"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("rows", reply) from error


def decode_scored(reply: Any, case: Case | Kept) -> Scored:
    """One reply of `score` as a value. Raises WorkerError."""
    try:
        return Scored(
            id=case.id,
            reward=_float(reply["reward"]),
            components={
                str(n): Component(_float(c["score"]), float(c["weight"] or 0.0)) for n, c in reply["components"].items()
            },
            metrics={str(n): _float(v) for n, v in reply["metrics"].items()},
            errors=tuple(CaseError(str(e["type"]), str(e["message"]), str(e["where"])) for e in reply["errors"]),
            problems=tuple(map(str, reply["problems"])),
            ms=float(reply["ms"]),
            judges=_judges(reply),
            members=tuple(decode_scored(member, case) for member in reply.get("members", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("score", reply) from error


def decode_manners(reply: Any, cases: Sequence[Case]) -> list[Manner]:
    """A `together` reply as values. Raises WorkerError."""
    try:
        return [
            Manner(
                case.id,
                _float(told["alone"]),
                None if told["together"] is None else (_float(told["together"][0]),),
                tuple(str(name)[:80] for name in told["mutated"]),
                float(told["blocked"]) * 1000,
            )
            for case, told in zip(cases, reply, strict=True)
        ]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise nonsense("together", reply) from error


def _judges(reply: Any) -> tuple[JudgeInfo, ...]:
    return tuple(
        JudgeInfo(str(j["name"]), str(j["model"]), _float(j["temperature"]), str(j["host"]))
        for j in reply.get("judges", ())
    )


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
