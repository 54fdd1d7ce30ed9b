"""The command line, environment variables and files of `vf-eval`.

Two different programs have this name: that of verifiers 0.4 (v1) takes one JSON config, and that of older versions (v0)
takes flags. Both exit with 0 even if every rollout failed. By default both may upload results or read the user's login,
so they run with an empty HOME.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base import process, untrusted_files
from prime_lab_mcp.lab.evals.spec import DOCKER, EvalSpec, can_shuffle
from prime_lab_mcp.lab.relay.endpoints import judge_variables
from prime_lab_mcp.lab.sandbox.caches import DataCache
from prime_lab_mcp.lab.sandbox.policy import LIBRARIES, NAMES_OVER_TCP, Confinement, certificate_paths, python_paths

OLDER_PROGRAM = Path(__file__).parents[2] / "worker" / "child" / "vf_eval_v0.py"
"""Wrapper that makes the v0 `vf-eval` resumable."""
HARNESSES = Path(__file__).parents[2] / "worker" / "child" / "harness"
"""Folder that is added to PYTHONPATH of v1 evaluations. The package `vf_lab_chat` is all that it makes importable."""
IN_PROCESS_ID = "vf-lab-chat"
"""Id of our in-process chat harness in a config of verifiers."""
UPSTREAM_KEY = "PRIME_LAB_UPSTREAM_KEY"
"""Environment variable in which a supervisor gets the endpoint's key."""
KEY_VARIABLE = "PRIME_LAB_RELAY_API_KEY"
"""Environment variable in which `vf-eval` gets the relay's key. verifiers hides variables with API_KEY in their name
from the processes that it starts."""
REFUSED_VARIABLE = "PRIME_LAB_REFUSED"
"""Environment variable that names the file for refused accesses (sandbox/site/sitecustomize.py)."""
RUN_FOLDER = "run"
_V1_RESULTS = f"{RUN_FOLDER}/traces.jsonl"
_OLDER_SAMPLES = "hosted/samples.jsonl"
_SAVED_CONFIG = f"{RUN_FOLDER}/configs/resolved/eval.json"
_INFINITE_SPREAD = 10
"""Tasks of an infinite taskset are drawn from a range of this many times the requested tasks, because shuffling needs a
finite range."""


@dataclass(frozen=True, slots=True)
class JobFiles:
    """Paths of all files of one job."""

    root: Path

    @property
    def spec(self) -> Path:
        """The description of the job that its supervisor reads."""
        return self.root / untrusted_files.JOB

    @property
    def log(self) -> Path:
        """The output of the supervisor itself."""
        return self.root / "supervisor.log"

    @property
    def errors(self) -> Path:
        """The end of the standard error of `vf-eval`."""
        return self.root / "vf-eval.log"

    @property
    def home(self) -> Path:
        """The HOME folder of `vf-eval`, empty at first."""
        return self.root / "home"

    @property
    def work(self) -> Path:
        """The working folder of `vf-eval`."""
        return self.root / "work"

    @property
    def config(self) -> Path:
        """The config that v1 `vf-eval` reads."""
        return self.root / "eval.json"

    @property
    def output(self) -> Path:
        """The output folder of `vf-eval`."""
        return self.root / untrusted_files.RESULTS

    @property
    def lock(self) -> Path:
        """The lock file that the guard holds while any process of `vf-eval` lives."""
        return self.root / "running.lock"

    @property
    def admitted(self) -> Path:
        """What the requests of all attempts may cost, recorded before each request."""
        return self.root / "admitted.txt"

    @property
    def refused(self) -> Path:
        """The accesses that the kernel refused to the environment's code, one per line. `vf-eval` writes the file."""
        return self.work / "refused.txt"

    @property
    def planned(self) -> Path:
        """The number of rollouts of a complete run, as v0 `vf-eval` counted them."""
        return self.work / "planned.json"

    @property
    def saved_config(self) -> Path:
        """The config from which v1 `vf-eval` resumes."""
        return self.output / _SAVED_CONFIG

    @property
    def programs(self) -> Path:
        """The folder with the `podman` of `vf-eval`, which asks the broker of containers."""
        return self.root / "programs"

    @property
    def containers(self) -> Path:
        """The report of the broker of containers, which `vf-eval` cannot write."""
        return self.root / "containers.json"

    @property
    def answered(self) -> Path:
        """One byte for each reply that the relay passed on, in all attempts. Only the supervisor writes the file."""
        return self.root / "answered"

    @property
    def replies(self) -> Path:
        """Fingerprints of the replies that the relay passed on, one reply per line."""
        return self.root / "replies"

    @property
    def samples(self) -> Path:
        """Downloaded samples of an evaluation that ran on the platform, one record per line. Evaluated code cannot
        write the file."""
        return self.root / "hosted" / "samples.jsonl"

    def results(self) -> Path | None:
        """Return the results file. None if there is none, or if evaluated code put something else in its place."""
        try:
            return self.find_results()
        except untrusted_files.PlantedPath:
            return None

    def find_results(self) -> Path | None:
        """Return the results file, or None. Raises PlantedPath if evaluated code put something else in its place."""
        if self.samples.is_file():
            return self.samples
        # Earlier versions of the server stored samples in `output`. An evaluation on this machine could write there,
        # but then `work` exists.
        if not self.work.exists() and untrusted_files.is_file_below(self.output, _OLDER_SAMPLES):
            return self.output / _OLDER_SAMPLES
        if untrusted_files.is_file_below(self.output, _V1_RESULTS):
            return self.output / _V1_RESULTS
        candidates: list[tuple[float, Path]] = []
        for environment in untrusted_files.list_below(self.output, "evals"):
            for run in untrusted_files.list_below(self.output, f"evals/{environment}"):
                path = f"evals/{environment}/{run}/results.jsonl"
                if untrusted_files.is_file_below(self.output, path):
                    candidates.append(((self.output / path).lstat().st_mtime, self.output / path))
        return max(candidates)[1] if candidates else None


