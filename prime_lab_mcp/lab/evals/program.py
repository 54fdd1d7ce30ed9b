"""The command line, environment and files of the real `vf-eval`, which is two different programs under one name.

verifiers 0.4 (v1) takes one JSON config; the lines before it (v0) take flags. Facts about both: they exit 0 even when
every rollout failed, and both upload results or read the user's login unless told otherwise: they get a scratch HOME.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.evals.spec import EvalSpec, shuffles

OLDER = Path(__file__).parents[1] / "worker" / "vf_eval_v0.py"
"""Runs the v0 `vf-eval` so that it can be resumed."""
HARNESSES = Path(__file__).parents[1] / "worker" / "harness"
"""On PYTHONPATH of v1 evaluations: holds the package `vf_lab_chat` and nothing else that could be imported."""
IN_PROCESS_ID = "vf-lab-chat"
KEY_VARIABLE = "PRIME_LAB_RELAY_API_KEY"
"""verifiers keeps variables with API_KEY in their name from the processes that it starts."""
RUN = "run"
_INFINITE_SPREAD = 10
"""Tasks drawn from per task wanted, of a taskset without end: shuffling needs a bound."""


def ours(module: str, *arguments: str) -> list[str]:
    """Run a module of `prime_lab_mcp.lab` under our own interpreter, whatever PYTHONPATH says."""
    root = str(Path(__file__).parents[3])
    start = (
        f"import sys; sys.path.insert(0, {root!r}); from prime_lab_mcp.lab.{module} import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-I", "-c", start, *arguments]


@dataclass(frozen=True, slots=True)
class JobFiles:
    """Where everything of one job lies."""

    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "job.json"

    @property
    def log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def errors(self) -> Path:
        """The end of what `vf-eval` wrote to standard error."""
        return self.root / "vf-eval.log"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def config(self) -> Path:
        return self.root / "eval.json"

    @property
    def output(self) -> Path:
        return self.root / "results"

    @property
    def lock(self) -> Path:
        """Held by the guard as long as anything of `vf-eval` lives."""
        return self.root / "running.lock"

    @property
    def planned(self) -> Path:
        """How many rollouts a complete run has, as v0 found."""
        return self.work / "planned.json"

    @property
    def saved_config(self) -> Path:
        """What v1 `vf-eval` resumes from."""
        return self.output / RUN / "configs" / "resolved" / "eval.json"

    @property
    def samples(self) -> Path:
        """What was downloaded of an evaluation that ran on the platform, one record per line."""
        return self.output / "hosted" / "samples.jsonl"

    def results(self) -> Path | None:
        """The results file, once there is one."""
        if self.samples.is_file():
            return self.samples
        v1 = self.output / RUN / "traces.jsonl"
        if v1.is_file():
            return v1
        found = sorted(self.output.glob("evals/*/*/results.jsonl"), key=lambda p: p.stat().st_mtime)
        return found[-1] if found else None


def command(spec: EvalSpec, files: JobFiles, url: str) -> list[str]:
    """The program and its arguments; writes the config it reads. What a run before this one finished is kept."""
    resumes = resumable(spec, files)
    if not resumes:
        shutil.rmtree(files.output, ignore_errors=True)
    if spec.api == "v0":
        return _older(spec, files, url, resumes=resumes)
    # Resuming compares the saved config with the given one. It is written anew: the relay's port is new in every run,
    # the number of rollouts at once may be, and a machine that was lost may have left half of it.
    config = files.saved_config if resumes else files.config
    config.parent.mkdir(parents=True, exist_ok=True)
    settings = _config(spec, files)
    settings["client"]["base_url"] = url
    _replace(config, json.dumps(settings))
    return [str(spec.python), str(spec.program), "@", str(config), "--resume" if resumes else "--clean"]


def resumable(spec: EvalSpec, files: JobFiles) -> bool:
    """Whether a run before this one left rollouts that need not be repeated."""
    found = files.results()
    return spec.resumes and found is not None and found.stat().st_size > 0


def _older(spec: EvalSpec, files: JobFiles, url: str, *, resumes: bool) -> list[str]:
    program = [str(OLDER), str(spec.program)] if spec.resumes else [str(spec.program)]
    flags = _flags(spec, files, url)
    found = files.results()
    if resumes and found is not None:
        # `-R` wants both files to be there, and looks into this one no more (vf_eval_v0.py).
        _replace(found.with_name("metadata.json"), "{}")
        flags += ["-R", str(found.parent)]
    return [str(spec.python), *program, *flags]


def _replace(path: Path, text: str) -> None:
    """Write a file so that a kill leaves the old one or the new one."""
    second = path.with_name(f"{path.name}.tmp")
    second.write_text(text, encoding="utf-8")
    second.replace(path)


def _config(spec: EvalSpec, files: JobFiles) -> dict[str, Any]:
    select: dict[str, Any] = {"shuffle": True, "seed": spec.seed, "limit": spec.num_examples}
    if spec.infinite:
        select["include"] = {"idx": [f"0:{spec.num_examples * _INFINITE_SPREAD}"]}
    seats = spec.seats or {"agent": (spec.harness, spec.runtime)}
    return {
        "env": {
            "taskset": {"id": spec.module, **spec.env_args},
            **{name: _seat(spec, name, *seat) for name, seat in seats.items() if seat},
        },
        "model": spec.model,
        "client": {"api_key_var": KEY_VARIABLE},
        "sampling": spec.sampling,
        "select": select,
        "num_rollouts": spec.rollouts,
        "max_concurrent": spec.concurrency,
        "rich": None,
        "push": False,
        "output_dir": str(files.output),
        "run": {"name": RUN},
    }


def _seat(spec: EvalSpec, name: str, harness: str, runtime: str) -> dict[str, Any]:
    played = IN_PROCESS_ID if spec.plain(name) else harness
    return ({"harness": {"id": played}} if played else {}) | ({"runtime": {"type": runtime}} if runtime else {})


def _flags(spec: EvalSpec, files: JobFiles, url: str) -> list[str]:
    flags = [
        spec.module, "-m", spec.model, "-b", url, "-k", KEY_VARIABLE, "-n", str(spec.num_examples),
        "-r", str(spec.rollouts), "-c", str(spec.concurrency), "-T", str(spec.temperature),
        "-s", "-d", "-A", "--disable-env-server", "-o", str(files.output), "--max-retries", "0",
        # What a judge said is in no other place, and its verdict may have been unreadable.
        "-C", "judge_response",
    ]  # fmt: skip
    if spec.max_tokens is not None:
        flags += ["-t", str(spec.max_tokens)]
    if spec.env_args:
        flags += ["-a", json.dumps(dict(spec.env_args))]
    if shuffles(spec.verifiers):
        flags += ["--shuffle", "--shuffle-seed", str(spec.seed)]
    return flags


def environment(spec: EvalSpec, files: JobFiles, url: str, secret: str, allow: tuple[str, ...]) -> dict[str, str]:
    """Variables of `vf-eval`: every key in it is the relay's, every endpoint the relay."""
    extra = {
        "PATH": f"{spec.python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": os.pathsep.join(map(str, _search_path(spec))),
        "PRIME_RUNS_MODE": "disabled",
        KEY_VARIABLE: secret,
        "TQDM_DISABLE": "1",
        **_caches(files),
        **judge_variables(url, secret, allow),
    }
    return process.clean_environment(extra, home=files.home, allow=allow)


