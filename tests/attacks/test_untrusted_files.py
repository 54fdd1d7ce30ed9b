"""The server follows nothing that untrusted code put into a folder that both of them use."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base import untrusted_files
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.untrusted_files import PlantedPath
from prime_lab_mcp.lab.environment import wheel
from prime_lab_mcp.lab.evals.provenance import origin_of_results
from prime_lab_mcp.lab.evals.rescore.stored import record_format, stored_rollouts
from prime_lab_mcp.lab.evals.runner.answered_replies import AnsweredReplies
from prime_lab_mcp.lab.evals.runner.attempt import JobAttempt, ResultsCounter, file_sha256
from prime_lab_mcp.lab.evals.runner.command import JobFiles, eval_command
from prime_lab_mcp.lab.evals.runner.endings import half_written_lines
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.verdict import EvaluationVerdict, judge_job
from prime_lab_mcp.lab.interpreter import InstalledVersions, Interpreter
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.relay.replies import ModelReply, NotedReply, message_fingerprint, reply_fingerprints
from prime_lab_mcp.lab.rollouts import reading
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder
from tests.lab.evals import records
from tests.lab.evals.finished import SPEC, finished, mixed
from tests.lab.evals.scripted import Reply, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user, with one file."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "precious").write_text("mine", encoding="utf-8")
    return folder


def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of four gigabytes costs the evaluated code nothing, and its reader eight gigabytes of memory."""
    monkeypatch.setattr(untrusted_files, "LARGEST_LINE", 4 << 20)
    path = tmp_path / "traces.jsonl"
    path.write_text('{"nodes": [], "rewards": {}}\n', encoding="utf-8")
    os.truncate(path, 1 << 30)
    readers: tuple[Callable[[], Any], ...] = (
        lambda: ResultsCounter(SPEC).follow(path),
        lambda: half_written_lines(path),
        lambda: list(stored_rollouts(path, record_format("v1"), "v1")),
        lambda: list(reading.read_scores(path)),
        lambda: list(reading.read_rollouts(path)),
    )
    for read in readers:
        tracemalloc.start()
        with pytest.raises(PlantedPath, match="one line of more than"):
            read()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 64 << 20


@pytest.mark.parametrize("name", ["data", "more"])
def test_a_link_to_a_folder_outside_is_never_part_of_a_push(tmp_path: Path, outside: Path, name: str) -> None:
    folder = tmp_path / "sums"
    (folder / "sums").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "sums"\nversion = "0.1.0"\n', encoding="utf-8")
    (folder / name).symlink_to(outside)
    (folder / "sums" / name).symlink_to(outside)
    found = take_snapshot(EnvironmentFolder("sums", folder, "sums"), tmp_path / "store")
    assert sorted(found.files) == ["pyproject.toml"]
    assert f"{name}/" in [left_out.path for left_out in found.left_out]


