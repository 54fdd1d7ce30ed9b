"""Static checks map a folder to finding codes and never run its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.environment import package, static_checks
from prime_lab_mcp.lab.environment.wheel import UnpackedWheel
from prime_lab_mcp.lab.environment.wheel_contents import shipped_code
from prime_lab_mcp.lab.state.source_code import detect_generation
from tests.lab.environment.package_texts import README, V0, V1, blockers, findings, pyproject, snapshot, told, warnings


def test_a_sound_package_has_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"pyproject.toml": None}, "pyproject-missing"),
        ({"pyproject.toml": "[project\n"}, "pyproject-invalid"),
        ({"pyproject.toml": pyproject().replace('version = "0.1.0"', "")}, "project-version-missing"),
        ({"pyproject.toml": pyproject().replace("0.1.0", "one")}, "project-version-invalid"),
        ({"pyproject.toml": pyproject(name="other")}, "module-name"),
        ({"pyproject.toml": pyproject("httpx")}, "verifiers-not-required"),
        ({"pyproject.toml": pyproject("verifiers>=0.4.0,<0.5", "not a requirement !")}, "requirement-invalid"),
        ({"README.md": None}, "readme-missing"),
        ({"thing.py": "def broken(:\n"}, "syntax-error"),
        ({"more/long.py": "# no more\n" * 200_001, "thing.py": V1 + "import more.long\n"}, "syntax-error"),
        ({"thing.py": "X = 1\n", "pyproject.toml": pyproject("verifiers")}, "unknown-generation"),
        ({"thing.py": None}, "no-module"),
        ({"pyproject.toml": pyproject(name="textarena"), "textarena.py": V1}, "name-shadowed"),
        ({"pyproject.toml": pyproject(name="statistics"), "statistics.py": V1}, "name-shadowed"),
        ({"pyproject.toml": pyproject(name="openai"), "openai.py": V1}, "name-shadowed"),
        ({"pyproject.toml": pyproject(name="tools"), "tools/__init__.py": V1}, "name-shadowed"),
        ({"thing.py": None, "thing/taskset.py": V1}, "no-module"),
        ({"pyproject.toml": pyproject().replace(">=3.11", ">=3.15")}, "requires-python"),
        ({"pyproject.toml": pyproject().replace(">=3.11", "three")}, "requires-python"),
        ({"README.md": README + "\nexport HF_TOKEN=hf_" + "Q7" * 20}, "secret-in-code"),
        ({"thing.py": V1 + "open('rows.jsonl')\n", "rows.jsonl": "{}"}, "file-not-pushed"),
        ({"thing.py": V1 + "KEY = 'sk-" + "a1" * 20 + "'\n"}, "secret-in-code"),
        ({"thing.py": V1 + "from verifiers.api.v1 import Rubric\n"}, "migration"),
        ({"thing.py": V1 + "X = vf.TaskSet\n"}, "migration"),
        ({"thing.py": V0}, "migration"),
        ({"thing.py": V1 + "import datasets\n"}, "undeclared-dependency"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_flaw_of_the_package_blocks(tmp_path: Path, files: dict[str, str | None], expected: str) -> None:
    assert expected in blockers(tmp_path, files)


def test_a_package_that_holds_only_a_harness_is_called_one(tmp_path: Path) -> None:
    code = "from verifiers.v1.harness import Harness\n\n\nclass Relay(Harness[dict]):\n    pass\n"
    files = {"thing.py": code, "pyproject.toml": pyproject("verifiers")}
    (finding,) = told(tmp_path, files, "unknown-generation")
    assert 'a harness ("Relay")' in finding.message


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"README.md": "hello"}, "readme-incomplete"),
        ({"README.md": README + "\n- **Source links**: <links>"}, "readme-placeholder"),
        ({"thing/big.txt": "x" * 5_100_000}, "big-file"),
        ({"pyproject.toml": pyproject("verifiers>=0.4.0")}, "uncapped-verifiers"),
        ({"pyproject.toml": pyproject("verifiers<0.5")}, "runtime-misread"),
        ({"thing.py": V1 + "import os\nos.environ['JUDGE_API_KEY']\n"}, "secret-needed"),
        ({"thing.py": V1 + "import left_pad\n"}, "undeclared-dependency"),
        (
            {
                "thing.py": V1 + "from datasets import load_dataset\ndef f():\n    load_dataset('openai/gsm8k')\n",
                "pyproject.toml": pyproject("verifiers>=0.4.0,<0.5", "datasets>=4"),
            },
            "unpinned-dataset",
        ),
        ({"thing.py": V1 + "async def f(x):\n    import time\n    time.sleep(1)\n"}, "blocking-call"),
        ({"thing.py": V1 + "def f(x):\n    return eval(x)\n"}, "reward-evaluates-output"),
        ({"pyproject.toml": pyproject().replace('description = "A thing."', "")}, "project-description-missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_risk_of_the_package_warns(tmp_path: Path, files: dict[str, str | None], expected: str) -> None:
    found = findings(tmp_path, files)
    assert {f.code for f in found} == {expected}
    assert {f.severity for f in found} == {"warning"}


def test_an_uncapped_v0_package_is_blocked_at_the_line_of_its_requirement(tmp_path: Path) -> None:
    found = findings(tmp_path, {"thing.py": V0, "pyproject.toml": pyproject("verifiers>=0.1.10")})
    uncapped = [f for f in found if f.code == "uncapped-verifiers"]
    assert [(f.severity, f.where) for f in uncapped] == [("blocker", "pyproject.toml:5")]


def test_a_v0_package_whose_floor_reads_as_v1_is_warned_only(tmp_path: Path) -> None:
    files = {"thing.py": V0, "pyproject.toml": pyproject("verifiers>=0.2.1,<0.4")}
    assert (blockers(tmp_path, files), warnings(tmp_path, files)) == (set(), {"runtime-misread"})


def test_a_file_that_the_push_leaves_out_and_nothing_opens_is_only_mentioned(tmp_path: Path) -> None:
    found = findings(tmp_path, {"notes.txt": "x"})
    assert [(f.code, f.severity) for f in found] == [("files-left-out", "info")]


def test_a_variable_that_the_server_passes_on_is_no_warning(tmp_path: Path) -> None:
    taken = snapshot(tmp_path, {"thing.py": V1 + "import os\nos.getenv('JUDGE_API_KEY')\n"})
    found = static_checks.static_findings(package.read_package(taken, ("JUDGE_API_KEY",)))
    assert [(f.code, f.severity) for f in found] == [("secret-needed", "info")]


def test_an_import_that_may_fail_needs_no_declaration(tmp_path: Path) -> None:
    guarded = V1 + "try:\n    import left_pad\nexcept ImportError:\n    left_pad = None\n"
    assert findings(tmp_path, {"thing.py": guarded}) == []


def test_the_secret_itself_is_not_repeated(tmp_path: Path) -> None:
    secret = "hf_" + "Q7" * 20
    found = findings(tmp_path, {"thing.py": V1 + f"TOKEN = '{secret}'\n"})
    assert all(secret not in str(f.as_json()) for f in found)


@pytest.mark.parametrize(
    ("code", "requirement", "expected"),
    [
        (V1, "verifiers>=0.4.0,<0.5", "v1"),
        (V0, "verifiers>=0.1.14,<0.2", "v0"),
        (V1.replace("import verifiers.v1 as vf", "from verifiers import v1 as vf"), "verifiers", "v1"),
        (V0 + V1, "verifiers", "v1"),
        ("X = 1\n", "verifiers>=0.4.0,<0.5", "v1"),
        ("X = 1\n", "verifiers<0.3", "v0"),
        ("X = 1\n", "verifiers", None),
    ],
)
def test_code_tells_the_generation_and_the_requirement_decides_the_rest(
    tmp_path: Path, code: str, requirement: str, expected: str | None
) -> None:
    found = detect_generation(snapshot(tmp_path, {"thing.py": code, "pyproject.toml": pyproject(requirement)}))
    assert found.api == expected
    assert found.reasons


def test_missing_metadata_is_one_piece_of_information(tmp_path: Path) -> None:
    bare = pyproject().replace("requires-python = '>=3.11'\n", "")
    hatch = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n' + bare
    found = told(tmp_path, {"pyproject.toml": hatch}, "metadata-incomplete")
    assert [(f.severity, f.message) for f in found] == [("info", "[project] states no requires-python and no tags")]
    without_tags = hatch.replace(bare, pyproject())
    (only,) = told(tmp_path, {"pyproject.toml": without_tags}, "metadata-incomplete")
    assert (only.message, only.fix) == ("[project] states no tags", 'Add tags = ["..."].')


def test_tags_are_asked_for_only_where_the_backend_takes_them(tmp_path: Path) -> None:
    setuptools = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n' + pyproject()
    assert findings(tmp_path, {"pyproject.toml": setuptools}) == []


def test_a_made_up_key_in_the_readme_is_no_secret(tmp_path: Path) -> None:
    readme = README + "\nexport OPENAI_API_KEY=sk-your-key-goes-here-123456\nHF_TOKEN=hf_" + "x" * 30
    assert findings(tmp_path, {"README.md": readme}) == []


def test_variables_are_told_apart_by_whether_a_hosted_run_can_have_them(tmp_path: Path) -> None:
    code = (
        V1 + "import os\ndef f():\n    os.environ['JUDGE_API_KEY'], os.environ['HF_TOKEN'], os.getenv('PORT', '1')\n"
        "    os.environ['OMP_NUM_THREADS'] = '1'\n"
    )
    found = told(tmp_path, {"thing.py": code}, "secret-needed")
    assert {(f.severity, f.message.split()[-1]) for f in found} == {
        ("warning", "JUDGE_API_KEY"),
        ("info", "HF_TOKEN"),
        ("info", "PORT"),
    }
    assert "prime env secret" in next(f.fix for f in found if f.severity == "warning")


HUB = "from datasets import load_dataset\nSOURCE = 'openai/gsm8k'\nDATA = './data'\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f():\n    load_dataset(SOURCE)\n", {"unpinned-dataset"}),
        ("def f():\n    load_dataset(SOURCE, revision='main')\n", {"unpinned-dataset"}),
        ("def f():\n    load_dataset(SOURCE, revision='740312a')\n", set()),
        ("REVISION = '740312a'\ndef f():\n    load_dataset(path=SOURCE, revision=REVISION)\n", set()),
        ("def f():\n    load_dataset('json', data_files='rows.jsonl')\n", set()),
        ("def f():\n    load_dataset('json', data_files={'train': ['https://x.org/a.jsonl']})\n", {"unpinned-dataset"}),
        ("AT = 'http://x.org/a.csv'\ndef f():\n    load_dataset('csv', data_files=AT)\n", {"unpinned-dataset"}),
        ("def f():\n    load_dataset(SOURCE, data_files='a.csv')\n", {"unpinned-dataset"}),
        ("def f(kind):\n    load_dataset(kind, data_files='rows.csv')\n", set()),
        ("def f():\n    load_dataset(DATA)\n", set()),
        ("def f():\n    load_dataset(SOURCE, revision='740312a', trust_remote_code=True)\n", {"trust-remote-code"}),
        ("ROWS = load_dataset(SOURCE, revision='740312a')\n", {"network-at-import"}),
        ("class C:\n    rows = load_dataset(SOURCE, revision='740312a')\n", {"network-at-import"}),
        ("if __name__ == '__main__':\n    load_dataset(SOURCE, revision='740312a')\n", set()),
        ("import httpx\nPAGE = httpx.get('https://example.com')\n", {"network-at-import"}),
        ("import httpx\nCLIENT = httpx.AsyncClient()\n", set()),
    ],
)
def test_data_is_pinned_free_of_foreign_code_and_loaded_late(tmp_path: Path, code: str, expected: set[str]) -> None:
    files: dict[str, str | None] = {
        "thing.py": V1 + HUB + code,
        "pyproject.toml": pyproject("verifiers>=0.4.0,<0.5", "datasets>=4"),
    }
    assert {f.code for f in findings(tmp_path, files)} == expected


GRADER = "import sys\nexec(sys.stdin.read())\n"


def test_a_program_that_only_another_process_runs_may_execute_code(tmp_path: Path) -> None:
    package_files: dict[str, str | None] = {"thing.py": None, "thing/__init__.py": V1, "thing/grader.py": GRADER}
    assert findings(tmp_path, package_files) == []


def test_a_module_that_the_environment_imports_may_not(tmp_path: Path) -> None:
    package_files: dict[str, str | None] = {
        "thing.py": None,
        "thing/__init__.py": "from . import grader\n" + V1,
        "thing/grader.py": GRADER,
    }
    assert warnings(tmp_path, package_files) == {"reward-evaluates-output"}


REWARD = """
class R(vf.Task[Data]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        {body}
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return float(self.data.answer in trace.last_reply)", True),
        ("return float(self.data.answer.lower() in (trace.last_reply or '').lower())", True),
        ("reply, gold = trace.last_reply, self.data.answer\n        return float(gold in reply)", True),
        ("reply = parse(trace.last_reply)\n        return float(self.data.answer in reply)", False),
        ("reply = trace.last_reply\n        return float(str(self.data.answer) in reply)", True),
        ("return float('<answer>' in trace.last_reply)", False),
        ("return float(self.data.answer in ('A', 'B'))", False),
        ("return float(parse(trace.last_reply) == self.data.answer)", False),
    ],
)
def test_a_gold_looked_for_anywhere_in_the_reply_is_told(tmp_path: Path, body: str, found: bool) -> None:
    assert bool(told(tmp_path, {"thing.py": V1 + REWARD.format(body=body)}, "substring-match")) is found


