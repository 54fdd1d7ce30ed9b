"""What a person runs to fine-tune on the platform: its data go to a volume by hand, and so is the run started.

Verbs and rules of prime 0.18.0 (`prime volumes`, `prime train --sft`); volumes are in closed beta there.
"""

from __future__ import annotations

import shlex

from prime_lab_mcp.lab.configs.own_gpus.launch import Step
from prime_lab_mcp.lab.configs.read import Config


def hosted_steps(config: Config, path: str, dataset: str | None) -> tuple[Step, ...]:
    """`dataset` is the name on Hugging Face; None: the conversations lie in the workspace, as a folder of the config's
    name beside it."""
    volume, target = shlex.quote(str(config.at("volume"))), shlex.quote(str(config.at("data.name")))
    file = shlex.quote(path)
    return (
        Step("volume", f"prime volumes create {volume} --size 50Gi", "where data and checkpoints lie; closed beta"),
        *(_uploaded(volume, path) if dataset is None else _downloaded(volume, dataset, target)),
        Step("look", f"prime volumes ls {volume} {target}", "train.jsonl or Parquet files must be there"),
        Step("judge", f"prime train validate {file} --sft", "no run is created"),
        Step("start", f"prime train {file} --sft", "a person runs it: it names the price and asks"),
        Step("fetch", f"prime volumes get {volume} runs/RUN_ID .", "once `prime train get RUN_ID` says COMPLETED"),
    )


def _uploaded(volume: str, path: str) -> tuple[Step, ...]:
    folder = shlex.quote(path.removesuffix(".toml"))
    return (Step("upload", f"prime volumes put {volume} {folder} datasets/", "the run reads files only there"),)


def _downloaded(volume: str, dataset: str, target: str) -> tuple[Step, ...]:
    get = f"hf download {shlex.quote(dataset)} --repo-type dataset --local-dir {target}"
    return (
        Step("open volume", f"prime volumes ssh {volume} --read-write", "a session on the volume"),
        Step("download", get, "in that session, as the trainer downloads nothing; then leave it"),
    )