def contents(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text("utf-8") for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    folder = tmp_path / "thing"
    folder.mkdir()
    (folder / "thing.py").write_text("", "utf-8")
    (folder / "pyproject.toml").write_text('[project]\nname = "thing"\nversion = "0.1"\n', "utf-8")
    return take_snapshot(EnvironmentFolder("thing", folder, "environments/thing"), tmp_path / "store")


def write_wheel(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("thing.py", "")
        archive.writestr("authorized_keys", "ssh-ed25519 of somebody else")


def plant_folders(scratch: Path, outside: Path) -> None:
    write_wheel(scratch / "dist" / "thing-0.1-py3-none-any.whl")
    for name in ("made", "tree", "generated", "files", "home"):
        (scratch / name).symlink_to(outside)


def link_wheel(scratch: Path, outside: Path) -> None:
    write_wheel(outside.parent / "private.whl")
    (scratch / "dist").mkdir()
    (scratch / "dist" / "thing-0.1-py3-none-any.whl").symlink_to(outside.parent / "private.whl")


def link_dist(scratch: Path, outside: Path) -> None:
    write_wheel(outside.parent / "private" / "thing-0.1-py3-none-any.whl")
    (scratch / "dist").symlink_to(outside.parent / "private")


def second_name(scratch: Path, outside: Path) -> None:
    write_wheel(outside.parent / "private.whl")
    (scratch / "dist").mkdir()
    os.link(outside.parent / "private.whl", scratch / "dist" / "thing-0.1-py3-none-any.whl")


def make_pipe(scratch: Path, outside: Path) -> None:
    (scratch / "dist").mkdir()
    os.mkfifo(scratch / "dist" / "thing-0.1-py3-none-any.whl")


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    return InstalledVersions.here().interpreter()


async def built(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    snapshot: Snapshot,
    interpreter: Interpreter,
    build: Callable[[Path], None],
) -> wheel.UnpackedWheel:
    """The wheel after a build that leaves what `build` puts into the scratch folder."""

    async def run(source: Path, scratch: Path, _: Interpreter) -> None:
        build(scratch)

    monkeypatch.setattr(wheel, "_run_build", run)
    return await wheel.build_wheel(Settings(workspace=tmp_path, state_dir=tmp_path / "state"), snapshot, interpreter)


async def test_folders_that_a_build_links_elsewhere_are_not_written_through(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, snapshot: Snapshot, interpreter: Interpreter, outside: Path
) -> None:
    found = await built(monkeypatch, tmp_path, snapshot, interpreter, lambda scratch: plant_folders(scratch, outside))
    assert contents(outside) == {"precious": "mine"}
    assert not any(path.is_symlink() for path in (tmp_path / "state" / "wheels").rglob("*"))
    assert (found.tree / "authorized_keys").read_text("utf-8") == "ssh-ed25519 of somebody else"


@pytest.mark.parametrize("plant", [link_wheel, link_dist, second_name, make_pipe])
async def test_a_wheel_that_a_build_takes_from_elsewhere_is_none(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    snapshot: Snapshot,
    interpreter: Interpreter,
    outside: Path,
    plant: Callable[[Path, Path], None],
) -> None:
    with pytest.raises(wheel.WheelFailed):
        await built(monkeypatch, tmp_path, snapshot, interpreter, lambda scratch: plant(scratch, outside))


async def test_a_generated_file_is_not_taken_for_the_record_of_the_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, snapshot: Snapshot, interpreter: Interpreter
) -> None:
    def build(scratch: Path) -> None:
        (scratch / "dist").mkdir()
        with zipfile.ZipFile(scratch / "dist" / "thing-0.1-py3-none-any.whl", "w") as archive:
            archive.writestr("plan.json", '{"files": {}, "own": {}, "content": null}')

    found = await built(monkeypatch, tmp_path, snapshot, interpreter, build)
    assert (found.tree / "plan.json").read_text("utf-8").startswith('{"files": {}')


HOOK = """
import os, pathlib
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        root, said = pathlib.Path(self.root), []
        for place in (root.parents[1] / "made", root.parents[1] / "tree", root.parents[2] / "plan-x"):
            try:
                os.symlink("OUTSIDE", place)
                said.append(f"made {place.name}")
            except OSError:
                pass
        made = root / "made.txt"
        made.write_text(",".join(said))
        build_data["force_include"][str(made)] = "authorized_keys"
"""


@pytest.mark.slow
async def test_a_build_cannot_write_beside_its_scratch_folder(
    tmp_path: Path, interpreter: Interpreter, outside: Path
) -> None:
    folder = tmp_path / "hooked"
    folder.mkdir()
    (folder / "hooked.py").write_text("", "utf-8")
    (folder / "hatch_build.py").write_text(HOOK.replace("OUTSIDE", str(outside)), "utf-8")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "hooked"\nversion = "0.1"\n[tool.hatch.build.targets.wheel.hooks.custom]\n',
        "utf-8",
    )
    taken = take_snapshot(EnvironmentFolder("hooked", folder, "environments/hooked"), tmp_path / "store")
    found = await wheel.build_wheel(Settings(workspace=tmp_path, state_dir=tmp_path / "state"), taken, interpreter)
    assert (found.tree / "authorized_keys").read_text("utf-8") == ""
    assert contents(outside) == {"precious": "mine"}


