"""A file of rollouts read and judged, beside a bare parse of the same lines that looks at nothing.

Judged as a finished evaluation is. Some work is the same for every number of rollouts: golds are looked for in the
first records, and the interval of usable groups is fitted to counts. So half the file and the whole are judged, and a
straight line through the two leads to a million. The records are those of v1, as `vf-eval` writes them for a short
chat. `--rollouts 1000000` judges a million (some 5 GB on disk). Times are of the processor, since both do nothing else,
and without imports; each runs in a process of its own, and its peak memory is what the kernel says of it, at a tenth of
the size and at the whole.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from benchmarks.claims import claim
from prime_lab_mcp.lab.distribution.floor import sampled_golds
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.rollouts.reading import read_first_rollouts, read_scores
from prime_lab_mcp.lab.rollouts.rollout import Reading

ROLLOUTS = int(os.environ.get("BENCH_ROLLOUTS", "40000"))
PER_TASK = 8
ROUNDS = 4
SLOWER = 1.3
"""The claim: reading and judging a million take at most this many times as long as the bare parse."""
MILLION = 1_000_000
PER_ROLLOUT = 300
"""The claim: bytes of memory at most that each further rollout adds."""
_PROMPT = (
    "A shop sells {a} boxes of {b} candles each in the morning, and half as many in the afternoon. Each candle costs "
    "{c} cents. How many euros does the shop take on that day? Think step by step, and put only the final number "
    "inside <answer></answer> tags."
)
_SYSTEM = "You are a careful assistant. Answer in the form that is asked for."


def written(path: Path, rollouts: int) -> Path:
    with path.open("wb") as file:
        for record in episodes(rollouts):
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
    return path


def episodes(rollouts: int) -> Iterator[dict[str, Any]]:
    """Records of a few kB, seeded: every fifth task is never solved, every fifth always."""
    chance = random.Random(1)
    for number in range(rollouts):
        index = number // PER_TASK
        skill = (0.0, 0.2, 0.5, 0.8, 1.0)[index % 5]
        solved = chance.random() < skill
        words = chance.randrange(30, 150)
        reply = "First we count the candles. " * (words // 5) + f"<answer>{index if solved else -1}</answer>"
        yield episode(chance, index, reply, solved, words, start=1.7e9 + number / 7)


def episode(chance: random.Random, index: int, reply: str, solved: bool, words: int, *, start: float) -> dict[str, Any]:
    def name() -> str:
        return uuid.UUID(int=chance.getrandbits(128)).hex

    prompt = _PROMPT.format(a=index % 40 + 2, b=index % 17 + 3, c=index % 90 + 5)
    key = f"{index:064x}"
    task = {
        "type": "CandlesTask",
        "key": key,
        "hash": key,
        "data": {
            "idx": index,
            "prompt": prompt,
            "system_prompt": _SYSTEM,
            "skills": [],
            "network_allow": ["*"],
            "network_block": [],
            "artifacts": [],
            "artifact_max_bytes": 33554432,
            "timeout": {},
            "resources": {},
            "answer": str(index),
        },
    }
    empty: dict[str, list[Any]] = {"token_ids": [], "mask": [], "is_content": [], "logprobs": []}
    said = (("system", _SYSTEM), ("user", prompt), ("assistant", reply))
    nodes = [
        {
            "parent": place - 1,
            "semantic_parents": [],
            "message": {"role": role, "content": text},
            "sampled": role == "assistant",
            "timestamp": start + place,
            **empty,
        }
        for place, (role, text) in enumerate(said)
    ]
    used = {"prompt_tokens": 96, "completion_tokens": words}
    spans = {stage: {"start": start + n, "end": start + n + 1} for n, stage in enumerate(_STAGES)}
    trace = {
        "version": 1,
        "id": name(),
        "verifiers": {"version": "0.4.0"},
        "task": task,
        "agent": {
            "config": _CONFIG,
            "runtime": {"id": f"/tmp/runtimes/{name()}", "type": "subprocess"},
            "name": "agent",
            "trainable": True,
        },
        "tools": [],
        "nodes": nodes,
        "calls": [
            {
                "node": 2,
                "model": _CONFIG["model"],
                "sampling": _CONFIG["sampling"],
                "endpoint": "/chat/completions",
                "finish_reason": "stop" if words < 145 else "length",
                "usage": used,
                "time": {"start": start, "end": start + 1},
            }
        ],
        "mm_token_type_id_map": {},
        "request_rewrites": [],
        "response_rewrites": [],
        "rewards": {"correct": {"score": float(solved), "weight": 1.0}, "form": {"score": 1.0, "weight": 0.2}},
        "metrics": {"reply_chars": float(len(reply))},
        "info": {},
        "extra_usage": [],
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
        "is_timeout": False,
        "errors": [],
        "timing": {"start": start, **spans},
        "num_input_tokens": 96,
        "num_output_tokens": words,
        "num_total_tokens": 96 + words,
    }
    return {
        "id": name(),
        "env": {"id": "candles"},
        "task": task,
        "run": {"type": "eval", "id": "r", "name": "run"},
        "ok": True,
        "is_timeout": False,
        "errors": [],
        "traces": [trace],
        "num_input_tokens": 96,
        "num_output_tokens": words,
        "num_total_tokens": 96 + words,
    }


_STAGES = ("boot", "setup", "agent", "finalize", "scoring")
_CONFIG: dict[str, Any] = {
    "harness": {"id": "vf-lab-chat", "env": {}, "forward_env": [], "mcp_header_env": {}, "tool_timeout": 600.0},
    "runtime": {"type": "subprocess"},
    "model": "Qwen/Qwen3-4B-Instruct-2507",
    "client": {"base_url": "http://127.0.0.1:38321/v1", "api_key_var": "KEY", "headers": {}, "type": "eval"},
    "sampling": {"temperature": 1.0, "top_p": None, "reasoning_effort": None, "max_tokens": 2048},
    "timeout": {},
    "retries": {"max_retries": 0, "rules": []},
    "network_notice": True,
}


def parsed(path: Path) -> int:
    """Parse every line, and look at nothing."""
    with path.open("rb") as lines:
        return sum(len(orjson.loads(line)) > 0 for line in lines)


def read(path: Path) -> int:
    return sum(1 for _ in read_scores(path))


def judged(path: Path) -> int:
    reading = Reading()
    golds = sampled_golds(read_first_rollouts(path))
    found = judge_rollouts(read_scores(path, reading), golds=golds)
    if reading.findings():
        raise RuntimeError(str(reading.findings()))
    return found.scored


WAYS = {"parsed": parsed, "judged": judged, "read": read}


def print_measured(way: str, path: Path) -> None:
    """Go one way in this process, and print seconds of the processor, peak memory in kB and the number of rollouts."""
    started = time.process_time()
    counted = WAYS[way](path)
    took = time.process_time() - started
    print(json.dumps({"n": counted, "seconds": took, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


def measured(way: str, path: Path) -> tuple[float, int, int]:
    """Seconds of the processor, peak memory in kB and the number of rollouts of one way in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.judging", "--way", way, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    told = json.loads(done.stdout)
    return told["seconds"], told["peak"], told["n"]


