"""Environments of other owners on the rehearsal Hub: one that can be trained on unchanged, and one that is too old.

They are real packages, archived like `prime env push` does, so that they can be pulled, installed and loaded.
"""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from dataclasses import dataclass

from prime_lab_mcp.rehearsal.store import Session, Store

_CREATED = 1_767_604_000.0
"""A fixed time in January 2026, so that every rehearsal starts with the same Hub."""


@dataclass(frozen=True, slots=True)
class _Package:
    owner: str
    name: str
    version: str
    description: str
    runtime: str | None
    requires: tuple[str, ...]
    module: str

    @property
    def import_name(self) -> str:
        return self.name.replace("-", "_")

    @property
    def pyproject(self) -> str:
        wanted = ", ".join(f'"{r}"' for r in self.requires)
        return (
            '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n\n'
            f'[project]\nname = "{self.name}"\nversion = "{self.version}"\n'
            f'description = "{self.description}"\nrequires-python = ">=3.11"\n'
            f'dependencies = [{wanted}]\ntags = ["rehearsal"]\n\n'
            f'[tool.hatch.build.targets.wheel]\npackages = ["{self.import_name}"]\n'
        )

    @property
    def readme(self) -> str:
        return f"# {self.name}\n\n{self.description}.\n\nPart of the rehearsal Hub; not a real one.\n"

    @property
    def source(self) -> dict[str, str]:
        return {
            "README.md": self.readme,
            "pyproject.toml": self.pyproject,
            f"{self.import_name}/__init__.py": self.module,
        }


_REVERSE_TEXT = '''"""Reverse a line of text (rehearsal)."""

from collections.abc import Iterable
from difflib import SequenceMatcher
import re

import verifiers.v1 as vf

__all__ = ["ReverseTextTaskset"]

SYSTEM = "Reverse the text character by character. Put the result in <reversed_text></reversed_text> tags."
LINES = (
    "the quick brown fox", "a stitch in time", "early birds sing", "still waters run deep",
    "make hay while it shines", "look before you leap", "many hands make light work",
    "birds of a feather", "practice makes perfect", "all roads lead home",
    "fortune favours the bold", "actions speak loudly", "honesty is a policy",
    "time flies like an arrow", "every cloud has an edge", "two heads think better",
)
TAG = re.compile(r"<reversed_text>\\s*(.*?)\\s*</reversed_text>", re.S)


class ReverseTextData(vf.TaskData):
    answer: str


class ReverseTextTask(vf.Task[ReverseTextData]):
    @vf.reward(weight=1.0)
    async def similarity(self, trace: vf.Trace) -> float:
        found = TAG.search(trace.last_reply)
        if found is None:
            return 0.0
        return SequenceMatcher(None, found.group(1), self.data.answer).ratio()


class ReverseTextConfig(vf.TasksetConfig):
    pass


class ReverseTextTaskset(vf.Taskset[ReverseTextTask, ReverseTextConfig]):
    def load(self) -> Iterable[ReverseTextTask]:
        for line in LINES:
            yield ReverseTextTask(
                ReverseTextData(prompt=line, system_prompt=SYSTEM, answer=line[::-1]),
                self.config.task,
            )
'''
_OLD_MATH = '''"""Small sums, for the older generation of verifiers (rehearsal)."""

import verifiers as vf
from datasets import Dataset


def load_environment(num_examples: int = 20) -> vf.Environment:
    rows = [{"question": f"What is {i} + {i + 3}?", "answer": str(2 * i + 3)} for i in range(num_examples)]

    def correct(completion, answer) -> float:
        return float(completion[-1]["content"].strip().endswith(answer))

    rubric = vf.Rubric(funcs=[correct], weights=[1.0])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)
'''
_WORD_COUNT = '''"""Count the words of a line (rehearsal). Declares no requirement on verifiers."""

ROWS = [{"question": "How many words: one two three", "answer": "3"}]
'''

_PACKAGES = (
    _Package(
        "primeintellect",
        "reverse-text",
        "0.1.0",
        "(rehearsal) Reverse a line of text",
        "VERIFIERS_V1",
        ("verifiers>=0.4.0",),
        _REVERSE_TEXT,
    ),
    _Package(
        "primeintellect",
        "reverse-text",
        "0.2.0",
        "(rehearsal) Reverse a line of text, v1",
        "VERIFIERS_V1",
        ("verifiers>=0.4.0",),
        _REVERSE_TEXT,
    ),
    _Package(
        "primeintellect",
        "old-math",
        "0.1.3",
        "(rehearsal) Small sums, v0",
        "VERIFIERS_V0",
        ("verifiers>=0.1.5,<0.2", "datasets"),
        _OLD_MATH,
    ),
    _Package("somebody", "word-count", "0.0.1", "(rehearsal) Count words, unclassified", None, (), _WORD_COUNT),
)


def seed(store: Store) -> None:
    """Publish the environments if the Hub has none."""
    with store.session() as session:
        if session.count("environment"):
            return
        for number, package in enumerate(_PACKAGES):
            _publish(store, session, package, _CREATED + 86_400 * number)


def _publish(store: Store, session: Session, package: _Package, created: float) -> None:
    archive, wheel = _archive(package), _wheel(package)
    id = f"env_{package.owner}_{package.import_name}"
    session.put(
        "environment",
        id,
        {
            "id": id,
            "owner": package.owner,
            "name": package.name,
            "visibility": "PUBLIC",
            "description": package.description,
            "tags": ["rehearsal"],
            "created": created,
            "updated": created,
        },
    )
    version = f"ver_{package.import_name}_{package.version}"
    wheel_name = f"{package.import_name}-{package.version}-py3-none-any.whl"
    session.put(
        "version",
        version,
        {
            "id": version,
            "environment": id,
            "finalized": True,
            "created": created,
            "content_hash": _content_hash(package),
            "semantic_version": package.version,
            "runtime": package.runtime,
            "metadata": {
                "description": package.description,
                "tags": ["rehearsal"],
                "python_requires": ">=3.11",
                "dependencies": list(package.requires),
                "requires_dist": list(package.requires),
                "original_filename": wheel_name,
            },
            "source": {"sha256": store.keep_blob(archive), "filename": "source.tar.gz"},
            "wheel": {"sha256": store.keep_blob(wheel), "filename": wheel_name},
        },
        parent=id,
    )


def _content_hash(package: _Package) -> str:
    digest = hashlib.sha256()
    for name, text in sorted(package.source.items()):
        digest.update(f"file:{name}".encode() + text.encode("utf-8"))
    return digest.hexdigest()


def _archive(package: _Package) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in package.source.items():
            content = text.encode("utf-8")
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mtime = int(_CREATED)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _wheel(package: _Package) -> bytes:
    info = f"{package.import_name}-{package.version}.dist-info"
    requires = "".join(f"Requires-Dist: {r}\n" for r in package.requires)
    files = {
        f"{package.import_name}/__init__.py": package.module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package.name}\n"
        f"Version: {package.version}\nSummary: {package.description}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: rehearsal\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},{_digest(text)},{len(text)}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(name, (2026, 1, 5, 9, 0, 0)), text)
    return out.getvalue()


def _digest(text: str) -> str:
    raw = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")