def eval_command(spec: EvalSpec, files: JobFiles, url: str) -> list[str]:
    """Return the command line of `vf-eval`, and write the config that it reads.

    `url` is the relay's address. The command resumes an earlier attempt if there is one with finished rollouts.
    """
    if resumable(spec, files):
        # If evaluated code replaced files of the earlier attempt, the rollouts of that attempt are dropped.
        with suppress(untrusted_files.PlantedPath):
            return _command(spec, files, url, resumes=True)
    untrusted_files.remove_folder(files.output)
    files.output.mkdir(parents=True, exist_ok=True)  # the sandbox can only open folders that exist
    return _command(spec, files, url, resumes=False)


def _command(spec: EvalSpec, files: JobFiles, url: str, *, resumes: bool) -> list[str]:
    if spec.api == "v0":
        return _v0_command(spec, files, url, resumes=resumes)
    settings = _config(spec, files)
    settings["client"]["base_url"] = url
    config = files.config
    if resumes:
        # `vf-eval` refuses to resume if the saved config differs from the given one, so the saved one is rewritten: the
        # relay's port changes in every run, the concurrency may change, and a crash may have left an incomplete file.
        config = files.saved_config
        untrusted_files.replace_below(files.output, _SAVED_CONFIG, json.dumps(settings).encode())
    else:
        untrusted_files.replace_below(files.root, files.config.name, json.dumps(settings).encode())
    return [str(spec.python), str(spec.program), "@", str(config), "--resume" if resumes else "--clean"]


def resumable(spec: EvalSpec, files: JobFiles) -> bool:
    """Whether an earlier attempt left finished rollouts that `vf-eval` can continue from."""
    results = files.results()
    return spec.resumes and results is not None and results.lstat().st_size > 0


def _v0_command(spec: EvalSpec, files: JobFiles, url: str, *, resumes: bool) -> list[str]:
    program = [str(OLDER_PROGRAM), str(spec.program)] if spec.resumes else [str(spec.program)]
    flags = _flags(spec, files, url)
    results = files.results()
    if resumes and results is not None:
        # `-R` requires results.jsonl and metadata.json, but the wrapper vf_eval_v0.py does not read the latter.
        metadata = results.with_name("metadata.json").relative_to(files.output)
        untrusted_files.replace_below(files.output, metadata.as_posix(), b"{}")
        flags += ["-R", str(results.parent)]
    return [str(spec.python), *program, *flags]


