"""N completions scored through our worker, beside the library's own scoring calls in a loop, and beside a script.

The loop builds a trace and awaits `Task.score`, as any script would; the script is the same loop in a fresh process,
with importing and loading, which is what a call costs without a warm worker. Then what a first call of ours takes, the
next one, and the one after an edit of the environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import prime_lab_mcp
from benchmarks.claims import claim
from prime_lab_mcp.lab.authoring.assembly import Template
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.worker.scoring import Case

CASES = int(os.environ.get("BENCH_CASES", "400"))
ROUNDS = 5
SLOWER = 1.5
"""The claim: scoring takes at most this many times as long as the library's calls in a loop."""
FRACTION = 0.5
"""The claim: the second call, and the call after an edit, take at most this part of the first one."""
TEMPLATES = Path(prime_lab_mcp.__file__).parent / "resources" / "templates"
_NAME = "numeric"
_SCRIPT = """\
import asyncio, json, sys, time
import verifiers.v1 as vf
from verifiers.v1.state import state_cls
from numeric_template.taskset import NumericTemplateConfig, NumericTemplateTaskset

cases = json.loads(open(sys.argv[1]).read())
tasks = list(NumericTemplateTaskset(NumericTemplateConfig(id="numeric_template")))

def trace(task, reply):
    made = vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=state_cls(type(task))(),
        agent=vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig()), name="agent", trainable=False),
    )
    said = [vf.SystemMessage(content=task.data.system_prompt), vf.UserMessage(content=task.data.prompt)]
    for number, message in enumerate([*said, vf.AssistantMessage(content=reply)]):
        made.nodes.append(
            vf.MessageNode(parent=number - 1 if number else None, message=message, sampled=number == len(said))
        )
    made.is_completed = made.ok = True
    return made

async def score():
    paid = []
    for row, reply in cases:
        made = trace(tasks[row], reply)
        await tasks[row].score(made)
        paid.append(made.reward)
    return paid

seconds = []
for _ in range(int(sys.argv[2])):
    started = time.perf_counter()
    paid = asyncio.run(score())
    seconds.append(time.perf_counter() - started)
print(json.dumps({"seconds": seconds, "rewards": paid}))
"""


async def ours(lab: Lab, cases: list[Case]) -> tuple[float, float, list[float | None]]:
    """One whole call (seconds), the scoring in it (seconds), and the rewards."""
    started = time.perf_counter()
    snapshot = await lab.snapshot(_NAME)
    async with open_environment(lab, snapshot) as found:
        await found.worker.rows(limit=100)
        scoring = time.perf_counter()
        scored = await found.worker.score(cases, case_timeout=5)
        scoring = time.perf_counter() - scoring
    return time.perf_counter() - started, scoring, [s.reward for s in scored]


def script(folder: Path, cases: list[Case], rounds: int) -> tuple[float, list[float], list[float | None]]:
    """The same in a fresh process: seconds in all, seconds of each scoring loop, and the rewards."""
    file, program = folder / "cases.json", folder / "loop.py"
    file.write_text(json.dumps([[c.row, c.messages[0]["content"]] for c in cases]), encoding="utf-8")
    program.write_text(_SCRIPT, encoding="utf-8")
    Template(TEMPLATES / _NAME).write(folder / _NAME)
    env = os.environ | {"PYTHONPATH": str(folder / _NAME)}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(program), str(file), str(rounds)], capture_output=True, text=True, env=env, check=True
    )
    told = json.loads(done.stdout.splitlines()[-1])
    return time.perf_counter() - started, told["seconds"], told["rewards"]


async def measure(folder: Path) -> int:
    workspace = folder / "workspace"
    environment = workspace / "environments" / _NAME
    Template(TEMPLATES / _NAME).write(environment)
    cases = [
        Case(str(n), n % 60, ({"role": "assistant", "content": f"So it is <answer>{n}</answer>"},))
        for n in range(CASES)
    ]
    lab = Lab(Settings(workspace=workspace, state_dir=folder / "state", templates=TEMPLATES))
    fresh, before, theirs = script(folder, cases, ROUNDS)
    fresh -= sum(before[1:])
    try:
        first, _, rewards = await ours(lab, cases)
        again = [await ours(lab, cases) for _ in range(ROUNDS)]
        edits = []
        for number in range(ROUNDS):
            with (environment / "numeric_template" / "answers.py").open("a", encoding="utf-8") as source:
                source.write(f"# edit {number}\n")
            edits.append((await ours(lab, cases))[0])
        later = [await ours(lab, cases) for _ in range(ROUNDS)]
    finally:
        await lab.close()
    _, after, _ = script(folder, cases, ROUNDS)
    if rewards != theirs:
        raise RuntimeError("our rewards and those of the library's own calls differ")
    # The least of as many of each: what else the machine does only ever adds.
    loop, scoring = min(*before, *after), min(s for _, s, _ in (*again, *later))
    second, edited = statistics.median(s for s, _, _ in again), statistics.median(edits)
    print(f"{CASES} completions scored in a loop of the library's own calls: {loop * 1000:.0f} ms")
    print(f"  by a warm worker: {scoring * 1000:.0f} ms, {scoring / loop:.2f} times as long")
    print(f"  by a script in a fresh process: {fresh * 1000:.0f} ms, {fresh / loop:.1f} times as long")
    print(f"a whole call of ours, first: {first * 1000:.0f} ms, {first / fresh:.2f} of that script")
    for name, took in (("second", second), ("after an edit", edited)):
        print(f"  {name}: {took * 1000:.0f} ms, {took / first:.2f} of the first, {took / fresh:.2f} of the script")
    loop_claim = f"{CASES} completions scored by a confined worker, beside the bare loop"
    return max(
        claim("reward_scoring", loop_claim, scoring / loop, SLOWER),
        claim("reward_scoring", "a second call, beside the first", second / first, FRACTION),
        claim("reward_scoring", "a call after an edit, beside the first", edited / first, FRACTION),
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        return asyncio.run(measure(Path(scratch)))
