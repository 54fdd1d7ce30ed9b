"""Runs the v0 `vf-eval` so that an interrupted run can be resumed without repeating or losing a rollout.

    python vf_eval_v0.py VF_EVAL FLAG...

The differences from running VF_EVAL directly (compared with verifiers 0.1.14, 0.2.1 and 0.3.1):
- At its end, 0.1 rewrites all results in sorted order. Here the rewrite replaces the file at once, so that a kill
  cannot leave half a file.
- A row that cannot be written raises OSError. 0.1 logs "Failed to save result", continues and exits with 0.
- Each rollout is scored and saved on its own if the rubric scores rollouts independently. Otherwise a group is scored
  and saved when its last rollout is finished.
- Resuming (`-R`) first removes the rows that must run again: incomplete lines, failed rollouts, surplus rollouts, and
  incomplete groups if groups are scored together. It does not compare the metadata file, which may be incomplete; the
  caller makes sure that both runs have the same settings.
- `planned.json` in the working folder states the number of rollouts of the complete run.

This program runs in the environment's interpreter and imports the standard library and verifiers.
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
"""Modules of verifiers whose rubrics score a group by scoring each rollout and then calling the group functions."""


def main(argv: list[str]) -> None:
    """Change verifiers as this module's docstring describes, then run the program `argv[0]` with its arguments."""
    here = str(Path(__file__).parent)
    sys.path[:] = [p for p in sys.path if p != here]
    sys.argv = argv
    prepare(importlib.import_module("verifiers.envs.environment"))
    runpy.run_path(argv[0], run_name="__main__")


def prepare(module: Any) -> None:
    """Replace functions in verifiers' module of `Environment`, so that a run can be resumed."""
    default = importlib.import_module("verifiers.utils.save_utils").make_serializable
    module.save_outputs = lambda outputs, folder, mode="w": write(outputs, Path(folder), mode, default)
    module.save_new_outputs = lambda outputs, folder: write(outputs, Path(folder), "a", default)
    module.validate_resume_metadata = lambda **_: None
    original = module.Environment.generate

    async def generate(self: Any, inputs: Any, *args: Any, **more: Any) -> Any:
        rows = inputs if isinstance(inputs, list) else inputs.to_list()
        requested = Counter(row["example_id"] for row in rows)
        Path(PLANNED).write_text(json.dumps({"rollouts": len(rows)}), encoding="utf-8")
        alone = bool(more.get("independent_scoring")) or rates_alone(self.rubric)
        more["independent_scoring"] = alone
        folder = more.get("results_path")
        if folder is not None and (Path(folder) / RESULTS).is_file():
            keep_finished(Path(folder) / RESULTS, requested, grouped=not alone)
        return await original(self, rows, *args, **more)

    module.Environment.generate = generate


def rates_alone(rubric: Any) -> bool:
    """Return whether scoring each rollout on its own gives the same rewards as scoring the whole group."""
    modules = (type(rubric).score_group.__module__, type(rubric).score_rollout.__module__)
    if not all(module.startswith("verifiers.") and module.endswith(_RUBRICS) for module in modules):
        return False
    parts = getattr(rubric, "rubrics", None)
    if parts is not None:
        return bool(parts) and all(map(rates_alone, parts))
    # A rubric without functions raises if it has to score a single rollout.
    return bool(rubric.funcs) and not any(map(rubric._is_group_func, rubric.funcs))


def write(outputs: Iterable[Any], folder: Path, mode: str, default: Callable[[Any], Any]) -> None:
    """Append rows to results.jsonl, or replace its rows if `mode` is `w`. Raises OSError if the disk is full."""
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


def keep_finished(file: Path, requested: Counter[Any], *, grouped: bool) -> None:
    """Remove all rows but those of finished rollouts, at most `requested` for each task.

    If `grouped` is true, only tasks stay whose rollouts are all finished.
    """
    finished_lines: dict[Any, list[bytes]] = defaultdict(list)
    for line in file.read_bytes().splitlines():
        task = finished(line)
        if task is not None and len(finished_lines[task]) < requested[task]:
            finished_lines[task].append(line + b"\n")
    whole = [lines for task, lines in finished_lines.items() if not grouped or len(lines) == requested[task]]
    _replace(file, b"".join(line for lines in whole for line in lines))


def finished(line: bytes) -> Any:
    """Return the task's id of a row whose rollout did not fail; None for any other line."""
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