def _config(spec: EvalSpec, files: JobFiles) -> dict[str, Any]:
    select: dict[str, Any] = {"shuffle": True, "seed": spec.seed, "limit": spec.num_examples}
    if spec.infinite:
        select["include"] = {"idx": [f"0:{spec.num_examples * _INFINITE_SPREAD}"]}
    if spec.drawn:
        select["include"] = {"idx": list(spec.drawn)}
    agents = spec.agents or {"agent": (spec.harness, spec.runtime)}
    return {
        "env": {
            "taskset": {"id": spec.module, **spec.env_args},
            **{name: _agent_config(spec, name, *assignment) for name, assignment in agents.items() if assignment},
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
        "run": {"name": RUN_FOLDER},
    }


def _agent_config(spec: EvalSpec, name: str, harness: str, runtime: str) -> dict[str, Any]:
    harness_id = IN_PROCESS_ID if spec.uses_chat_harness(name) else harness
    return ({"harness": {"id": harness_id}} if harness_id else {}) | ({"runtime": {"type": runtime}} if runtime else {})


def _flags(spec: EvalSpec, files: JobFiles, url: str) -> list[str]:
    flags = [
        spec.module,
        "-m",
        spec.model,
        "-b",
        url,
        "-k",
        KEY_VARIABLE,
        "-n",
        str(spec.num_examples),
        "-r",
        str(spec.rollouts),
        "-c",
        str(spec.concurrency),
        "-T",
        str(spec.temperature),
        "-s",
        "-d",
        "-A",
        "--disable-env-server",
        "-o",
        str(files.output),
        "--max-retries",
        "0",
        # v0 stores the replies of a judge only in this state column. They show whether the judge gave a verdict.
        "-C",
        "judge_response",
    ]
    if spec.max_tokens is not None:
        flags += ["-t", str(spec.max_tokens)]
    if spec.env_args:
        flags += ["-a", json.dumps(dict(spec.env_args))]
    if can_shuffle(spec.verifiers):
        flags += ["--shuffle", "--shuffle-seed", str(spec.seed)]
    return flags


def eval_confinement(spec: EvalSpec, files: JobFiles, cache: DataCache) -> Confinement:
    """Return the files and folders that `vf-eval` and the environment in it may read or write."""
    child = OLDER_PROGRAM.parent
    python = (*python_paths(spec.python), spec.program, child, LIBRARIES)
    readable = (spec.tree, *python, files.config, files.programs, *cache.users, *certificate_paths())
    tools = tuple(path for name in ("uv", "uvx") if (path := process.which(name)) is not None)
    return Confinement(
        (*readable, *tools, *(path.resolve() for path in tools)),
        (files.home, files.work, files.output, cache.root),
        # The docker program talks to its service through a Unix socket. A person agreed to this (tools/run_eval).
        unix_sockets=DOCKER in spec.runtime,
        hidden=(files.root.parents[1],),
    )


def eval_environment(
    spec: EvalSpec,
    files: JobFiles,
    url: str,
    secret: str,
    allow: tuple[str, ...],
    cache: DataCache,
    containers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment variables of `vf-eval`.

    All variables for endpoints and their keys hold the relay's address `url` and key `secret`. `allow` names further
    variables of the user that are passed on. `containers` are the variables for the broker of containers, if one runs.
    """
    folders = [str(files.programs)] if containers else []
    extra = {
        "PATH": os.pathsep.join([*folders, str(spec.python.parent), os.environ.get("PATH", os.defpath)]),
        **(containers or {}),
        "PYTHONPATH": os.pathsep.join(map(str, _search_path(spec))),
        "PRIME_RUNS_MODE": "disabled",
        REFUSED_VARIABLE: str(files.refused),
        KEY_VARIABLE: secret,
        "TQDM_DISABLE": "1",
        **_caches(cache),
        "TMPDIR": str(files.home),
        **judge_variables(url, secret, allow),
    }
    return process.clean_environment(extra, home=files.home, allow=allow)


def _search_path(spec: EvalSpec) -> list[Path]:
    folders = [LIBRARIES, spec.tree, spec.tree / "src"]
    if spec.in_process:
        folders.insert(0, HARNESSES)
    return [p for p in folders if p.is_dir()]


def _caches(cache: DataCache) -> Mapping[str, str]:
    """Return the environment variables for downloads: the environment's own cache, proxies and name resolution."""
    environment = os.environ
    caches = {
        **cache.variables(),
        **NAMES_OVER_TCP,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "DO_NOT_TRACK": "1",
    }
    inherited = ("HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy")
    # A variable with an @ may hold a password and is left out.
    return caches | {name: environment[name] for name in inherited if "@" not in environment.get(name, "@")}