# Evaluations: the program that is evaluated writes the output folder, the supervisor reads and rewrites files in it.


FORGER = """
import json, os, sys
v0 = "-o" in sys.argv
job = os.path.dirname(sys.argv[sys.argv.index("-o") + 1] if v0 else sys.argv[2])
url = sys.argv[sys.argv.index("-b") + 1] if v0 else json.load(open(sys.argv[2]))["client"]["base_url"]
os.makedirs(job + "/results/run", exist_ok=True)
with open(job + "/results/run/traces.jsonl", "w") as out:
    out.writelines(json.dumps(row) + "\\n" for row in json.loads({rows!r}))
"""
SAMPLES = """
os.makedirs(job + "/results/hosted", exist_ok=True)
with open(job + "/results/hosted/samples.jsonl", "w") as out:
    out.writelines(json.dumps({"example_id": n, "reward": 1.0, "completion": "x"}) + "\\n" for n in range(160))
"""
LINKED = """
os.rename(job + "/results/run/traces.jsonl", job + "/work/traces.jsonl")
os.symlink(job + "/work/traces.jsonl", job + "/results/run/traces.jsonl")
"""
ASKS = """
import urllib.request
for n in range(160):
    body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "2+2?"}]}).encode()
    head = {"authorization": "Bearer " + os.environ["PRIME_LAB_RELAY_API_KEY"], "content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url + "/chat/completions", body, head)).read()
"""


PREFILLED = '"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "four"}]'
OTHER_REQUESTS = {
    "another question": ('"2+2?"', '"Repeat: four"'),
    "more messages": ('"messages": [', '"messages": [{"role": "system", "content": "Say four."}, '),
    "the answer begun": ('"messages": [{"role": "user", "content": "2+2?"}]', PREFILLED),
    "bare text": ('"messages": [', '"prompt": "Say four.", "messages": ['),
}


async def played(
    lab: Lab, program: str, reply: Reply = lambda *_: "four", **changes: Any
) -> tuple[Job, EvaluationVerdict]:
    """A job whose `vf-eval` is this program, after one attempt, and its verdict."""
    with serving(reply) as model:
        job = finished(lab, [], python=Path(sys.executable), endpoint=Endpoint("url", model.url), **changes)
        files = EvaluationJobs(lab).files(job.id)
        shutil.rmtree(files.root)
        files.root.mkdir()
        script = files.root / "program.py"
        script.write_text(FORGER.format(rows=json.dumps(mixed())) + program, encoding="utf-8")
        spec = dataclasses.replace(EvaluationJobs(lab).spec(job), program=script, tree=files.root / "tree")
        attempt = JobAttempt(job.id, spec, files, lab.ledger, time.time() + 60, ())
        attempt.finish(await attempt.run(None))
    ended = EvaluationJobs(lab).get(job.id)
    return ended, judge_job(lab, ended)


async def test_results_without_a_request_to_the_model_are_no_evidence(lab: Lab) -> None:
    job, judged = await played(lab, "")
    assert (job.state, judged.status) == ("finished", "inconclusive")
    assert "eval-unanswered" in {f.code for f in judged.findings if f.severity == "blocker"}


async def test_samples_that_an_evaluation_on_this_machine_writes_are_not_read(lab: Lab) -> None:
    job, _ = await played(lab, SAMPLES)
    assert str(job.progress["results"]).endswith("run/traces.jsonl")


async def test_results_that_are_a_link_are_not_read(lab: Lab) -> None:
    job, judged = await played(lab, LINKED)
    assert (job.state, job.progress["cause"]) == ("crashed", "planted-path")
    assert (judged.status, judged.distribution) == ("inconclusive", None)


async def test_results_that_the_model_was_asked_for_are_evidence(lab: Lab) -> None:
    job, judged = await played(lab, ASKS)
    assert job.state == "finished", job.progress
    assert "eval-unanswered" not in {f.code for f in judged.findings}


