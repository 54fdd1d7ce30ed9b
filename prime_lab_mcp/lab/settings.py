"""What a person decided when starting the server; nothing in a tool call changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Platform = Literal["prime", "rehearsal"]


@dataclass(frozen=True, slots=True)
class Settings:
    """`workspace` is the folder the agent works in; `state_dir` holds ledger, snapshots and jobs, outside of it."""

    workspace: Path
    state_dir: Path
    rehearsal: bool = False
    approval: Literal["ask", "always"] = "ask"
    max_spend: float | None = None
    """US dollars, cumulative in this state directory; None: no cap, and `yes=true` is not honoured."""
    allow_env: tuple[str, ...] = field(default_factory=tuple)
    """Names of variables that environment code may see."""
    templates: Path = Path()
    """Folder of whole template packages (resources/templates)."""

    @property
    def platform(self) -> Platform:
        return "rehearsal" if self.rehearsal else "prime"

    @property
    def snapshots(self) -> Path:
        return self.state_dir / "snapshots"

    @property
    def evals(self) -> Path:
        return self.state_dir / "evals"

    @property
    def interpreters(self) -> Path:
        return self.state_dir / "interpreters"

    @property
    def ledger(self) -> Path:
        return self.state_dir / "ledger.sqlite3"

    @property
    def rehearsal_dir(self) -> Path:
        """State of the rehearsal platform and the scratch HOME that `prime` gets while rehearsing."""
        return self.state_dir / "rehearsal"
