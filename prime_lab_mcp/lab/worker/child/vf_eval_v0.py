"""The v0 `vf-eval`, so that a run which was broken off at any moment goes on without repeating or losing a rollout.

    python vf_eval_v0.py VF_EVAL FLAG...

What differs from running VF_EVAL itself (0.1.14, 0.2.1 and 0.3.1 were looked at):
- The sorted rewrite of all results at the end of 0.1 goes through a second file: a kill in between left a part.
- Rows that cannot be written raise: 0.1 logs "Failed to save result", goes on without them and exits with 0.
- Rollouts are scored and saved one by one where the rubric rates each alone; else a whole group waits for its last one.
- Resuming (`-R`) first drops what is no finished rollout: half lines, failed rollouts, surplus ones, and parts of a
  group that is rated together. The metadata file, which may be half-written too, is not asked whether the runs are the
  same: whoever resumes knows.
- `planned.json` in the working folder tells how many rollouts a complete run has.

Standard library and verifiers; runs in the environment's interpreter.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

RESULTS = "results.jsonl"
PLANNED = "planned.json"
_RUBRICS = (".rubrics.rubric", ".rubrics.rubric_group")
"""Modules of verifiers whose way of scoring a group is scoring each rollout (and then the group's own functions)."""


def main(argv: list[str]) -> None:
    """Prepare verifiers, then run the program `argv[0]` as it would have been."""
    here = str(Path(__file__).parent)
    sys.path[:] = [p for p in sys.path if p != here]
    sys.argv = argv
    prepare(importlib.import_module("verifiers.envs.environment"))
    runpy.run_path(argv[0], run_name="__main__")


def prepare(module: Any) -> None:
    """Replace what the docstring of this file names in the module of `Environment`."""
    default = importlib.import_module("verifiers.utils.save_utils").make_serializable
    module.save_outputs = lambda outputs, folder, mode="w": write(outputs, Path(folder), mode, default)
    module.save_new_outputs = lambda outputs, folder: write(outputs, Path(folder), "a", default)
    module.validate_resume_metadata = lambda **_: None
    original = module.Environment.generate

    async def generate(self: Any, inputs: Any, *args: Any, **more: Any) -> Any:
        rows = inputs if isinstance(inputs, list) else inputs.to_list()
        asked = Counter(row["example_id"] for row in rows)
        Path(PLANNED).write_text(json.dumps({"rollouts": len(rows)}), encoding="utf-8")
        alone = bool(more.get("independent_scoring")) or rates_alone(self.rubric)
        more["independent_scoring"] = alone
        folder = more.get("results_path")
        if folder is not None and (Path(folder) / RESULTS).is_file():
            clean(Path(folder) / RESULTS, asked, grouped=not alone)
        return await original(self, rows, *args, **more)

    module.Environment.generate = generate


def rates_alone(rubric: Any) -> bool:
    """Whether scoring each rollout by itself gives what scoring the whole group gives."""
    modules = (type(rubric).score_group.__module__, type(rubric).score_rollout.__module__)
    if not all(module.startswith("verifiers.") and module.endswith(_RUBRICS) for module in modules):
        return False
    parts = getattr(rubric, "rubrics", None)
    if parts is not None:
        return bool(parts) and all(map(rates_alone, parts))
    # A rubric without functions of its own raises when it is to score one rollout.
    return bool(rubric.funcs) and not any(map(rubric._is_group_func, rubric.funcs))


def write(outputs: Iterable[Any], folder: Path, mode: str, default: Callable[[Any], Any]) -> None:
    """Append rows, or put them in place of the file's at once. Raises OSError when they do not fit on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / RESULTS
    lines = "".join(_line(output, default) for output in outputs).encode()
    if "a" not in mode:
        return _replace(file, lines)
    with file.open("ab") as results:
        results.write(lines)
    return None


def _line(output: Any, default: Callable[[Any], Any]) -> str:
    try:
        return json.dumps(output, default=default) + "\n"
    except (TypeError, ValueError) as error:
        error_data = {
            "error": type(error).__name__,
            "error_chain_str": f"the rollout cannot be written as JSON: {error}",
        }
        failed = {
            "example_id": output["example_id"],
            "completion": [],
            "timing": {},
            "reward": None,
            "error": error_data,
        }
        return json.dumps(failed, default=str) + "\n"


def clean(file: Path, asked: Counter[Any], *, grouped: bool) -> None:
    """Keep the rows of finished rollouts: at most as many of a task as `asked`, and whole groups only if `together`."""
    finished_lines: dict[Any, list[bytes]] = defaultdict(list)
    for line in file.read_bytes().splitlines():
        task = finished(line)
        if task is not None and len(finished_lines[task]) < asked[task]:
            finished_lines[task].append(line + b"\n")
    whole = [lines for task, lines in finished_lines.items() if not grouped or len(lines) == asked[task]]
    _replace(file, b"".join(line for lines in whole for line in lines))


def finished(line: bytes) -> Any:
    """The task of a row that holds a rollout which did not fail; None for any other line."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row.get("example_id") if isinstance(row, dict) and not row.get("error") else None


def _replace(file: Path, content: bytes) -> None:
    second = file.with_suffix(".jsonl.tmp")
    second.write_bytes(content)
    os.replace(second, file)


if __name__ == "__main__":
    main(sys.argv[1:])