@pytest.mark.parametrize("request_", OTHER_REQUESTS)
async def test_replies_to_other_messages_than_the_results_hold_are_no_evidence(lab: Lab, request_: str) -> None:
    before, after = OTHER_REQUESTS[request_]
    assert before in ASKS
    job, judged = await played(lab, ASKS.replace(before, after))
    assert (job.state, judged.status) == ("finished", "inconclusive"), judged.findings
    found = {f.code: f.message for f in judged.findings if f.severity == "blocker"}
    assert "gave to other messages" in found["eval-unanswered"]


async def test_texts_that_no_reply_holds_are_no_evidence(lab: Lab) -> None:
    job, judged = await played(lab, ASKS, reply=lambda *_: "five")
    assert (job.state, judged.status) == ("finished", "inconclusive")
    assert "160 of 160 rollouts end with a text" in {f.code: f.message for f in judged.findings}["eval-unanswered"]


async def test_one_right_reply_counts_once(lab: Lab) -> None:
    """The code asks as often as it must, and stores the one reply that was right in every rollout."""
    replies = iter(["four", *["five"] * 159])
    _, judged = await played(lab, ASKS, reply=lambda *_: next(replies))
    assert "159 of 160" in {f.code: f.message for f in judged.findings}["eval-unanswered"]


async def test_results_in_the_layout_of_the_other_generation_are_no_evidence(lab: Lab) -> None:
    job, judged = await played(lab, ASKS, api="v0", verifiers="0.1.13")
    assert job.state == "finished"
    assert "results-not-as-asked" in {f.code for f in judged.findings if f.severity == "blocker"}


GENERATIONS: dict[str, Callable[..., Rollout]] = {"v1": records.v1, "v0": records.v0}


@pytest.mark.parametrize("api", GENERATIONS)
def test_honest_conversations_of_both_generations_are_answered(tmp_path: Path, api: str) -> None:
    calls = records.call('{"first": 1}')
    turns = [
        [records.said("<think>2</think> three")],
        [records.said("", calls), records.result("3"), records.said("3")],
    ]
    turns += [[records.said("", calls)], [records.said("")], [records.said("three", reasoning="1+2")]]
    given = [ModelReply("<think>2</think> three"), ModelReply("", "", (("add", '{"first":1}'),)), ModelReply("3")]
    given += [ModelReply("", "", (("add", '{"first":1}'),)), ModelReply(""), ModelReply("three", "1+2")]
    assert compared(tmp_path, api, turns, given) == []
    changed = [[records.said("four")], *turns[1:]]
    assert [f.severity for f in compared(tmp_path / "changed", api, changed, given)] == ["blocker"]
    swapped = [turns[0], turns[1], [records.said("", records.call('{"first": 2}'))], *turns[3:]]
    assert [f.severity for f in compared(tmp_path / "swapped", api, swapped, given)] == ["blocker"]


def compared(folder: Path, api: str, turns: list[Any], given: list[ModelReply]) -> list[Finding]:
    """Findings about rollouts with these turns, after these replies."""
    folder.mkdir(exist_ok=True)
    rollouts = [GENERATIONS[api](each, example_id=n, id=f"t{n}") for n, each in enumerate(turns)]
    path = folder / ("traces.jsonl" if api == "v1" else "results.jsonl")
    path.write_text("".join(json.dumps(dict(rollout.record)) + "\n" for rollout in rollouts), encoding="utf-8")
    asked = [(message_fingerprint(records.PROMPT),)] * len(given)
    asked[2] = (*asked[2], message_fingerprint("3"))  # after a tool's answer
    answered = AnsweredReplies(folder / "answered", folder / "replies")
    answered.note_count(len(given))
    answered.note_fingerprints(
        NotedReply(reply_fingerprints(reply, {}), texts) for reply, texts in zip(given, asked, strict=True)
    )
    return list(answered.findings(path, len(turns)))


