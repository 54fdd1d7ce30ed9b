"""What a wheel does not hold although the environment's code uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from prime_lab_mcp.lab.checks.package import Package
from prime_lab_mcp.lab.checks.requirements import GENERIC
from prime_lab_mcp.lab.checks.wheel import Wheel
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

_BESIDE = frozenset({"pyproject.toml", "README.md"})
_LISTING = frozenset({"glob", "rglob", "iterdir", "listdir", "scandir", "walk"})
_NOT_SHIPPED = frozenset({"tests", "test", "docs", "doc", "examples", "scripts", "notebooks", "assets", "outputs"})


def contents(package: Package, wheel: Wheel) -> Iterator[Finding]:
    """What the environment's code needs and the wheel does not hold."""
    module = package.snapshot.manifest.module or ""
    if not any(p == f"{module}.py" or p.startswith((f"{module}/", f"{module}.")) for p in wheel.files):
        held = ", ".join(quote(top, 60) for top in sorted({p.split("/")[0] for p in wheel.files})[:5])
        yield Finding(
            "wheel-lacks-module", "blocker",
            f"the wheel does not hold the module {module}; it holds {held or 'nothing'}",
            f'Name it in [tool.hatch.build.targets.wheel] (packages = ["{module}"], or only-include), '
            "or in what your build backend reads.",
            "pyproject.toml",
        )  # fmt: skip
        return
    needed: list[tuple[str, str | None]] = []
    spare: list[tuple[str, str | None]] = []
    for path, where in _missing(package, wheel):
        (needed if where is not None else spare).append((path, where))
    if needed:
        shown = ", ".join(quote(path, 80) for path, _ in needed[:4])
        yield Finding(
            "wheel-lacks-file", "blocker",
            f"the wheel leaves out {count(len(needed), 'file')} that the code uses: {shown}",
            "Include them: [tool.hatch.build.targets.wheel] packages = [...] takes a package with all its files; an "
            "`include` list takes only what it names.",
            needed[0][1],
        )  # fmt: skip
    beside = sorted({p.split("/")[0].removesuffix(".py") for p in wheel.files} & GENERIC - {module})
    if beside:
        yield Finding(
            "wheel-top-level", "warning",
            f"the wheel installs {', '.join(beside[:4])} at the top level, where the same name of another environment "
            "overwrites it",
            f"Move it into the package: {module}/{beside[0]}.", "pyproject.toml",
        )  # fmt: skip
    if spare:
        shown = ", ".join(quote(path, 80) for path, _ in spare[:4])
        yield Finding(
            "wheel-lacks-file", "info",
            f"the wheel leaves out {count(len(spare), 'file')} of the package that nothing seems to use: {shown}",
            "Nothing to do unless the environment needs them.",
        )  # fmt: skip


def _missing(package: Package, wheel: Wheel) -> Iterator[tuple[str, str | None]]:
    """Pushed files that the wheel does not hold, with the line that uses each, if one does."""
    held = set(wheel.files.values())
    imported = {f"{i.module}.{i.name}" if i.name else i.module: f.at(i.line) for f, i in package.code.imports()}
    for path, digest in package.snapshot.files.items():
        plain = path.removeprefix("src/")
        if plain in wheel.files or digest in held or path in _BESIDE or PurePosixPath(path).suffix == ".md":
            continue
        if PurePosixPath(plain).parts[0] in _NOT_SHIPPED or PurePosixPath(plain).name.startswith("test_"):
            continue
        if path.endswith(".py"):
            dotted = plain.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            where = next((at for name, at in imported.items() if name == dotted or name.startswith(f"{dotted}.")), None)
            if where is not None or "/" in plain:
                yield path, where
        else:
            yield path, used(package, plain)


def used(package: Package, path: str) -> str | None:
    """The line that opens a data file: it names the file, or its folder within the package where the code also names
    its suffix or lists folders."""
    parts = PurePosixPath(path).parts
    suffix = PurePosixPath(path).suffix
    folders = set(parts[:-1]) - package.code.modules
    beside: str | None = None
    dynamic = any(name.rsplit(".", 1)[-1] in _LISTING for file in package.code.files for name, _ in file.calls())
    for file in package.code.files:
        for text, line in file.strings():
            if len(text) > 200:
                continue
            said = set(PurePosixPath(text.strip()).parts)
            if parts[-1] in said:
                return file.at(line)
            if folders & said:
                beside = beside or file.at(line)
            dynamic = dynamic or (bool(suffix) and text.strip().endswith(suffix))
    return beside if dynamic else None
