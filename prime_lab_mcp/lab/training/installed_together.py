"""Says whether packages that one run installs put modules in each other's place.

All packages of a run are installed into one Python. What was proven of an environment is what its own wheel holds, so
that a module of this name in the wheel of another package would run in its place, unproven.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.report import Unmet
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.requirements import GENERIC_NAMES, KNOWN_MODULES

_STARTUP = frozenset({"sitecustomize", "usercustomize"})
_BESIDE_CODE = frozenset({"setup", "conftest", "noxfile", "hatch_build"}) | GENERIC_NAMES
"""Modules of an archive that no build puts into the library folder, or that many packages have."""
_PLACED_ELSEWHERE = re.compile(r"[^/]+\.data$")


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """A package of a config with the names that its installation puts at the top of the library folder.

    `names` is None if neither its wheel nor its archive could be looked at. `ours`: it is the user's own.
    """

    id: str
    names: frozenset[str] | None
    ours: bool


def names_of_wheel(files: Iterable[str]) -> frozenset[str]:
    """The top-level names of a wheel's installed paths: modules without `.py`, other files with their ending."""
    return frozenset(path.partition("/")[0].removesuffix(".py") for path in files)


def names_of_archive(files: Mapping[str, str]) -> frozenset[str]:
    """The modules that a build of these files may install: folders and files of code, also those in `src`."""
    code = [path.removeprefix("src/") for path in files if path.endswith(".py")]
    startup = {path for path in files if path.endswith(".pth")}
    return frozenset({path.partition("/")[0].removesuffix(".py") for path in code} - _BESIDE_CODE) | startup


def replaced_modules(packages: Sequence[InstalledPackage]) -> tuple[list[Unmet], list[str]]:
    """Return the packages that cannot be installed beside the others, and the cautions about those that are unknown.

    A package that is alone replaces nothing that was proven here.
    """
    by_id = {package.id: package for package in packages}
    if len(by_id) < 2:
        return [], []
    details: dict[str, str] = {}
    for id, detail in (*_shared_modules(list(by_id.values())), *_modules_of_all(list(by_id.values()))):
        details.setdefault(id, detail)
    unmet = [
        Unmet("write_training_config", "failed", detail, {"environments": [_kept(id, by_id)]})
        for id, detail in details.items()
    ]
    unknown = [id for id, package in by_id.items() if package.names is None]
    caution = "what it installs beside the other packages of the run could not be looked at"
    return unmet, [f"{id}: {caution}" for id in unknown]


def _shared_modules(packages: Sequence[InstalledPackage]) -> Iterator[tuple[str, str]]:
    """Yield the packages with a module that another one has too, and the sentence that says so."""
    for number, first in enumerate(packages):
        for second in packages[number + 1 :]:
            both = sorted(((first.names or frozenset()) & (second.names or frozenset())) - GENERIC_NAMES)
            if both:
                other = second if first.ours or not second.ours else first
                named = ", ".join(quote(name, 60) for name in both[:4])
                yield (
                    other.id,
                    f"{first.id} and {second.id} both install the module {named}, so that the one of them runs in "
                    "place of the other; train on one of them alone",
                )


def _modules_of_all(packages: Sequence[InstalledPackage]) -> Iterator[tuple[str, str]]:
    """Yield the packages that install what every Python loads, or modules of verifiers and the trainer."""
    for package in packages:
        names = package.names or frozenset()
        foreign = sorted(
            name
            for name in names
            if name in _STARTUP or name in KNOWN_MODULES or name.endswith(".pth") or _PLACED_ELSEWHERE.match(name)
        )
        if foreign:
            yield (
                package.id,
                f"{package.id} installs {', '.join(quote(name, 60) for name in foreign[:4])}, which takes the place of "
                "what every package of the run loads; train on it alone, or leave it out",
            )


def _kept(refused: str, by_id: Mapping[str, InstalledPackage]) -> str:
    """The package with which a config can be written instead: one of the others, first of all one of the user's."""
    others = [package for id, package in by_id.items() if id != refused]
    return next((package.id for package in others if package.ours), others[0].id)