BROKEN_TEST = "import pytest, boto3\ndef test_x(: pass\n"


def test_tests_and_scripts_beside_the_package_are_not_judged_as_its_code(tmp_path: Path) -> None:
    beside: dict[str, str | None] = {
        "tests/test_thing.py": BROKEN_TEST,
        "scripts/make_data.py": "import datasets, wandb\nexec(open('x').read())\n",
        "conftest.py": "import hypothesis\n",
    }
    assert findings(tmp_path, beside) == []


@pytest.mark.parametrize(
    "files",
    [
        {"thing.py": "import scripts.make_data\n" + V1, "scripts/make_data.py": BROKEN_TEST},
        {
            "pyproject.toml": pyproject() + "[tool.hatch.build.targets.wheel]\npackages = ['thing.py', 'scripts']\n",
            "scripts/make_data.py": BROKEN_TEST,
        },
        {
            "pyproject.toml": pyproject() + "[tool.hatch.build]\ninclude = ['*']\n",
            "tests/test_thing.py": BROKEN_TEST,
        },
    ],
)
def test_what_the_package_imports_or_the_build_takes_is_its_code(tmp_path: Path, files: dict[str, str | None]) -> None:
    assert "syntax-error" in blockers(tmp_path, files)


def test_once_the_wheel_is_known_its_files_are_the_code(tmp_path: Path) -> None:
    taken = snapshot(tmp_path, {"tests/test_thing.py": BROKEN_TEST})
    holds = UnpackedWheel(tmp_path, {p: d for p, d in taken.files.items() if p.endswith(".py")})
    judged = package.read_package(taken, shipped=shipped_code(taken, holds))
    assert "syntax-error" in {f.code for f in static_checks.static_findings(judged)}