def judge_variables(url: str, secret: str, allow: tuple[str, ...]) -> dict[str, str]:
    """The variables by which judges inside environments find a relay; those that a person allowed stay what they are.

    A key that is allowed keeps its endpoint with it: a real key is never sent to the relay.
    """
    found = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    for key, base in (("OPENAI_API_KEY", "OPENAI_BASE_URL"), ("PRIME_API_KEY", "PRIME_INFERENCE_URL")):
        if not any(name in allow and name in os.environ for name in (key, base)):
            found |= {key: secret, base: url}
    return found


def nowhere(allow: tuple[str, ...]) -> dict[str, str]:
    """The same variables for a judge that is not there: the port of `discard`, and a key that is none."""
    return judge_variables("http://127.0.0.1:9/v1", "no-key", allow)


def _search_path(spec: EvalSpec) -> list[Path]:
    places = [spec.tree, spec.tree / "src"]
    if spec.in_process:
        places.insert(0, HARNESSES)
    return [p for p in places if p.is_dir()]


def _caches(files: JobFiles) -> Mapping[str, str]:
    """The user's caches of downloaded data; not HF_HOME, because the login token lies in it."""
    own = os.environ
    cache = Path(own.get("XDG_CACHE_HOME") or Path(own.get("HOME", "/")) / ".cache")
    hub = Path(own.get("HF_HOME") or cache / "huggingface")
    found = {
        "HF_HOME": str(files.home / "huggingface"),
        "HF_HUB_CACHE": own.get("HF_HUB_CACHE", str(hub / "hub")),
        "HF_DATASETS_CACHE": own.get("HF_DATASETS_CACHE", str(hub / "datasets")),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "DO_NOT_TRACK": "1",
    }
    passed = ("HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy")
    return found | {name: own[name] for name in passed if name in own}
