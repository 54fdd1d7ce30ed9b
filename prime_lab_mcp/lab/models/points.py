"""The vocabulary of readiness: what a model is to be trained for, and one thing that training asks of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prime_lab_mcp.lab.report import Finding

Verdict = Literal["ok", "doubt", "no"]


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that training asks of a model. `code` is that of the finding it makes when it is not `ok`."""

    code: str
    verdict: Verdict
    why: str
    do: str = ""
    where: str | None = None

    def as_finding(self) -> Finding | None:
        """A blocker for `no`, a warning for `doubt`, nothing for `ok`."""
        if self.verdict == "ok":
            return None
        return Finding(self.code, "blocker" if self.verdict == "no" else "warning", self.why, self.do, self.where)


@dataclass(frozen=True, slots=True)
class Purpose:
    """What it is to be trained for. `listed` None: the platform could not be asked, or the GPUs are one's own."""

    listed: bool | None = None
    hosted: bool = True
    gpu_type: str | None = None
    train_gpus: int = 1
    infer_gpus: int = 1
    lora: bool = True
    seq_len: int = 4096
    """Tokens of one packed sequence."""
    tools: bool = False
    """The environment gives the model tools."""
    vision_configured: bool = False
    """The config has a `[model.vlm]` table."""
    renderer: str | None = None
    """As the config names it."""