def test_a_secret_in_a_test_is_pushed_and_blocks(tmp_path: Path) -> None:
    assert "secret-in-code" in blockers(tmp_path, {"tests/test_thing.py": 'TOKEN = "hf_' + "Q7" * 20 + '"\n'})


@pytest.mark.parametrize("name", ["readme.md", "README.rst", "Readme.md", "README"])
def test_a_readme_of_another_spelling_is_a_warning_that_says_to_rename_it(tmp_path: Path, name: str) -> None:
    assert blockers(tmp_path, {"README.md": None, name: README}) == set()
    assert "readme-not-pushed" in warnings(tmp_path / "again", {"README.md": None, name: README})


@pytest.mark.parametrize("pin", ["==0.1.5", "==0.1.3.post0", ">=0.1.4,<0.1.6", "~=0.2.0", "==0.3.*", "==0.1.14"])
def test_a_v0_package_may_pin_any_release_before_0_4(tmp_path: Path, pin: str) -> None:
    files = {"pyproject.toml": pyproject(f"verifiers{pin}", "datasets"), "thing.py": V0}
    assert blockers(tmp_path, files) == set()


@pytest.mark.parametrize("call", ["signal.alarm(5)", "signal.setitimer(0, 5)", "signal.signal(14, print)"])
def test_an_alarm_in_a_reward_is_noticed_where_the_package_is_checked(tmp_path: Path, call: str) -> None:
    text = "import signal\n" + V1.replace("return 1.0", f"{call}; return 1.0")
    assert "hazardous-call" in warnings(tmp_path, {"thing.py": text})


PROGRAM = """
import signal

def limit(seconds):
    signal.setitimer(signal.ITIMER_REAL, seconds)

def serve():
    limit(5)

if __name__ == "__main__":
    serve()
"""


def test_a_timer_of_a_program_of_its_own_is_no_hazard(tmp_path: Path) -> None:
    assert "hazardous-call" not in warnings(tmp_path, {"thing.py": V1 + PROGRAM})


def test_a_timer_that_the_reward_reaches_too_is_a_hazard(tmp_path: Path) -> None:
    text = V1.replace("return 1.0", "limit(5); return 1.0")
    assert "hazardous-call" in warnings(tmp_path, {"thing.py": text + PROGRAM})


def test_files_without_content_are_named_and_empty_modules_are_not(tmp_path: Path) -> None:
    files = {"thing/__init__.py": "", "data/train.jsonl": "", "data/eval.jsonl": "\n", "data/notes.txt": "Notes."}
    (found,) = told(tmp_path, files, "empty-file")
    assert (found.severity, "data/train.jsonl" in found.message, "data/eval.jsonl" in found.message) == (
        "warning",
        True,
        True,
    )
    assert "notes" not in found.message
    assert "__init__" not in found.message
