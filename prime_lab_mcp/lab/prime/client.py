"""One function per verb of `prime` 0.18.0 that the server uses. Knows flags and answers; knows no policy.

Every function raises `Refusal` (refusals.py) with a distinct code and a fix. JSON is asked for without `--plain`
(which mixes progress lines into it); `--plain` is for the verbs that print text only.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.prime import answers, pods, refusals
from prime_lab_mcp.lab.prime.answers import (
    Account,
    KeySource,
    Models,
    Pushed,
    Submitted,
    Team,
    ValidateAnswer,
    Wallet,
)
from prime_lab_mcp.lab.prime.program import Program, Programs, parse
from prime_lab_mcp.lab.prime.refusals import Refusal
from prime_lab_mcp.lab.settings import Settings
from prime_lab_mcp.lab.text import quote

Visibility = Literal["PUBLIC", "PRIVATE"]
KEEP_SECONDS = 60.0
"""A program start costs most of a second; what hardly changes is asked once a minute."""
_PAGE = 100
_MAX_PAGES = 50
_MACHINERY = re.compile(
    r"Could not build local schema environment|schema cache lock|requires uv on PATH|schema worker|"
    r"Unsupported local validation contract|Preparation |HTTP 5\d\d|HTTP 429|Request failed|Request timed out|"
    r"No API key|API key unauthorized|Payment required|HTTP 40[123]|No such file|not a dictionary|"
    r"schema provenance mismatch|Failed to parse local validation|No module named|cannot import name|Expecting value"
)
"""Words of `train validate` that blame the platform, the network or this machine, and not the config."""
_EVALUATION_ID = re.compile(r"Evaluation ID:?\s+(\S+)")


class Prime:
    """The platform as this user sees it through `prime`."""

    def __init__(
        self,
        settings: Settings,
        toolchain: Programs,
        platform_variables: Callable[[], Awaitable[Mapping[str, str]]],
    ) -> None:
        self._settings = settings
        self._program = Program(settings, toolchain, platform_variables)
        self._account: tuple[float, Account] | None = None
        self._models: tuple[float, Models] | None = None

    async def version(self) -> str:
        """Version of the `prime` in use, at least 0.18.0."""
        return (await self._program.find())[1]

    async def frontend(self) -> str:
        """Address of the platform's pages, without a trailing slash."""
        found = (await self._program.variables()).get("PRIME_FRONTEND_URL", "https://app.primeintellect.ai")
        return found.rstrip("/")

    async def inference_url(self) -> str:
        """Address of Prime Inference, without a trailing slash."""
        known = (await self._program.variables()).get("PRIME_INFERENCE_URL", "https://api.pinference.ai/api/v1")
        return known.rstrip("/")

    # The account

    async def whoami(self) -> Account:
        """Ask the platform who the key belongs to; an answer means that it is really accepted."""
        text = await self._program.text(["--plain", "whoami"], timeout=30, doing="asking who is logged in")
        found = answers.account_of(text, self._key_source)
        if found is None:
            raise refusals.of(refusals.GARBLED, "asking who is logged in", refusals.clean(text)[:200])
        self._account = (time.monotonic(), found)
        return found

    async def account(self) -> Account:
        """`whoami`, or its answer of the last minute."""
        if self._account is not None and time.monotonic() - self._account[0] < KEEP_SECONDS:
            return self._account[1]
        return await self.whoami()

    @property
    def _key_source(self) -> KeySource:
        if self._settings.rehearsal:
            return "rehearsal"
        return "PRIME_API_KEY" if os.environ.get("PRIME_API_KEY") else "prime login"

    async def teams(self) -> tuple[Team, ...]:
        found = await self._program.json(["teams", "list", "-o", "json"], timeout=30, doing="listing the teams")
        return tuple(
            Team(str(t.get("teamId")), str(t.get("slug")), str(t.get("name")), str(t.get("role")))
            for t in found.get("teams") or ()
        )

    async def wallet(self) -> Wallet:
        found = await self._program.json(["wallet", "-n", "1", "-o", "json"], timeout=30, doing="reading the wallet")
        return Wallet(answers.number(found.get("balance_usd")) or 0.0, str(found.get("currency") or "USD"))

    # The Hub

    async def env_status(self, ref: str) -> dict[str, Any]:
        """Visibility and latest version (with content hash) of `owner/name`, as the Hub words it."""
        return await self._program.json(
            ["env", "status", ref, "--output", "json"], timeout=40, doing=f"looking up {quote(_plain(ref), 120)}"
        )

    async def env_versions(self, ref: str) -> dict[str, str]:
        """Version to content hash of `owner/name`, newest first."""
        text = await self._program.text(
            ["--plain", "env", "version", "list", ref, "--full-hashes"],
            timeout=40, doing=f"listing the versions of {quote(_plain(ref), 120)}",
        )  # fmt: skip
        return answers.hashes_of(text)

    async def env_list(self, search: str, limit: int = 20) -> list[dict[str, Any]]:
        """Environments whose name or description holds the text."""
        found = await self._program.json(
            ["env", "list", "--search", search, "-n", str(limit), "--output", "json"],
            timeout=40, doing="searching the Hub",
        )  # fmt: skip
        return [e for e in found.get("environments") or () if isinstance(e, dict)]

    async def env_info(self, ref: str) -> str:
        """What `prime env info` prints about `owner/name[@version]`."""
        return await self._program.text(
            ["--plain", "env", "info", ref], timeout=40, doing=f"reading about {quote(_plain(ref), 120)}"
        )

    async def env_inspect(self, ref: str, path: str | None = None) -> dict[str, Any]:
        """A folder's entries or a file's content (up to 100,000 bytes) in the source of `owner/name[@version]`."""
        return await self._program.json(
            ["env", "inspect", ref, *([path] if path else []), "-o", "json"],
            timeout=40, doing=f"reading the source of {quote(_plain(ref), 120)}",
        )  # fmt: skip

    async def env_secrets(self, ref: str) -> tuple[str, ...]:
        """Names of the secrets that are linked to `owner/name`."""
        found = await self._program.json(
            ["env", "secret", "list", ref, "-o", "json"],
            timeout=40, doing=f"listing the secrets of {quote(_plain(ref), 120)}",
        )  # fmt: skip
        return tuple(str(s["name"]) for s in found.get("secrets") or () if isinstance(s, dict) and s.get("name"))

    async def env_variables(self, ref: str) -> tuple[str, ...]:
        """Names of the plain variables that are set for `owner/name`."""
        found = await self._program.json(
            ["env", "var", "list", ref, "-o", "json"],
            timeout=40, doing=f"listing the variables of {quote(_plain(ref), 120)}",
        )  # fmt: skip
        return tuple(str(v["name"]) for v in found.get("variables") or () if isinstance(v, dict) and v.get("name"))

    async def env_push(
        self,
        folder: Path,
        *,
        owner: str | None = None,
        team: str | None = None,
        visibility: Visibility | None = None,
        runtime: answers.Runtime,
    ) -> Pushed:
        """Build and publish a folder that may be written to. Never bumps: that rewrites every `version =`."""
        options = ["--path", str(folder), "--runtime", runtime]
        for flag, value in (("--owner", owner), ("--team", team), ("--visibility", visibility)):
            options += [flag, value] if value else []
        text = await self._program.text(
            ["--plain", "env", "push", *options], timeout=600, doing="pushing the environment", cwd=folder
        )
        if "Successfully pushed" not in text:
            raise refusals.of(refusals.GARBLED, "pushing the environment", refusals.clean(text)[-300:])
        return await self._pushed(folder, text)

    async def _pushed(self, folder: Path, text: str) -> Pushed:
        try:
            kept = json.loads((folder / ".prime" / ".env-metadata.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            said = refusals.clean(text)[-200:]
            raise refusals.of(refusals.GARBLED, "reading what the push wrote down", said) from error
        owner, name = str(kept.get("owner")), str(kept.get("name"))
        return Pushed(
            owner, name, kept.get("version"), kept.get("wheel_sha256"), kept.get("environment_id"),
            f"{await self.frontend()}/dashboard/environments/{owner}/{name}",
        )  # fmt: skip

    async def env_pull(self, ref: str, target: Path) -> None:
        """Unpack the source of `owner/name[@version]` into a folder."""
        await self._program.text(
            ["--plain", "env", "pull", ref, "--target", str(target)],
            timeout=300,
            doing=f"pulling {quote(_plain(ref), 120)}",
        )

    # Models and GPUs

    async def models(self) -> Models:
        """What can be trained, on which GPUs, at which price, as of the last minute."""
        if self._models is None or time.monotonic() - self._models[0] >= KEEP_SECONDS:
            told = await self._program.json(
                ["train", "models", "-o", "json"], timeout=40, doing="listing trainable models"
            )
            self._models = (time.monotonic(), answers.models_of(told))
        return self._models[1]

    async def gpus(self) -> tuple[str, ...]:
        found = await self._program.json(["train", "gpus", "-o", "json"], timeout=40, doing="listing GPU types")
        return tuple(str(g) for g in found.get("gpuTypes") or ())

    async def gpu_offers(self, gpus: int) -> tuple[pods.GpuOffer, ...]:
        """Pods for rent with so many GPUs, cheapest first."""
        return await pods.gpu_offers(self._program, gpus)

    async def pods(self) -> tuple[pods.Pod, ...]:
        """Pods of this account that are billed now."""
        return await pods.pods(self._program)

    async def inference_models(self) -> list[dict[str, Any]]:
        """Models that Prime Inference serves, with prices in US dollars per million tokens."""
        found = await self._program.json(
            ["inference", "models", "-o", "json"], timeout=40, doing="listing inference models"
        )
        listed = found.get("data") or found.get("models") or ()
        return [m for m in listed if isinstance(m, dict)]

    # Training

    async def train_validate(self, path: Path) -> ValidateAnswer:
        """Ask whether the platform's own schema accepts a config. Creates nothing; never raises for an answer.

        The first call for a prime-rl commit installs its schema (about 20 s and half a gigabyte, kept by prime).
        """
        doing = "validating the training config"
        try:
            done = await self._program.completed(
                ["train", "validate", str(path), "-o", "json"], timeout=400, doing=doing, cwd=path.parent
            )
            answer = parse(done.stdout, doing) if done.stdout.strip() else {"error": done.stderr}
        except Refusal as refused:
            return ValidateAnswer("unavailable", (refused.message,))
        error = answer.get("error")
        if done.returncode == 0 and error is None:
            return ValidateAnswer("valid", (), answer.get("schema_commit"))
        return _validation(str(error or refusals.clean(done.stdout)))

    async def train_submit(
        self, path: Path, *, resume_from: str | None = None, secrets: Mapping[str, str] | None = None
    ) -> Submitted:
        """Create a run: this spends money. `secrets` are WANDB_API_KEY or HF_TOKEN, handed on by name."""
        options = ["--resume-from", resume_from] if resume_from else []
        for name in secrets or {}:
            options += ["-e", name]
        doing = "submitting the training run"
        text = await self._program.text(
            ["train", "run", str(path), "-o", "json", "-y", *options],
            timeout=300, doing=doing, cwd=path.parent, extra=secrets,
        )  # fmt: skip
        return _submitted(text, doing)

    async def train_list(self, name: str | None = None, *, limit: int | None = None) -> list[dict[str, Any]]:
        """Runs of the account, newest first: all, or the newest `limit`; with a name, those of exactly that name."""
        runs: list[dict[str, Any]] = []
        for page in range(1, _MAX_PAGES + 1):
            found = await self._program.json(
                ["train", "list", "-n", str(_PAGE), "-p", str(page), "-o", "json"],
                timeout=60, doing="listing training runs",
            )  # fmt: skip
            listed = [r for r in found.get("runs") or () if isinstance(r, dict)]
            runs += listed
            if not listed or len(runs) >= min(int(found.get("total") or 0), limit or 10**9):
                break
        return [r for r in runs[:limit] if name is None or r.get("name") == name]

    async def train_get(self, id: str) -> dict[str, Any]:
        found = await self._program.json(["train", "get", id, "-o", "json"], timeout=40, doing=_about(id))
        run = found.get("run")
        return run if isinstance(run, dict) else found

    async def train_progress(self, id: str) -> dict[str, Any]:
        return await self._program.json(["train", "progress", id], timeout=40, doing=_about(id))

    async def train_metrics(self, id: str, min_step: int | None = None) -> list[dict[str, Any]]:
        """One row per step, oldest first."""
        since = ["--min-step", str(min_step)] if min_step is not None else []
        found = await self._program.json(["train", "metrics", id, *since], timeout=60, doing=_about(id))
        rows = [r for r in found.get("metrics") or () if isinstance(r, dict)]
        return sorted(rows, key=lambda row: answers.number(row.get("step")) or 0.0)

    async def train_distributions(self, id: str, kind: str | None = None, step: int | None = None) -> dict[str, Any]:
        options = ["-t", kind] if kind else []
        options += ["-s", str(step)] if step is not None else []
        return await self._program.json(["train", "distributions", id, *options], timeout=60, doing=_about(id))

    async def train_rollouts(self, id: str, step: int, page: int = 1, limit: int = 100) -> dict[str, Any]:
        return await self._program.json(
            ["train", "rollouts", id, "-s", str(step), "-p", str(page), "-n", str(limit)], timeout=60, doing=_about(id)
        )

    async def train_checkpoints(self, id: str) -> list[dict[str, Any]]:
        found = await self._program.json(["train", "checkpoints", id, "-o", "json"], timeout=40, doing=_about(id))
        return [c for c in found.get("checkpoints") or () if isinstance(c, dict)]

    async def train_usage(self, id: str) -> dict[str, Any]:
        return await self._program.json(["train", "usage", id, "-o", "json"], timeout=40, doing=_about(id))

    async def train_logs(
        self, id: str, component: str = "orchestrator", lines: int = 100, environment: str | None = None,
        *, seconds: float = 60.0,
    ) -> str:  # fmt: skip
        """Newest log lines; those of `env-server` need the environment's name.

        prime itself waits up to three minutes for a queued run; this gives up before.
        """
        of = ["--env", _plain(environment)] if environment else []
        doing = f"reading the log of run {quote(_plain(id), 80)}"
        try:
            return await self._program.text(
                ["--plain", "train", "logs", id, "-c", component, "-n", str(lines), *of],
                timeout=seconds, doing=doing, limit=400_000,
            )  # fmt: skip
        except Refusal as refused:
            if refused.code != refusals.SLOW.code:
                raise
            raise Refusal(
                f"{doing}: nothing came within {seconds:g} seconds; a run that has not started has no log yet",
                fix="Call watch_run: it says whether the run has started. Then ask for the log again.",
                code="platform-slow",
            ) from refused

    async def train_stop(self, id: str) -> str:
        return await self._control("stop", id, 240)

    async def train_pause(self, id: str) -> str:
        return await self._control("pause", id, 120)

    async def train_restart(self, id: str) -> str:
        return await self._control("restart", id, 120)

    async def _control(self, verb: str, id: str, timeout: float) -> str:
        return refusals.clean(
            await self._program.text(
                ["--plain", "train", verb, id, "-f"], timeout=timeout, doing=f"{verb} of run {quote(_plain(id), 80)}"
            )
        )

    async def train_resume(self, id: str, *, secrets: Mapping[str, str] | None = None) -> Submitted:
        """Continue a PAUSED run as a new one: this spends money."""
        options = [part for name in secrets or {} for part in ("-e", name)]
        doing = f"resuming run {quote(_plain(id), 80)}"
        text = await self._program.text(
            ["train", "resume", id, "-o", "json", "-y", *options], timeout=300, doing=doing, extra=secrets
        )
        return _submitted(text, doing)

    # Hosted evaluations

    async def eval_hosted(
        self,
        ref: str,
        *,
        model: str,
        num_examples: int,
        rollouts: int,
        name: str,
        env_args: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        concurrency: int | None = None,
        timeout_minutes: int | None = None,
    ) -> str:
        """Start a hosted evaluation of the LATEST published version (costs inference); returns its id."""
        options: list[tuple[str, object | None]] = [
            ("-m", model), ("-n", num_examples), ("-r", rollouts), ("--eval-name", name),
            ("-a", json.dumps(dict(env_args)) if env_args else None), ("-t", max_tokens), ("-T", temperature),
            ("-c", concurrency), ("--timeout-minutes", timeout_minutes),
        ]  # fmt: skip
        flags = [part for flag, value in options if value is not None for part in (flag, str(value))]
        doing = f"starting a hosted evaluation of {quote(_plain(ref), 120)}"
        text = await self._program.text(["--plain", "eval", "run", ref, "--hosted", *flags], timeout=180, doing=doing)
        found = _EVALUATION_ID.search(text)
        if found is None:
            raise refusals.of(refusals.GARBLED, doing, refusals.clean(text)[-300:])
        return found[1]

    async def eval_list(self, name: str | None = None, environment: str | None = None) -> list[dict[str, Any]]:
        """Evaluations of the account, newest first; with a name, those of exactly that name."""
        of = ["-e", environment] if environment else []
        found: list[dict[str, Any]] = []
        for page in range(1, _MAX_PAGES + 1):
            told = await self._program.json(
                ["eval", "list", "-n", str(_PAGE), "-p", str(page), *of, "-o", "json"],
                timeout=40, doing="listing evaluations",
            )  # fmt: skip
            listed = [e for e in told.get("evaluations") or told.get("data") or () if isinstance(e, dict)]
            found += listed
            same = [e for e in found if name is None or e.get("name") == name]
            if not listed or len(found) >= int(told.get("total") or 0) or (same and name is not None):
                break
        return same

    async def eval_get(self, id: str) -> dict[str, Any]:
        return await self._program.json(["eval", "get", id, "-o", "json"], timeout=40, doing=_about(id, "evaluation"))

    async def eval_samples(self, id: str, page: int = 1, limit: int = 100) -> dict[str, Any]:
        return await self._program.json(
            ["eval", "samples", id, "-p", str(page), "-n", str(limit), "-o", "json"],
            timeout=60, doing=_about(id, "evaluation"),
        )  # fmt: skip

    async def eval_push(self, folder: Path, ref: str, name: str, *, into: str | None = None) -> str:
        """Upload metadata.json and results.jsonl of a folder, never publicly; returns the evaluation's id.

        `into`: an evaluation that is there already takes them.
        """
        options = ["-e", ref, "--name", name, *(["--eval", into] if into else [])]
        doing = f"uploading an evaluation of {quote(_plain(ref), 120)}"
        text = await self._program.text(["eval", "push", str(folder), *options], timeout=600, doing=doing, cwd=folder)
        found = _EVALUATION_ID.search(text)
        if found is None:
            raise refusals.of(refusals.GARBLED, doing, refusals.clean(text)[-300:])
        return found[1]

    async def eval_stop(self, id: str) -> str:
        return refusals.clean(
            await self._program.text(["--plain", "eval", "stop", id], timeout=60, doing=_about(id, "evaluation"))
        )


def _about(id: str, what: str = "run") -> str:
    return f"reading {what} {quote(_plain(id), 80)}"


def _plain(name: str) -> str:
    """A name or id that prime cannot take for an option. Raises BadInput."""
    if not name or name.startswith("-"):
        raise BadInput(
            f"{quote(name, 80)} is no name or id of anything on the platform",
            fix="Use names from search_hub and ids from watch_run.",
        )
    return name


def _submitted(text: str, doing: str) -> Submitted:
    found = answers.submitted_of(parse(text, doing))
    if found is None:
        raise refusals.of(refusals.GARBLED, doing, refusals.clean(text)[:200])
    return found


def _validation(said: str) -> ValidateAnswer:
    """`train validate` says in text alone whether the config, the platform or this machine is at fault."""
    if re.search(r"HTTP 40[45]", said):
        return ValidateAnswer("not-offered", (said.strip()[:300],))
    lines = tuple(line.strip(" -") for line in said.splitlines() if line.strip())
    if _MACHINERY.search(said):
        return ValidateAnswer("unavailable", lines[:5])
    if lines and lines[0].rstrip(":") in ("Config validation failed", "Validation failed"):
        lines = lines[1:]
    return ValidateAnswer("invalid", lines[:30] or ("the platform gave no reason",))
