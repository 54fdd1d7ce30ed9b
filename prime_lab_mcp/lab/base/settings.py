"""Settings that a person chooses when starting the server. A tool call cannot change them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Platform = Literal["prime", "rehearsal"]


@dataclass(frozen=True, slots=True)
class NamedEndpoint:
    """A model endpoint that a person configured.

    `variable` is the environment variable that holds the API key. None means that the endpoint gets no key.
    """

    name: str
    url: str
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a server.

    `workspace` is the folder that the agent works in. `state_dir` lies outside of the workspace and holds the ledger,
    the snapshots and the evaluation jobs.
    """

    workspace: Path
    state_dir: Path
    rehearsal: bool = False
    approval: Literal["ask", "always"] = "ask"
    max_spend: float | None = None
    """Cap on the total spend of this state directory in US dollars. None: no cap, and `yes=true` is ignored."""
    allow_env: tuple[str, ...] = field(default_factory=tuple)
    """Names of the environment variables that environment code may read."""
    endpoints: tuple[NamedEndpoint, ...] = ()
    """Endpoints that a person configured (`--endpoint`, `endpoints.toml`). A tool call selects them by name. Only these
    endpoints and the presets receive API keys."""
    notify: str | None = None
    """The command or URL that receives alerts, as the person passed it to `--notify`."""
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
        """Folder with the state of the rehearsal platform and the temporary HOME that `prime` uses in a rehearsal."""
        return self.state_dir / "rehearsal"
