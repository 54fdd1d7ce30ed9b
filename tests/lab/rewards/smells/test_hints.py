"""Each smell has code that smells and code that looks alike and does not; nothing that the project ships smells."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from prime_lab_mcp.lab.authoring.assembly import template_names
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.rewards.smells import hints as smells
from prime_lab_mcp.lab.rewards.smells.reach import reached_functions
from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile
from tests.conftest import EXAMPLES, TEMPLATES
from tests.support.assembled import assembled

ROOT = Path(__file__).parents[4]
V1 = """\
import asyncio, json, random, re, signal, subprocess, time
import verifiers.v1 as vf
SEEN = set()
def last(text):
    found = re.findall(r"<answer>([^<]*)</answer>", text)
    return found[-1] if found else None
class T(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        reply, gold = trace.last_reply or "", self.data.answer
{body}
"""


def v1(body: str) -> SourceCode:
    return parsed(V1.format(body=textwrap.indent(textwrap.dedent(body), " " * 8)))


def parsed(text: str, path: str = "thing.py", **others: str) -> SourceCode:
    files = {path: text, **{f"{name}.py": other for name, other in others.items()}}
    return SourceCode(tuple(SourceFile(p, t, ast.parse(t)) for p, t in files.items()))


def kinds(code: SourceCode) -> set[str]:
    return {smell.kind for smell in smells.find_smells(code)}


SMELLY = [
    ("substring", "return float(gold in reply)"),
    ("substring", "return float(gold.lower() in reply.strip().lower())"),
    ("substring", "return float(reply.count(gold) > 0)"),
    ("substring", "return float(bool(re.search(re.escape(gold), reply)))"),
    ("first-match", 'm = re.search(r"[A-E]", reply)\nreturn float(m is not None and m[0] == gold)'),
    ("first-match", 'm = re.search(r"-?\\d+", reply)\nreturn float(m is not None and m[0] == gold)'),
    ("first-match", 'found = re.findall(r"\\d+", reply)\nreturn float(bool(found) and found[0] == gold)'),
    ("first-match", 'm = re.search(r"<answer>(.*?)</answer>", reply)\nreturn float(bool(m) and m[1] == gold)'),
    ("error-pays", "try:\n    return float(float(last(reply)) == 1)\nexcept Exception:\n    return 0.5"),
    ("error-pays", "try:\n    return float(float(last(reply)) == 1)\nexcept:\n    return 1"),
    ("missing-pays", "said = last(reply)\nif said is None:\n    return 0.1\nreturn float(said == gold)"),
    ("missing-pays", "return 1.0 if last(reply) is None else float(last(reply) == gold)"),
    ("chance", "return random.random() * (last(reply) == gold)"),
    ("chance", "return float(last(reply) == gold) * (time.time() % 2)"),
    ("chance", "return float(hash(last(reply)) == hash(gold))"),
    ("state", "SEEN.add(reply)\nreturn float(last(reply) == gold)"),
    ("state", "global BEST\nBEST = reply\nreturn float(last(reply) == gold)"),
    ("state", "T.best = reply\nreturn float(last(reply) == gold)"),
    ("unlimited", "return float(subprocess.run(['true']).returncode == 0)"),
    ("whole", "return float(reply.strip().lower() == gold.lower())"),
    ("backtracking", 'return float(bool(re.fullmatch(r"(\\w+\\s?)+", reply)))'),
    ("length", "return float(last(reply) == gold) + min(len(reply) / 1000, 0.5)"),
    ("length", "score = float(last(reply) == gold)\nif len(reply.split()) > 100:\n    score += 0.2\nreturn score"),
    ("keyword", 'score = float(last(reply) == gold)\nif "because" in reply:\n    score += 0.2\nreturn score'),
    ("keyword", 'return sum(word in reply.lower() for word in ["because", "therefore"]) / 2'),
]


@pytest.mark.parametrize(("kind", "body"), SMELLY)
def test_a_smell_is_found_and_told_with_its_line(kind: str, body: str) -> None:
    found = [s for s in smells.find_smells(v1(body)) if s.kind == kind]
    assert found
    first = V1[: V1.index("{body}")].count("\n") + 1
    assert all(first <= int(s.where.removeprefix("thing.py:")) <= first + body.count("\n") for s in found)


def test_every_kind_of_smell_has_a_positive() -> None:
    assert {kind for kind, _ in SMELLY} == set(smells.SMELL_KINDS)


@pytest.mark.parametrize(
    "body",
    [
        "return float(last(reply) == gold)",
        "return float(ast.literal_eval(last(reply)) == gold)",
        "return float(gold in json.loads(last(reply)))",
        'if "<answer>" not in reply:\n    return 0.0\nreturn float(last(reply) == gold)',
        'm = re.search(r"(\\d+)\\s*$", reply)\nreturn float(bool(m) and m[1] == gold)',
        'm = re.search(r".*<answer>(.*?)</answer>", reply, re.S)\nreturn float(bool(m) and m[1] == gold)',
        'found = re.findall(r"\\d+", reply)\nif len(found) != 1:\n    return 0.0\nreturn float(found[0] == gold)',
        'return float(bool(re.fullmatch(r"(\\d{1,3},)*\\d{1,3}", last(reply))))',
        "try:\n    return float(float(last(reply)) == 1)\nexcept ValueError:\n    return 0.0",
        "said = last(reply)\nif said:\n    return 1.0 * (said == gold)\nreturn 0.0",
        "rng = random.Random(7)\nreturn float(last(reply) == gold)",
        "started = time.monotonic()\nreturn float(last(reply) == gold)",
        "seen = set()\nseen.add(reply)\nreturn float(last(reply) == gold)",
        "await asyncio.sleep(0)\nreturn float(last(reply) == gold)",
        "if len(reply) > 20000:\n    return 0.0\nreturn float(last(reply) == gold)",
        "return float(last(reply) == gold) - 0.1 * min(1.0, len(reply) / 10000)",
        'if "I cannot" in reply:\n    return 0.0\nreturn float(last(reply) == gold)',
    ],
)
def test_code_that_looks_alike_does_not_smell(body: str) -> None:
    assert smells.find_smells(v1(body)) == []


def test_only_code_that_decides_a_reward_is_read() -> None:
    code = v1("return float(last(reply) == gold)")
    outside = (
        "import random\nROWS = [random.random() for _ in range(3)]\ndef make(reply, answer):\n    return eval(reply)\n"
    )
    assert smells.find_smells(SourceCode((*code.files, SourceFile("make.py", outside, ast.parse(outside))))) == []


def test_a_smell_in_what_the_reward_calls_in_another_file_is_found() -> None:
    top = "import verifiers.v1 as vf\nfrom grading import grade\nclass T(vf.Task[D]):\n    @vf.reward\n"
    top += "    async def right(self, trace):\n        return grade(trace.last_reply, self.data.answer)\n"
    grading = "def grade(text, wanted):\n    return float(wanted in text)\n"
    (found,) = smells.find_smells(parsed(top, grading=grading))
    assert (found.kind, found.where) == ("substring", "grading.py:2")


@pytest.mark.parametrize(
    "registered",
    [
        "vf.Rubric(funcs=[right], weights=[1.0])",
        "vf.Rubric([right])",
        "vf.Rubric(funcs=FUNCS)",
        "vf.Rubric().add_reward_func(right, weight=1.0)",
    ],
)
def test_functions_given_to_a_rubric_are_rewards(registered: str) -> None:
    text = "import verifiers as vf\ndef right(completion, answer):\n"
    text += "    return float(answer in completion[-1]['content'])\n"
    text += f"FUNCS = [right]\ndef load_environment():\n    return vf.SingleTurnEnv(rubric={registered})\n"
    assert kinds(parsed(text)) == {"substring"}
    assert [r.function.name for r in reached_functions(parsed(text))] == ["right"]


def test_a_metric_may_count_words() -> None:
    text = "import verifiers.v1 as vf\nclass T(vf.Task[D]):\n    @vf.{}\n    async def words(self, trace):\n"
    text += "        return 0.0 + len(trace.last_reply.split())\n"
    assert kinds(parsed(text.format("reward"))) == {"length"}
    assert kinds(parsed(text.format("metric"))) == set()


@pytest.mark.parametrize(
    "folder",
    [*map(assembled, template_names(TEMPLATES)), *sorted(p for p in EXAMPLES.iterdir() if p.is_dir())],
    ids=lambda path: path.name,
)
def test_nothing_that_the_project_ships_smells(folder: Path) -> None:
    paths = sorted(folder.rglob("*.py"))
    texts = {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in paths}
    code = SourceCode(tuple(SourceFile(p, t, ast.parse(t)) for p, t in texts.items()))
    assert reached_functions(code)
    assert smells.find_smells(code) == []


# --- hints -----------------------------------------------------------------------------------------------------------


def finding(code: str, *cases: str) -> Finding:
    return Finding(code, "blocker", "x", "y", rows=tuple({"case": case} for case in cases))


def test_a_hint_says_what_would_confirm_it_and_whether_that_was_found() -> None:
    found = smells.find_smells(v1("return float(gold in reply)"))
    (hint,) = smells.hints(found, [])
    assert (hint.code, hint.severity, hint.where) == ("reward-smell", "info", "thing.py:11")
    assert "would be confirmed by reward-wrong-passes, reward-hackable on 'every answer'" in hint.message
    (hint,) = smells.hints(found, [finding("reward-wrong-passes", "wrong: longer number")])
    assert hint.message.endswith("; confirmed: reward-wrong-passes")


def test_a_finding_about_something_else_confirms_nothing() -> None:
    found = smells.find_smells(v1("return float(gold in reply)"))
    (hint,) = smells.hints(found, [finding("reward-hackable", "odd number: nan"), finding("reward-slow")])
    assert "would be confirmed" in hint.message


def test_one_kind_in_several_places_is_one_hint() -> None:
    (hint,) = smells.hints(smells.find_smells(v1("a = gold in reply\nreturn float(a or reply.count(gold))")), [])
    assert "(thing.py:11 and 1 more)" in hint.message


def test_at_most_five_hints_are_shown_those_that_are_confirmed_first() -> None:
    body = (
        "SEEN.add(reply)\nsubprocess.run(['x'])\n"
        "if reply.strip() == gold:\n    return 1.0\n"
        "return float(gold in reply) * random.random() + len(reply) / 9"
    )
    found = smells.find_smells(v1(body))
    assert len({s.kind for s in found}) > smells.MOST_HINTS
    hints = smells.hints(found, [finding("reward-too-strict")])
    assert len(hints) == smells.MOST_HINTS
    assert hints[0].message.startswith("whole: ")


def test_the_probes_that_hints_name_exist() -> None:
    sources = (ROOT / "prime_lab_mcp/lab/rewards").rglob("*.py")
    texts = {
        n.value
        for path in sources
        for n in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    named = {case for kind in smells.SMELL_KINDS.values() for proof in kind.proofs for case in proof.cases}
    assert {case for case in named if not any(text.startswith(case) for text in texts)} == set()
