"""Runs the commands of `prime` 0.18.0, with one method for each command that the server uses.

The module contains flags and parsing, no policy. Every method raises `PrimeRefusal` (refusals.py) with a distinct code
and a fix. Commands that print JSON run without `--plain`, which mixes progress lines into the JSON; commands that print
only text run with `--plain`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.prime import answers, download, pods, refusals
from prime_lab_mcp.lab.prime.answers import (
    Account,
    KeySource,
    PlatformModels,
    Pushed,
    Submitted,
    Team,
    ValidateAnswer,
    Wallet,
)
from prime_lab_mcp.lab.prime.program import PrimeFinder, PrimeProgram, parse_json
from prime_lab_mcp.lab.prime.refusals import PrimeRefusal

Visibility = Literal["PUBLIC", "PRIVATE"]
T = TypeVar("T")
KEEP_SECONDS = 60.0
"""Seconds for which answers that rarely change are reused. One start of `prime` takes most of a second."""
_PAGE = 100
_MAX_PAGES = 50
_UV_SHIM = """#!/bin/sh
# Replaces uv while `prime env push` runs: copies the checked wheel and builds nothing.
out=dist
[ "$1" = build ] || {{ echo "only the checked wheel may be pushed" >&2; exit 1; }}
while [ $# -gt 0 ]; do
  case "$1" in
    --out-dir|-o) out=$2; shift ;;
    --out-dir=*) out=${{1#--out-dir=}} ;;
  esac
  shift
done
mkdir -p -- "$out" && cp -- {wheel} "$out/"
"""
"""A program that replaces `uv`. prime 0.18.0 runs `uv build --wheel --out-dir dist` in the folder."""
_WHOAMI = ["--plain", "whoami"]
_TEAMS = ["teams", "list", "-o", "json"]
_WALLET = ["wallet", "-n", "1", "-o", "json"]
_TRAIN_MODELS = ["train", "models", "-o", "json"]
_EVALUATION_ID = re.compile(r"Evaluation ID:?\s+(\S+)")


def _fresh(cached: tuple[float, T] | None) -> T | None:
    """The cached answer; None if there is none, or if it is older than `KEEP_SECONDS`."""
    return cached[1] if cached is not None and time.monotonic() - cached[0] < KEEP_SECONDS else None


class Prime:
    """The platform, accessed through the program `prime` as the logged-in user."""

    def __init__(
        self,
        settings: Settings,
        toolchain: PrimeFinder,
        platform_variables: Callable[[], Awaitable[Mapping[str, str]]],
    ) -> None:
        self._settings = settings
        self._program = PrimeProgram(settings, toolchain, platform_variables)
        self._account: tuple[float, Account] | None = None
        self._teams: tuple[float, tuple[Team, ...]] | None = None
        self._models: tuple[float, PlatformModels] | None = None
        self._served: tuple[float, list[dict[str, Any]]] | None = None

    async def version(self) -> str:
        """Version of the `prime` in use, which is at least 0.18.0."""
        return (await self._program.find())[1]

    async def frontend(self) -> str:
        """Address of the platform's pages, without a trailing slash."""
        url = (await self._program.variables()).get("PRIME_FRONTEND_URL", "https://app.primeintellect.ai")
        return url.rstrip("/")

    async def inference_url(self) -> str:
        """Address of Prime Inference, without a trailing slash."""
        url = (await self._program.variables()).get("PRIME_INFERENCE_URL", "https://api.pinference.ai/api/v1")
        return url.rstrip("/")

    async def ask_ahead(self, refs: Sequence[str], pinned: Sequence[str], archives: Mapping[str, Path]) -> None:
        """Send the requests that the gate and the question of a submission need in one process.

        These are account, teams, wallet, prices, the entries of `refs` (`owner/name`), the wheels' locations of
        `pinned` (`owner/name@version`), and the archives of such versions, each with the folder for its files. Requests
        with a fresh cached answer are left out.
        """
        commands = [_WHOAMI] if _fresh(self._account) is None else []
        commands += [_TEAMS] if _fresh(self._teams) is None else []
        commands += [_TRAIN_MODELS] if _fresh(self._models) is None else []
        commands += [_WALLET, *(_env_status(_require_name(ref)) for ref in refs)]
        commands += [_env_info(_require_name(ref)) for ref in pinned]
        commands += [_env_pull(_require_name(ref), folder) for ref, folder in archives.items()]
        await self._program.ask_ahead(commands)

    async def ask_entries_ahead(self, refs: Sequence[str]) -> None:
        """Request the models, the wallet and the entries of `refs` (`owner/name`) in one process, for the check of a
        config."""
        models = [_TRAIN_MODELS] if _fresh(self._models) is None else []
        await self._program.ask_ahead([*models, _WALLET, *(_env_status(_require_name(ref)) for ref in refs)])

    @asynccontextmanager
    async def account_asked_ahead(self) -> AsyncIterator[None]:
        """Request the account, its teams, the wallet and the models in one process. The answers are valid only inside
        the block."""
        teams = [_TEAMS] if _fresh(self._teams) is None else []
        models = [_TRAIN_MODELS] if _fresh(self._models) is None else []
        await self._program.ask_ahead([_WHOAMI, *teams, *models, _WALLET])
        try:
            yield
        finally:
            self._program.forget_ahead()

    async def login_stamp(self) -> object:
        """A value that changes with the login: the state of prime's configuration file, and the variables that override
        it."""
        variables = await self._program.variables()
        try:
            status = (Path(variables["HOME"]) / ".prime" / "config.json").stat()
            file = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            file = None
        return file, tuple(sorted((k, v) for k, v in variables.items() if k.startswith("PRIME_")))

    # The account

    async def whoami(self) -> Account:
        """Ask the platform for the owner of the key. An answer proves that the platform accepts the key."""
        text = await self._program.text(_WHOAMI, timeout=30, doing="asking who is logged in")
        account = answers.account_of(text, self._key_source)
        if account is None:
            raise refusals.refusal_of_kind(
                refusals.GARBLED, "asking who is logged in", refusals.clean_output(text)[:200]
            )
        self._account = (time.monotonic(), account)
        return account

    async def account(self) -> Account:
        """The owner of the key, at most a minute old."""
        account = _fresh(self._account)
        return account if account is not None else await self.whoami()

    @property
    def _key_source(self) -> KeySource:
        if self._settings.rehearsal:
            return "rehearsal"
        return "PRIME_API_KEY" if os.environ.get("PRIME_API_KEY") else "prime login"

    async def teams(self) -> tuple[Team, ...]:
        """The teams of the account, at most a minute old."""
        teams = _fresh(self._teams)
        if teams is None:
            answer = await self._program.json(_TEAMS, timeout=30, doing="listing the teams")
            teams = tuple(
                Team(str(t.get("teamId")), str(t.get("slug")), str(t.get("name")), str(t.get("role")))
                for t in answer.get("teams") or ()
            )
            self._teams = (time.monotonic(), teams)
        return teams

    async def wallet(self) -> Wallet:
        answer = await self._program.json(_WALLET, timeout=30, doing="reading the wallet")
        return Wallet(answers.finite_number(answer.get("balance_usd")) or 0.0, str(answer.get("currency") or "USD"))

    # The Hub

    async def env_status(self, ref: str) -> dict[str, Any]:
        """The Hub's JSON about `owner/name`: visibility and latest version with its content hash."""
        return await self._program.json(
            _env_status(ref), timeout=40, doing=f"looking up {quote(_require_name(ref), 120)}"
        )

    async def env_versions(self, ref: str) -> dict[str, str]:
        """Content hash of each version of `owner/name`, newest first."""
        text = await self._program.text(
            ["--plain", "env", "version", "list", ref, "--full-hashes"],
            timeout=40,
            doing=f"listing the versions of {quote(_require_name(ref), 120)}",
        )
        return answers.hashes_of(text)

    async def env_list(self, search: str, limit: int = 20) -> list[dict[str, Any]]:
        """Environments whose name or description contains the text."""
        answer = await self._program.json(
            ["env", "list", "--search", search, "-n", str(limit), "--output", "json"],
            timeout=40,
            doing="searching the Hub",
        )
        return [e for e in answer.get("environments") or () if isinstance(e, dict)]

    async def env_info(self, ref: str) -> str:
        """The text that `prime env info` prints about `owner/name[@version]`."""
        return await self._program.text(
            _env_info(ref), timeout=40, doing=f"reading about {quote(_require_name(ref), 120)}"
        )

    async def env_inspect(self, ref: str, path: str | None = None) -> dict[str, Any]:
        """List a folder, or read a file up to 100,000 bytes, in the source of `owner/name[@version]`."""
        return await self._program.json(
            ["env", "inspect", ref, *([path] if path else []), "-o", "json"],
            timeout=40,
            doing=f"reading the source of {quote(_require_name(ref), 120)}",
        )

    async def env_secrets(self, ref: str) -> tuple[str, ...]:
        """Names of the secrets that are linked to `owner/name`."""
        answer = await self._program.json(
            ["env", "secret", "list", ref, "-o", "json"],
            timeout=40,
            doing=f"listing the secrets of {quote(_require_name(ref), 120)}",
        )
        return tuple(str(s["name"]) for s in answer.get("secrets") or () if isinstance(s, dict) and s.get("name"))

    async def env_variables(self, ref: str) -> tuple[str, ...]:
        """Names of the non-secret variables that are set for `owner/name`."""
        answer = await self._program.json(
            ["env", "var", "list", ref, "-o", "json"],
            timeout=40,
            doing=f"listing the variables of {quote(_require_name(ref), 120)}",
        )
        return tuple(str(v["name"]) for v in answer.get("variables") or () if isinstance(v, dict) and v.get("name"))

    async def env_push(
        self,
        folder: Path,
        wheel: Path,
        *,
        owner: str | None = None,
        team: str | None = None,
        visibility: Visibility | None = None,
        runtime: answers.Runtime,
    ) -> Pushed:
        """Publish a writable folder with a wheel that was built before.

        `prime env push` builds a wheel with the first `uv` on PATH, and the API key is in its environment. To prevent
        this build, a shim in the place of `uv` copies `wheel` into the output folder. prime's version bump is never
        used, because it rewrites every `version =`.
        """
        options = ["--path", str(folder), "--runtime", runtime]
        for flag, value in (("--owner", owner), ("--team", team), ("--visibility", visibility)):
            options += [flag, value] if value else []
        text = await self._program.text(
            ["--plain", "env", "push", *options],
            timeout=600,
            doing="pushing the environment",
            cwd=folder,
            extra={"PATH": await self._shim_path(wheel)},
        )
        if "Successfully pushed" not in text:
            raise refusals.refusal_of_kind(
                refusals.GARBLED, "pushing the environment", refusals.clean_output(text)[-300:]
            )
        return await self._pushed(folder, text)

    async def _shim_path(self, wheel: Path) -> str:
        """Return a PATH whose first folder has a `uv` that only copies the wheel."""
        shims = wheel.parent / "shims"
        shims.mkdir(exist_ok=True)
        program = shims / "uv"
        program.write_text(_UV_SHIM.format(wheel=shlex.quote(str(wheel))), encoding="utf-8")
        program.chmod(0o755)
        return os.pathsep.join([str(shims), (await self._program.variables()).get("PATH", "")])

    async def _pushed(self, folder: Path, text: str) -> Pushed:
        try:
            metadata = json.loads((folder / ".prime" / ".env-metadata.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            output = refusals.clean_output(text)[-200:]
            raise refusals.refusal_of_kind(refusals.GARBLED, "reading what the push wrote down", output) from error
        owner, name = str(metadata.get("owner")), str(metadata.get("name"))
        return Pushed(
            owner,
            name,
            metadata.get("version"),
            metadata.get("wheel_sha256"),
            metadata.get("environment_id"),
            f"{await self.frontend()}/dashboard/environments/{owner}/{name}",
        )

    async def env_pull(self, ref: str, target: Path) -> None:
        """Unpack the source of `owner/name[@version]` into a folder."""
        await self._program.text(_env_pull(ref, target), timeout=300, doing=f"pulling {quote(_require_name(ref), 120)}")

    async def env_wheel(self, ref: str, target: Path) -> Path | None:
        """Download the published wheel of `owner/name@version`; None if the Hub offers none, as for private
        environments.

        No key is sent: a wheel that the platform offers is public or has a signed address.
        """
        doing = f"fetching the wheel of {quote(_require_name(ref), 120)}"
        place = answers.wheel_place_of(await self.env_info(ref))
        if place is None:
            return None
        return await download.fetch_wheel(place, target, doing, trust_env=not self._settings.rehearsal)

    # Models and GPUs

    async def models(self) -> PlatformModels:
        """Trainable models with GPU types and prices, at most a minute old."""
        models = _fresh(self._models)
        if models is None:
            answer = await self._program.json(_TRAIN_MODELS, timeout=40, doing="listing trainable models")
            models = answers.models_of(answer)
            self._models = (time.monotonic(), models)
        return models

    async def gpu_offers(self, gpus: int) -> tuple[pods.GpuOffer, ...]:
        """Offers of pods with this number of GPUs, cheapest first."""
        return await pods.gpu_offers(self._program, gpus)

    async def pods(self) -> tuple[pods.Pod, ...]:
        """Pods of this account that are currently billed."""
        return await pods.pods(self._program)

    async def inference_models(self) -> list[dict[str, Any]]:
        """Models that Prime Inference serves, with prices in US dollars per million tokens, at most a minute old."""
        served = _fresh(self._served)
        if served is None:
            answer = await self._program.json(
                ["inference", "models", "-o", "json"], timeout=40, doing="listing inference models"
            )
            served = [m for m in answer.get("data") or answer.get("models") or () if isinstance(m, dict)]
            self._served = (time.monotonic(), served)
        return served

    # Training

    async def train_validate(self, path: Path) -> ValidateAnswer:
        """Ask whether the platform's schema accepts a config. Creates nothing. A rejected config is an answer, not an
        error.

        The first call for a prime-rl commit installs its schema, which takes about 20 s and half a gigabyte; prime
        reuses the schema in later calls.
        """
        doing = "validating the training config"
        try:
            done = await self._program.completed(
                ["train", "validate", str(path), "-o", "json"], timeout=400, doing=doing, cwd=path.parent
            )
            answer = parse_json(done.stdout, doing) if done.stdout.strip() else {"error": done.stderr}
        except PrimeRefusal as refused:
            return ValidateAnswer("unavailable", (refused.message,))
        error = answer.get("error")
        if done.returncode == 0 and error is None:
            return ValidateAnswer("valid", (), answer.get("schema_commit"))
        return answers.validation_of(str(error or refusals.clean_output(done.stdout)))

    async def train_submit(
        self, path: Path, *, resume_from: str | None = None, secrets: Mapping[str, str] | None = None
    ) -> Submitted:
        """Create a run, which costs money. `secrets` (WANDB_API_KEY, HF_TOKEN) are passed by name."""
        options = ["--resume-from", resume_from] if resume_from else []
        for name in secrets or {}:
            options += ["-e", name]
        doing = "submitting the training run"
        text = await self._program.text(
            ["train", "run", str(path), "-o", "json", "-y", *options],
            timeout=300,
            doing=doing,
            cwd=path.parent,
            extra=secrets,
        )
        return _parse_submitted(text, doing)

    async def train_list(self, name: str | None = None, *, limit: int | None = None) -> list[dict[str, Any]]:
        """Runs of the account, newest first: all or the newest `limit`.

        With a name, only runs with exactly that name.
        """
        runs: list[dict[str, Any]] = []
        for page in range(1, _MAX_PAGES + 1):
            answer = await self._program.json(
                ["train", "list", "-n", str(_PAGE), "-p", str(page), "-o", "json"],
                timeout=60,
                doing="listing training runs",
            )
            listed = [r for r in answer.get("runs") or () if isinstance(r, dict)]
            runs += listed
            if not listed or len(runs) >= min(int(answer.get("total") or 0), limit or 10**9):
                break
        return [r for r in runs[:limit] if name is None or r.get("name") == name]

    async def train_get(self, id: str) -> dict[str, Any]:
        answer = await self._program.json(["train", "get", id, "-o", "json"], timeout=40, doing=_reading_message(id))
        run = answer.get("run")
        return run if isinstance(run, dict) else answer

    async def train_progress(self, id: str) -> dict[str, Any]:
        return await self._program.json(["train", "progress", id], timeout=40, doing=_reading_message(id))

    async def train_metrics(self, id: str, min_step: int | None = None) -> list[dict[str, Any]]:
        """The metrics of a run, one row per step, oldest first."""
        since = ["--min-step", str(min_step)] if min_step is not None else []
        answer = await self._program.json(["train", "metrics", id, *since], timeout=60, doing=_reading_message(id))
        rows = [r for r in answer.get("metrics") or () if isinstance(r, dict)]
        return sorted(rows, key=lambda row: answers.finite_number(row.get("step")) or 0.0)

    async def train_distributions(self, id: str, kind: str | None = None, step: int | None = None) -> dict[str, Any]:
        options = ["-t", kind] if kind else []
        options += ["-s", str(step)] if step is not None else []
        return await self._program.json(
            ["train", "distributions", id, *options], timeout=60, doing=_reading_message(id)
        )

    async def train_rollouts(self, id: str, step: int, page: int = 1, limit: int = 100) -> dict[str, Any]:
        return await self._program.json(
            ["train", "rollouts", id, "-s", str(step), "-p", str(page), "-n", str(limit)],
            timeout=60,
            doing=_reading_message(id),
        )

    async def train_checkpoints(self, id: str) -> list[dict[str, Any]]:
        answer = await self._program.json(
            ["train", "checkpoints", id, "-o", "json"], timeout=40, doing=_reading_message(id)
        )
        return [c for c in answer.get("checkpoints") or () if isinstance(c, dict)]

    async def train_usage(self, id: str) -> dict[str, Any]:
        return await self._program.json(["train", "usage", id, "-o", "json"], timeout=40, doing=_reading_message(id))

    async def train_logs(
        self,
        id: str,
        component: str = "orchestrator",
        lines: int = 100,
        environment: str | None = None,
        *,
        seconds: float = 60.0,
    ) -> str:
        """The newest log lines of a component. The component `env-server` needs the environment's name.

        prime waits up to three minutes for a queued run; this method gives up after `seconds`.
        """
        options = ["--env", _require_name(environment)] if environment else []
        doing = f"reading the log of run {quote(_require_name(id), 80)}"
        try:
            return await self._program.text(
                ["--plain", "train", "logs", id, "-c", component, "-n", str(lines), *options],
                timeout=seconds,
                doing=doing,
                limit=400_000,
            )
        except PrimeRefusal as refused:
            if refused.code != refusals.SLOW.code:
                raise
            raise PrimeRefusal(
                f"{doing}: nothing came within {seconds:g} seconds; a run that has not started has no log yet",
                fix=Fix(
                    "Call ",
                    NamedCall("watch_run"),
                    ": it says whether the run has started. Then ask for the log again.",
                ),
                code="platform-slow",
            ) from refused

    async def train_stop(self, id: str) -> str:
        return await self._control("stop", id, 240)

    async def train_pause(self, id: str) -> str:
        return await self._control("pause", id, 120)

    async def train_restart(self, id: str) -> str:
        return await self._control("restart", id, 120)

    async def _control(self, verb: str, id: str, timeout: float) -> str:
        return refusals.clean_output(
            await self._program.text(
                ["--plain", "train", verb, id, "-f"],
                timeout=timeout,
                doing=f"{verb} of run {quote(_require_name(id), 80)}",
            )
        )

    async def train_resume(self, id: str, *, secrets: Mapping[str, str] | None = None) -> Submitted:
        """Continue a PAUSED run as a new run, which costs money."""
        options = [part for name in secrets or {} for part in ("-e", name)]
        doing = f"resuming run {quote(_require_name(id), 80)}"
        text = await self._program.text(
            ["train", "resume", id, "-o", "json", "-y", *options], timeout=300, doing=doing, extra=secrets
        )
        return _parse_submitted(text, doing)

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
        """Start a hosted evaluation of the latest published version, which costs inference, and return its id."""
        options: list[tuple[str, object | None]] = [
            ("-m", model),
            ("-n", num_examples),
            ("-r", rollouts),
            ("--eval-name", name),
            ("-a", json.dumps(dict(env_args)) if env_args else None),
            ("-t", max_tokens),
            ("-T", temperature),
            ("-c", concurrency),
            ("--timeout-minutes", timeout_minutes),
        ]
        flags = [part for flag, value in options if value is not None for part in (flag, str(value))]
        doing = f"starting a hosted evaluation of {quote(_require_name(ref), 120)}"
        text = await self._program.text(["--plain", "eval", "run", ref, "--hosted", *flags], timeout=180, doing=doing)
        match = _EVALUATION_ID.search(text)
        if match is None:
            raise refusals.refusal_of_kind(refusals.GARBLED, doing, refusals.clean_output(text)[-300:])
        return match[1]

    async def eval_list(self, name: str | None = None, environment: str | None = None) -> list[dict[str, Any]]:
        """Evaluations of the account, newest first. With a name, only evaluations with exactly that name."""
        options = ["-e", environment] if environment else []
        evaluations: list[dict[str, Any]] = []
        for page in range(1, _MAX_PAGES + 1):
            answer = await self._program.json(
                ["eval", "list", "-n", str(_PAGE), "-p", str(page), *options, "-o", "json"],
                timeout=40,
                doing="listing evaluations",
            )
            listed = [e for e in answer.get("evaluations") or answer.get("data") or () if isinstance(e, dict)]
            evaluations += listed
            matching = [e for e in evaluations if name is None or e.get("name") == name]
            if not listed or len(evaluations) >= int(answer.get("total") or 0) or (matching and name is not None):
                break
        return matching

    async def eval_get(self, id: str) -> dict[str, Any]:
        return await self._program.json(
            ["eval", "get", id, "-o", "json"], timeout=40, doing=_reading_message(id, "evaluation")
        )

    async def eval_samples(self, id: str, page: int = 1, limit: int = 100) -> dict[str, Any]:
        return await self._program.json(
            ["eval", "samples", id, "-p", str(page), "-n", str(limit), "-o", "json"],
            timeout=60,
            doing=_reading_message(id, "evaluation"),
        )

    async def eval_push(self, folder: Path, ref: str, name: str, *, into: str | None = None) -> str:
        """Upload metadata.json and results.jsonl of a folder, never publicly, and return the evaluation's id.

        With `into`, the files go to the existing evaluation of that id.
        """
        options = ["-e", ref, "--name", name, *(["--eval", into] if into else [])]
        doing = f"uploading an evaluation of {quote(_require_name(ref), 120)}"
        text = await self._program.text(["eval", "push", str(folder), *options], timeout=600, doing=doing, cwd=folder)
        match = _EVALUATION_ID.search(text)
        if match is None:
            raise refusals.refusal_of_kind(refusals.GARBLED, doing, refusals.clean_output(text)[-300:])
        return match[1]

    async def eval_stop(self, id: str) -> str:
        return refusals.clean_output(
            await self._program.text(
                ["--plain", "eval", "stop", id], timeout=60, doing=_reading_message(id, "evaluation")
            )
        )


def _env_status(ref: str) -> list[str]:
    return ["env", "status", ref, "--output", "json"]


def _env_pull(ref: str, target: Path) -> list[str]:
    return ["--plain", "env", "pull", ref, "--target", str(target)]


def _env_info(ref: str) -> list[str]:
    return ["--plain", "env", "info", ref]


def _reading_message(id: str, what: str = "run") -> str:
    return f"reading {what} {quote(_require_name(id), 80)}"


def _require_name(name: str) -> str:
    """Return a name or id unchanged. Raises BadInput if it is empty or prime would read it as an option."""
    if not name or name.startswith("-"):
        raise BadInput(
            f"{quote(name, 80)} is no name or id of anything on the platform",
            fix=Fix(
                "Use names from ",
                NamedCall("search_hub", kind="environment", query=...).bare,
                " and ids from ",
                NamedCall("watch_run"),
                ".",
            ),
        )
    return name


def _parse_submitted(text: str, doing: str) -> Submitted:
    submitted = answers.submitted_of(parse_json(text, doing))
    if submitted is None:
        raise refusals.refusal_of_kind(refusals.GARBLED, doing, refusals.clean_output(text)[:200])
    return submitted
