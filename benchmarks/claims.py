"""The claims that a run of the benchmarks measured: each a figure and the most that it may be.

`python -m benchmarks` prints them as one table and keeps them as JSON in `benchmarks/figures.json`, from which
`docs/benchmarks.md` and a line of the README are written. `python -m benchmarks.claims` writes both again.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parent / "figures.json"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- figures: made by make bench -->", "<!-- end of figures -->"
_MEASURED: list[Claim] = []


@dataclass(frozen=True, slots=True)
class Claim:
    """One figure of one benchmark. It holds if it is at most `most`."""

    benchmark: str
    what: str
    value: float
    most: float
    unit: str = "times"

    @property
    def holds(self) -> bool:
        return self.value <= self.most

    @property
    def row(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"| {self.what} | {self.value:.3g} | {self.most:g} | {self.unit} | {verdict} |"


def claim(benchmark: str, what: str, value: float, most: float, unit: str = "times") -> int:
    """Note and print one claim. Returns 0 if it holds, else 1."""
    made = Claim(benchmark, what, value, most, unit)
    _MEASURED.append(made)
    print(f"{benchmark}: {'holds' if made.holds else 'DOES NOT HOLD'}: {what}: {value:.3g} {unit}, at most {most:g}")
    return 0 if made.holds else 1


def table(claims: Sequence[Claim]) -> str:
    return "\n".join(["| claim | measured | at most | unit | |", "|---|---|---|---|---|", *(c.row for c in claims)])


def measured_claims() -> tuple[Claim, ...]:
    """The claims of this process, in the order in which they were measured."""
    return tuple(_MEASURED)


def keep(claims: Sequence[Claim], seconds: float, load: float) -> None:
    """Write the claims of a whole run to `figures.json` and into the page. `load` is the machine's at the start."""
    figures = {
        "at": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "seconds": round(seconds),
        "processor_seconds": round(processor_seconds()),
        "claims": [asdict(one) for one in claims],
    }
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    write_pages()


def processor_seconds() -> float:
    """Seconds of the processor that this process and its ended children took so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _kept() -> tuple[dict[str, Any], list[Claim]] | None:
    if not FIGURES.is_file():
        return None
    kept: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return kept, [Claim(**one) for one in kept["claims"]]


def page_figures() -> str:
    """The part of the page that quotes the kept figures."""
    found = _kept()
    if found is None:
        return "No whole run was kept since the claims were last changed."
    kept, claims = found
    held = sum(one.holds for one in claims)
    head = (
        f"Measured on {kept['at']} with Python {kept['python']} on {kept['cores']} cores, in {kept['seconds']} seconds "
        f"({kept['processor_seconds']} of the processor), while the machine's load from other work was {kept['load']} "
        f"at the start: {held} of {len(claims)} claims held."
    )
    return f"{head}\n\n{table(claims)}"


def readme_figures() -> str:
    """The line of the README that quotes the kept figures."""
    found = _kept()
    if found is None:
        return "`make bench` measures every claim about speed and memory."
    kept, claims = found
    held = sum(one.holds for one in claims)
    return f"`make bench` measured {len(claims)} claims about speed and memory on {kept['at']}: {held} held."


def write_pages() -> None:
    """Write the kept figures into the page and the README."""
    for file, figures in ((PAGE, page_figures()), (README, readme_figures())):
        head, rest = file.read_text(encoding="utf-8").split(BEGIN)
        file.write_text(f"{head}{BEGIN}\n{figures}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    write_pages()
