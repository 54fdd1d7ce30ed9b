"""Settings that a person chooses when starting the server. No tool call changes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Platform = Literal["prime", "rehearsal"]


@dataclass(frozen=True, slots=True)
class NamedEndpoint:
    """A model endpoint that a person named. `variable` is the variable of its key; None: the endpoint gets no key."""

    name: str
    url: str
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """`workspace` is the folder the agent works in; `state_dir`, outside of it, holds ledger, snapshots and jobs."""

    workspace: Path
    state_dir: Path
    rehearsal: bool = False
    approval: Literal["ask", "always"] = "ask"
    max_spend: float | None = None
    """Cap on the total spend of this state directory in US dollars. None: no cap, and `yes=true` is ignored."""
    allow_env: tuple[str, ...] = field(default_factory=tuple)
    """Names of the environment variables that environment code may read."""
    endpoints: tuple[NamedEndpoint, ...] = ()
    """Endpoints that a person named (`--endpoint`, `endpoints.toml`). A tool call names them, and nothing else gets a
    key besides the presets."""
    notify: str | None = None
    """The command or URL that gets alerts (`--notify`), as the person wrote it."""
    templates: Path = Path()
    """Folder of the template packages (resources/templates)."""

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