def measure(folder: Path, rollouts: int) -> int:
    small = written(folder / "small.jsonl", rollouts // 10)
    half = written(folder / "half.jsonl", rollouts // 2)
    large = written(folder / "traces.jsonl", rollouts)
    size = large.stat().st_size
    ways = (("parsed", large), ("judged", large), ("judged", half))
    runs = [[measured(*way) for way in ways] for _ in range(ROUNDS)]
    if any([n for _, _, n in run] != [rollouts, rollouts, rollouts // 2] for run in runs):
        raise RuntimeError("not every rollout was counted")
    # The least of each: what else the machine does only ever adds.
    bare, ours, ours_half = (min(run[way][0] for run in runs) for way in range(3))
    each = (ours - ours_half) / (rollouts - rollouts // 2)
    reading = min(measured("read", large)[0] for _ in range(2))
    before, after = measured("judged", small)[1], max(run[1][1] for run in runs)
    added = 1024 * max(0, after - before) / (rollouts - rollouts // 10)
    print(f"{rollouts:,} rollouts, {size / 1e6:,.0f} MB ({size / rollouts / 1e3:.1f} kB each)")
    print(f"  a bare orjson.loads of every line: {bare:.2f} s, {size / bare / 1e6:.0f} MB/s")
    print(f"  read for judging: {reading:.2f} s, {reading / bare:.2f} times as long")
    print(f"  read and judged: {ours:.2f} s, {ours / bare:.2f} times as long; half of them {ours_half:.2f} s")
    print(f"  so the same for every number: {ours - each * rollouts:.2f} s")
    print(f"  peak memory: {before / 1024:.0f} MiB for {rollouts // 10:,}, {after / 1024:.0f} MiB for {rollouts:,}: ")
    print(f"    {added:.0f} bytes for each further rollout of {size / rollouts:.0f} bytes")
    return max(
        claim(
            "judging",
            f"a million rollouts read and judged, beside a bare parse (by {rollouts // 2:,} and {rollouts:,})",
            (ours + each * (MILLION - rollouts)) / (bare * MILLION / rollouts),
            SLOWER,
        ),
        claim("judging", "memory for each further rollout", added, PER_ROLLOUT, "bytes"),
    )


def grown() -> int:
    """How judging grows with 1 and 10 times the rollouts."""
    for share in (10, 1):
        main(ROLLOUTS // share)
    return 0


def main(rollouts: int = ROLLOUTS) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        return measure(Path(scratch), rollouts)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS)
    parser.add_argument("--way", nargs=2, metavar=("WAY", "FILE"), help="measure one way here, and print JSON")
    given = parser.parse_args()
    if given.way:
        print_measured(given.way[0], Path(given.way[1]))
        raise SystemExit(0)
    raise SystemExit(main(given.rollouts))
