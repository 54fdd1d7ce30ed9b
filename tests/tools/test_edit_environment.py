"""`edit_environment` and `read_environment`: exact, atomic, inside the folder, and clear about what became stale."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Next, Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Push, Run, evidence_from
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.server.next_calls import PresentCall, with_right_calls
from prime_lab_mcp.tools import edit_environment, read_environment
from prime_lab_mcp.tools.registry import TOOLS
from prime_lab_mcp.tools.tool import Call

pytestmark = pytest.mark.anyio


def call(lab: Lab) -> Call:
    async def progress(done: float, total: float | None, message: str) -> None: ...

    async def prove(tool: str, snapshot: Snapshot) -> Report:
        raise AssertionError(tool)

    return Call(lab, None, progress, None, prove)  # type: ignore[arg-type]


@pytest.fixture
def folder(lab: Lab) -> Path:
    made = lab.workspace.root / "environments" / "sums"
    (made / "sums").mkdir(parents=True)
    manifest = '[project]\nname = "sums"\nversion = "0.1.0"\nreadme = "README.md"\n'
    (made / "pyproject.toml").write_text(manifest, encoding="utf-8")
    (made / "README.md").write_text("# sums\n", encoding="utf-8")
    (made / "sums" / "__init__.py").write_text("A = 1\nB = 1\n", encoding="utf-8")
    return made


async def edit(lab: Lab, path: str, new: str, old: str | None = None) -> Outcome:
    return await change(lab, path=path, new=new, old=old)


async def change(lab: Lab, environment: str = "sums", **args: Any) -> Outcome:
    return await edit_environment.run(call(lab), edit_environment.Args(environment=environment, **args))


async def read(lab: Lab, **args: Any) -> Outcome:
    return await read_environment.run(call(lab), read_environment.Args(environment="sums", **args))


async def test_a_small_environment_is_read_in_one_call_and_a_larger_one_in_pages(lab: Lab, folder: Path) -> None:
    (folder / "sums" / "data").mkdir()
    (folder / "sums" / "data" / "train.jsonl").write_text("{}\n" * 9000, encoding="utf-8")
    (folder / "sums" / "raw.bin").write_bytes(b"\xff\xfe\x00")
    whole = await read(lab, path="*")
    for file in whole.data["files"]:
        text = whole.data["text"][file["starts"] : file["starts"] + file["characters"]]
        assert text == (folder / file["path"]).read_text(encoding="utf-8")
    assert {f["path"] for f in whole.data["files"]} == {"pyproject.toml", "README.md", "sums/__init__.py"}
    assert {f["path"] for f in whole.data["left_out"]} == {"sums/data/train.jsonl", "sums/raw.bin"}
    assert whole.next == ()
    (folder / "sums" / "long.py").write_text("A = 1\n" * 2000, encoding="utf-8")
    page, texts = await read(lab, path="sums"), []
    texts.append(page.data["text"])
    while page.next:
        assert page.next[0].tool == "read_environment"
        given = {name: value for name, value in dict(page.next[0].arguments or {}).items() if name != "environment"}
        page = await read(lab, **given)
        texts.append(page.data["text"])
    assert "".join(texts).count("A = 1\n") == 2001
    assert max(map(len, texts)) <= read_environment.PAGE
    [listed] = (await read(lab)).next
    assert dict(listed.arguments or {})["path"] == "*"


async def test_code_is_read_first_with_what_is_paid_before_all_and_data_last(lab: Lab, folder: Path) -> None:
    (folder / "sums" / "a_rows.jsonl").write_text("{}\n", encoding="utf-8")
    (folder / "sums" / "taskset.py").write_text("B = 1\n" * 50, encoding="utf-8")
    (folder / "sums" / "functions.py").write_text("C = 1\n" * 90, encoding="utf-8")
    (folder / "sums" / "v0.py").write_text("D = 1\n" * 70, encoding="utf-8")
    files = [Path(f["path"]).name for f in (await read(lab, path="*")).data["files"]]
    assert files[:4] == ["functions.py", "taskset.py", "__init__.py", "v0.py"]
    assert set(files[4:6]) == {"README.md", "pyproject.toml"}
    assert files[6:] == ["a_rows.jsonl"]


async def test_a_long_file_names_the_call_of_its_next_page(lab: Lab, folder: Path) -> None:
    (folder / "sums" / "long.py").write_text("A = 1\n" * 2000, encoding="utf-8")
    [following] = (await read(lab, path="sums/long.py")).next
    given = {"environment": "environments/sums", "path": "sums/long.py", "offset": read_environment.PAGE}
    assert following.arguments == given


LINE = ["check_environment", "test_reward", "check_reward_distribution", "push_environment"]


async def prove_all(lab: Lab) -> None:
    """Passing verdicts of the whole line for the files as they are."""
    snapshot = await lab.snapshot("sums")
    for tool in LINE:
        lab.ledger.record(evidence_from(tool, "passed", lab.key, snapshot, (), Facts(), "prime", {}, {}))


async def test_a_change_of_the_code_makes_all_evidence_stale_and_shows_the_diff(lab: Lab, folder: Path) -> None:
    await prove_all(lab)
    outcome = await edit(lab, "sums/__init__.py", "A = 2", "A = 1")
    assert (folder / "sums/__init__.py").read_text(encoding="utf-8") == "A = 2\nB = 1\n"
    assert outcome.data["stale"] == LINE
    assert "-A = 1\n+A = 2" in outcome.data["diff"]
    assert outcome.data["source_changed"]


@pytest.mark.parametrize(
    ("path", "new", "old"), [("README.md", "# Sums\n", None), ("pyproject.toml", '"0.2.0"', '"0.1.0"')]
)
async def test_a_readme_or_version_change_leaves_the_evidence_about_the_source(
    lab: Lab, folder: Path, path: str, new: str, old: str | None
) -> None:
    await prove_all(lab)
    outcome = await edit(lab, path, new, old)
    assert outcome.data["stale"] == ["check_environment"]
    assert not outcome.data["source_changed"]


async def test_undoing_an_edit_proves_again_what_it_made_stale(lab: Lab, folder: Path) -> None:
    await prove_all(lab)
    await edit(lab, "sums/__init__.py", "A = 2", "A = 1")
    outcome = await edit(lab, "sums/__init__.py", "A = 1", "A = 2")
    assert (outcome.data["stale"], outcome.data["proven_again"]) == ([], LINE)


async def test_an_edit_of_what_was_never_proven_makes_nothing_stale(lab: Lab, folder: Path) -> None:
    assert (await edit(lab, "sums/__init__.py", "A = 2", "A = 1")).data["stale"] == []


async def test_what_an_earlier_edit_made_stale_is_still_said(lab: Lab, folder: Path) -> None:
    await prove_all(lab)
    await edit(lab, "sums/__init__.py", "A = 2", "A = 1")
    outcome = await edit(lab, "README.md", "# Sums\n")
    assert (outcome.data["stale"], outcome.data["newly_stale"]) == (LINE, [])
    assert "by earlier edits" in outcome.summary


async def test_writing_what_is_there_already_and_what_is_not_pushed_makes_nothing_stale(lab: Lab, folder: Path) -> None:
    assert (await edit(lab, "README.md", "# sums\n")).data["stale"] == []
    assert (await edit(lab, "outputs/todo", "x")).data["stale"] == []


@pytest.mark.parametrize(
    ("old", "code", "told"), [("= 1", "old-not-unique", "2 times"), ("A  = 1", "old-not-found", "0 times")]
)
async def test_text_to_replace_must_be_there_exactly_once(
    lab: Lab, folder: Path, old: str, code: str, told: str
) -> None:
    with pytest.raises(BadInput, match=told) as refused:
        await edit(lab, "sums/__init__.py", "x", old)
    assert refused.value.code == code
    assert (folder / "sums/__init__.py").read_text(encoding="utf-8") == "A = 1\nB = 1\n"


async def test_a_new_file_in_a_new_folder_is_created(lab: Lab, folder: Path) -> None:
    outcome = await edit(lab, "sums/deep/rows.py", "ROWS = ()\n")
    assert outcome.data["created"]
    assert (folder / "sums/deep/rows.py").read_text(encoding="utf-8") == "ROWS = ()\n"


async def test_the_diff_of_a_data_file_is_cut_and_counts_its_lines(lab: Lab, folder: Path) -> None:
    rows = [f'{{"question": "How much is {n} + 1?", "answer": "{n + 1}"}}' for n in range(3000)]
    (folder / "sums" / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    diff = (await edit(lab, "sums/rows.jsonl", "\n".join(row.replace("much", "MUCH") for row in rows))).data["diff"]
    assert len(diff) < 1000
    assert diff.endswith("(in all 3,000 lines removed, 3,000 added)")


async def test_rows_of_json_lines_are_removed_by_their_number_and_blank_lines_are_no_rows(
    lab: Lab, folder: Path
) -> None:
    file = folder / "sums" / "train.jsonl"
    file.write_text("".join(f'{{"n": {n}}}\n' + "\n" * (n == 1) for n in range(5)), encoding="utf-8")
    outcome = await change(lab, path="sums/train.jsonl", remove_rows=[4, 2, 2])
    assert file.read_text(encoding="utf-8") == '{"n": 0}\n{"n": 1}\n\n{"n": 3}\n'
    assert (outcome.summary.split(";")[0], outcome.data["removed_rows"]) == (
        'Removed 2 rows from "sums/train.jsonl"',
        2,
    )
    assert '-{"n": 4}' in outcome.data["diff"]
    before = file.read_bytes()
    with pytest.raises(BadInput, match="has 3 rows, numbered from 0, and none is number 3"):
        await change(lab, path="sums/train.jsonl", remove_rows=[0, 3])
    with pytest.raises(BadInput, match="no file of JSON lines"):
        await change(lab, path="sums/__init__.py", remove_rows=[0])
    with pytest.raises(BadInput, match="one call makes one change"):
        await change(lab, path="sums/train.jsonl", remove_rows=[0], new="x")
    assert file.read_bytes() == before


async def test_a_file_begins_a_new_environment(lab: Lab, folder: Path) -> None:
    outcome = await change(lab, "word-problems", path="word_problems/__init__.py", new="A = 1\n")
    assert (lab.workspace.environments / "word_problems/word_problems/__init__.py").read_text("utf-8") == "A = 1\n"
    assert outcome.data["new_environment"] == "environments/word_problems"
    assert outcome.next[0].tool == "read_environment"


async def test_a_name_that_may_be_misspelled_is_refused_with_the_near_one(lab: Lab, folder: Path) -> None:
    with pytest.raises(BadInput, match="but there is sums") as refused:
        await change(lab, "summs", path="README.md", new="# x\n")
    assert 'environment="environments/summs"' in refused.value.fix
    assert not (lab.workspace.environments / "summs").exists()
    await change(lab, "environments/summs", path="README.md", new="# x\n")
    assert (lab.workspace.environments / "summs" / "README.md").is_file()


@pytest.mark.parametrize("args", [{"path": "x", "delete": True}, {"path": "x", "new": "b", "old": "a"}])
async def test_nothing_else_begins_an_environment(lab: Lab, folder: Path, args: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        await change(lab, "word_problems", **args)
    assert [p.name for p in lab.workspace.environments.iterdir()] == ["sums"]


async def test_folders_are_created_moved_and_deleted(lab: Lab, folder: Path) -> None:
    await prove_all(lab)
    assert (await change(lab, path="sums/parts/")).data["created"]
    moved = await change(lab, path="sums/__init__.py", move_to="sums/parts/first.py")
    assert (moved.data["moved"], moved.data["stale"]) == (["__init__.py"], LINE)
    renamed = await change(lab, path="sums/parts", move_to="sums/pieces")
    assert renamed.data["moved"] == ["parts/first.py"]
    deleted = await change(lab, path="sums/pieces/", delete=True)
    assert deleted.data["deleted"] == ["pieces/first.py"]
    assert list((folder / "sums").iterdir()) == []


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"path": "gone.py", "delete": True}, "not-found"),
        ({"path": ".", "delete": True}, "outside-environment"),
        ({"path": "../sums", "delete": True}, "outside-environment"),
        ({"path": "sums", "move_to": "sums/inside"}, "bad-argument"),
        ({"path": "sums/__init__.py", "move_to": "README.md"}, "bad-argument"),
        ({"path": "README.md", "move_to": ".prime/x"}, "not-editable"),
        ({"path": "README.md", "move_to": "../x"}, "outside-environment"),
        ({"path": "README.md"}, "bad-argument"),
        ({"path": "README.md", "delete": True, "new": "x"}, "bad-argument"),
        ({"path": "docs/", "new": "x"}, "bad-argument"),
        ({"path": "sums/shop.db", "copy_from": "gone.db"}, "not-found"),
        ({"path": "sums/shop.db", "copy_from": "../shop.db"}, "outside-environment"),
        ({"path": "sums/shop.db", "copy_from": "environments"}, "not-a-file"),
        ({"path": "sums/shop.db", "copy_from": "environments", "new": "x"}, "bad-argument"),
        ({"path": "sums", "copy_from": "environments/sums/README.md"}, "not-a-file"),
        ({"path": ".prime/x", "copy_from": "environments/sums/README.md"}, "not-editable"),
    ],
)
async def test_a_change_that_cannot_be_made_changes_nothing(
    lab: Lab, folder: Path, args: dict[str, Any], code: str
) -> None:
    before = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))
    with pytest.raises(BadInput) as refused:
        await change(lab, **args)
    assert refused.value.code == code
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*")) == before


async def test_a_file_of_the_workspace_is_copied_byte_for_byte_into_the_package(lab: Lab, folder: Path) -> None:
    await prove_all(lab)
    (lab.workspace.root / "data").mkdir()
    (lab.workspace.root / "data" / "shop.db").write_bytes(content := bytes(range(256)) * 40)
    copied = await change(lab, path="sums/data/shop.db", copy_from="data/shop.db")
    assert (folder / "sums" / "data" / "shop.db").read_bytes() == content
    assert (copied.data["created"], copied.data["bytes"], copied.data["stale"]) == (True, len(content), LINE)
    again = await change(lab, path="sums/data/shop.db", copy_from="data/shop.db", new="", old="")
    assert (again.data["created"], again.data["newly_stale"]) == (False, [])


async def test_hidden_files_are_not_copied_and_no_link_leads_to_one(lab: Lab, folder: Path) -> None:
    (lab.workspace.root / ".env").write_text("PRIME_API_KEY=secret")
    (lab.workspace.root / "plain").symlink_to(lab.workspace.root / ".env")
    for source in (".env", "plain"):
        with pytest.raises(BadInput) as refused:
            await change(lab, path="sums/plain", copy_from=source)
        assert refused.value.code == "not-editable"
    assert not (folder / "sums" / "plain").exists()


async def test_a_copied_file_begins_a_new_environment(lab: Lab, folder: Path) -> None:
    made = await change(lab, "shop", path="shop/rows.jsonl", copy_from="environments/sums/README.md")
    assert made.data["new_environment"] == "environments/shop"
    assert (lab.workspace.environments / "shop" / "shop" / "rows.jsonl").read_text(encoding="utf-8") == "# sums\n"


async def test_a_client_that_fills_every_argument_moves_and_makes_folders_and_empty_files(
    lab: Lab, folder: Path
) -> None:
    empty = {"new": "", "old": "", "delete": False}
    assert (await change(lab, path="sums/__init__.py", move_to="sums/x.py", **empty)).data["moved"] == ["__init__.py"]
    assert (await change(lab, path="sums/more/", **empty)).data["created"]
    await change(lab, path="sums/__init__.py", **empty)
    assert (folder / "sums/__init__.py").read_text(encoding="utf-8") == ""


async def test_a_link_is_deleted_and_not_what_it_leads_to(lab: Lab, folder: Path) -> None:
    os.symlink(folder / "README.md", folder / "link.md")
    await change(lab, path="link.md", delete=True)
    assert (folder / "README.md").is_file()
    assert not (folder / "link.md").is_symlink()


async def test_line_endings_and_mode_stay_as_they_are(lab: Lab, folder: Path) -> None:
    path = folder / "sums" / "run.py"
    path.write_bytes(b"a = 1\r\nb = 2\r\n")
    path.chmod(0o755)
    await edit(lab, "sums/run.py", "b = 3", "b = 2")
    assert path.read_bytes() == b"a = 1\r\nb = 3\r\n"
    assert path.stat().st_mode & 0o777 == 0o755


async def test_broken_python_is_written_with_a_warning_that_names_the_line(lab: Lab, folder: Path) -> None:
    outcome = await edit(lab, "sums/__init__.py", "A = (\n")
    assert [(f.code, f.severity) for f in outcome.findings] == [("syntax-error", "warning")]
    assert outcome.findings[0].where == "sums/__init__.py:1"


@pytest.mark.parametrize("path", ["../other.py", "/etc/passwd", "sums/../../x", "", ".", "a\0b"])
async def test_paths_that_leave_the_folder_are_refused(lab: Lab, folder: Path, path: str) -> None:
    with pytest.raises((BadInput, ValueError)):
        await edit(lab, path, "x")
    with pytest.raises(BadInput):
        await read(lab, path=path)
    assert sorted(p.name for p in lab.workspace.environments.iterdir()) == ["sums"]


async def test_links_that_lead_outside_are_refused(lab: Lab, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", folder / "out")
    for path in ("out/x.py", "out"):
        with pytest.raises(BadInput) as refused:
            await edit(lab, path, "x")
        assert refused.value.code == "outside-environment"
    assert list((tmp_path / "outside").iterdir()) == []


async def test_binary_files_are_neither_shown_nor_edited(lab: Lab, folder: Path) -> None:
    (folder / "sums" / "model.bin").write_bytes(b"\x00\xff\xfe")
    with pytest.raises(BadInput) as refused:
        await edit(lab, "sums/model.bin", "x")
    assert refused.value.code == "not-text"
    with pytest.raises(BadInput):
        await read(lab, path="sums/model.bin")


async def test_the_list_of_a_small_environment_has_its_texts_and_that_of_a_large_one_names_the_call(
    lab: Lab, folder: Path
) -> None:
    (folder / "sums" / "train.jsonl").write_text("{}\n" * 9000, encoding="utf-8")
    listed = await read(lab)
    assert listed.next == ()
    for file in listed.data["texts"]:
        text = listed.data["text"][file["starts"] : file["starts"] + file["characters"]]
        assert text == (folder / file["path"]).read_text(encoding="utf-8")
    assert {f["path"] for f in listed.data["texts"]} == {"pyproject.toml", "README.md", "sums/__init__.py"}
    assert "data.text has 3 of them" in listed.summary
    (folder / "sums" / "long.py").write_text("A = 1\n" * 2000, encoding="utf-8")
    listed = await read(lab)
    assert "text" not in listed.data
    assert [(one.tool, one.arguments) for one in listed.next] == [
        ("read_environment", {"environment": "environments/sums", "path": "*"})
    ]


async def test_the_list_tells_what_the_push_leaves_out(lab: Lab, folder: Path) -> None:
    (folder / "data.jsonl").write_text("{}\n", encoding="utf-8")
    files = {f["path"]: f for f in (await read(lab)).data["files"]}
    assert files["sums/__init__.py"] == {"path": "sums/__init__.py", "bytes": 12, "pushed": True}
    assert files["data.jsonl"]["pushed"] is False


async def test_a_long_file_is_read_in_pages(lab: Lab, folder: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(3000))
    (folder / "sums" / "long.py").write_text(text, encoding="utf-8")
    read_back, offset = "", 0
    while offset is not None:
        data = (await read(lab, path="sums/long.py", offset=offset)).data
        read_back, offset = read_back + data["text"], data.get("next_offset")
    assert read_back == text


async def test_an_edit_leads_to_the_first_step_whose_evidence_the_files_lack(lab: Lab, folder: Path) -> None:
    unproven = await edit(lab, "sums/__init__.py", "A = 2", "A = 1")
    assert [(one.tool, one.arguments) for one in unproven.next] == [("test_reward", {"environment": "sums"})]
    await prove_all(lab)
    # test_reward runs the check first, so that the check is named where it is all that is missing.
    readme = await edit(lab, "README.md", "# Sums\n", None)
    assert [one.tool for one in readme.next] == ["check_environment"]
    code = await edit(lab, "sums/__init__.py", "A = 3", "A = 2")
    assert [one.tool for one in code.next] == ["test_reward"]


async def test_an_edit_after_a_run_that_gives_the_tasks_a_split_leads_to_the_checkpoint_on_held_out_tasks(
    lab: Lab, folder: Path
) -> None:
    run = {"model": "Qwen/Qwen3-0.6B", "environments": ["me/sums@0.1.0"], "max_steps": 20, "ended": "COMPLETED"}
    lab.ledger.record_run(Run("run_1", "training", "sums-0badcafe", lab.key, "f" * 64, lab.platform, data=run))
    plain = await edit(lab, "sums/__init__.py", "A = 2", "A = 1")
    assert [one.tool for one in plain.next] == ["test_reward"]
    split = 'class SumsConfig(TasksetConfig):\n    split: Literal["train", "eval"] = "train"\n'
    held_out = (await edit(lab, "sums/taskset.py", split)).next
    assert [one.tool for one in held_out] == ["run_eval", "test_reward"]
    given = dict(held_out[0].arguments or {})
    assert (given["env_args"], given["compare_base"]) == ({"split": "eval"}, True)
    assert given["model"] == "sums-0badcafe-step-20"
    tools = {tool.name: tool for tool in TOOLS}
    tested = {"environment": "sums", "env_args": {"split": "eval"}}
    present = PresentCall(lab, tools["test_reward"], tested, tools, await lab.snapshot("sums"))
    base_alone = Report("passed", "", next=(Next("run_eval", "shows whether rewards vary", tested),))
    [after] = with_right_calls(base_alone, present).next
    assert (after.tool, after.arguments) == ("run_eval", given)


async def test_an_edit_that_adds_a_split_to_published_files_leads_to_the_test_of_the_held_out_tasks(
    lab: Lab, folder: Path
) -> None:
    was = await lab.snapshot("sums")
    lab.ledger.record_push(Push(lab.key, "sums", "me", "sums", "0.1.0", was.source, was.content, "h", lab.platform))
    split = 'class SumsConfig(TasksetConfig):\n    split: Literal["train", "eval"] = "train"\n'
    due, test = (await edit(lab, "sums/taskset.py", split)).next
    assert (due.tool, due.arguments) == ("test_reward", {"environment": "sums"})
    assert (test.tool, test.arguments) == ("test_reward", {"environment": "sums", "env_args": {"split": "eval"}})
    now = await lab.snapshot("sums")
    tested = evidence_from("test_reward", "passed", lab.key, now, (), Facts(env_args={"split": "eval"}), None, {}, {})
    lab.ledger.record(tested)
    assert len((await edit(lab, "README.md", "# Sums\n", None)).next) == 1


async def test_an_edit_that_breaks_the_code_leads_to_the_broken_file(lab: Lab, folder: Path) -> None:
    broken = await edit(lab, "sums/__init__.py", "A = (", "A = 1")
    where = {"environment": "sums", "path": "sums/__init__.py"}
    assert [(one.tool, one.arguments) for one in broken.next] == [("read_environment", where)]