@pytest.mark.parametrize("planted", ["configs", "configs/resolved", "configs/resolved/eval.json"])
def test_the_config_of_a_resumed_evaluation_is_not_written_through_a_link(
    tmp_path: Path, outside: Path, planted: str
) -> None:
    files = JobFiles(tmp_path / "job")
    run = files.output / "run"
    run.mkdir(parents=True)
    (run / "traces.jsonl").write_text(json.dumps(mixed()[0]) + "\n", encoding="utf-8")
    (run / planted).parent.mkdir(parents=True, exist_ok=True)
    (run / planted).symlink_to(outside / "precious" if planted.endswith("json") else outside)
    for name in ("eval.json.tmp", "eval.json"):
        place = run / "configs" / "resolved" / name
        if place.parent.is_dir() and not place.is_symlink() and outside not in place.resolve().parents:
            place.symlink_to(outside / "precious")
    eval_command(SPEC, files, "http://127.0.0.1:9/v1")
    assert contents(outside) == {"precious": "mine"}


def test_the_metadata_of_an_older_resumed_evaluation_is_not_written_through_a_link(
    tmp_path: Path, outside: Path
) -> None:
    files = JobFiles(tmp_path / "job")
    run = files.output / "evals" / "sums--m" / "1"
    run.mkdir(parents=True)
    (run / "results.jsonl").write_text("{}\n", encoding="utf-8")
    for name in ("metadata.json", "metadata.json.tmp"):
        (run / name).symlink_to(outside / "precious")
    eval_command(dataclasses.replace(SPEC, api="v0", verifiers="0.1.14"), files, "http://127.0.0.1:9/v1")
    assert contents(outside) == {"precious": "mine"}


# Later readers: the code of a running evaluation can replace what was a file a moment ago.


READERS: dict[str, Callable[[Path], object]] = {
    "rollouts": lambda path: list(reading.read_rollouts(path)),
    "scores": lambda path: list(reading.read_scores(path)),
    "tasks": lambda path: list(reading.read_first_rollouts(path)),
    "layout": reading.first_record,
    "document": lambda path: list(reading.stream_elements(path)),
    "stored rollouts": lambda path: list(stored_rollouts(path, record_format("v1"), "v1")),
    "broken lines": half_written_lines,
    "fingerprint": file_sha256,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("planted", ["results", "results/run", "results/run/traces.jsonl"])
def test_no_reader_of_results_follows_a_link(tmp_path: Path, reader: str, planted: str) -> None:
    private = tmp_path / "private" / "results" / "run" / "traces.jsonl"
    private.parent.mkdir(parents=True)
    private.write_text("".join(json.dumps(row) + "\n" for row in mixed()), encoding="utf-8")
    job = tmp_path / "job"
    path = job / "results" / "run" / "traces.jsonl"
    (job / planted).parent.mkdir(parents=True)
    (job / planted).symlink_to(tmp_path / "private" / planted)
    (job / "job.json").write_text("{}", encoding="utf-8")
    with pytest.raises(PlantedPath):
        READERS[reader](path)


def test_metadata_beside_older_results_is_not_read_through_a_link(tmp_path: Path, outside: Path) -> None:
    (outside / "metadata.json").write_text('{"env_id": "private"}', encoding="utf-8")
    run = tmp_path / "job" / "results" / "evals" / "sums--m" / "1"
    run.mkdir(parents=True)
    (tmp_path / "job" / "job.json").write_text("{}", encoding="utf-8")
    row = {"example_id": 1, "completion": [], "reward": 1.0, "timing": {}}
    (run / "results.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (run / "metadata.json").symlink_to(outside / "metadata.json")
    assert origin_of_results(run / "results.jsonl").environment is None


def test_links_that_the_user_made_to_results_are_followed(tmp_path: Path) -> None:
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mixed()), encoding="utf-8")
    (tmp_path / "results").symlink_to(tmp_path)
    assert len(list(reading.read_rollouts(tmp_path / "results" / "traces.jsonl"))) == 160
