"""Arguments in canonical form, and the defaults that may be given as well as left out."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.state import arguments
from prime_lab_mcp.lab.state.arguments import (
    arguments_summary,
    canonical_arguments,
    check_args,
    known_defaults,
    same_arguments,
    taskset_fields,
    without_null_text,
)
from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.source_code import read_source
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder

CONFIG = '''import verifiers.v1 as vf
from typing import Literal
from pydantic import Field


class SumsConfig(vf.TasksetConfig):
    """Keys."""

    split: Literal["train", "eval"] = "train"
    size: int = Field(5, ge=1)
    share: float | None = None
    lenient: bool = False
'''
DEFAULTS = {"split": "train", "size": 5, "share": None, "lenient": False}


def snapshot(tmp_path: Path, text: str) -> Snapshot:
    folder = tmp_path / "sums"
    (folder / "sums").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "sums"\nversion = "0.1.0"\n', encoding="utf-8")
    (folder / "sums" / "__init__.py").write_text(text, encoding="utf-8")
    return take_snapshot(EnvironmentFolder("sums", folder, "environments/sums"), tmp_path / "snapshots")


def defaults(tmp_path: Path, text: str) -> dict[str, Any]:
    return known_defaults(snapshot(tmp_path, text))


def test_fields_of_simple_types_with_constant_defaults_are_known(tmp_path: Path) -> None:
    assert defaults(tmp_path, CONFIG) == DEFAULTS


@pytest.mark.parametrize(
    "more",
    [
        "    mode: Mode = 'strict'\n",
        "    share: float = 1\n",
        "    sizes: list[int] = [1]\n",
        "    size: Annotated[int, hooked] = 5\n",
        "    size: int = Field(5, alias='n')\n",
        "    size: int | str = 5\n",
        "    size: 'int' = 5\n",
    ],
)
def test_a_field_that_validation_could_change_is_not_known(tmp_path: Path, more: str) -> None:
    assert defaults(tmp_path, CONFIG.partition('    """Keys."""')[0] + more) == {}


@pytest.mark.parametrize(
    "code",
    [
        "    @model_validator(mode='before')\n    def loosen(cls, data): ...\n",
        "\n\ndef given(config): return config.model_fields_set\n",
        "\n\ndef given(config): return config.model_dump(exclude_unset=True)\n",
        "\n\ndef given(config, name): return getattr(config, name)\n",
        "\n\nread = getattr\n",
        "\n\ndef given(config): return ('{0.' + 'model_fie' + 'lds_set}').format(config)\n",
        "\n\ndef given(config):\n    match config:\n        case object(model_fields_set=s):\n            return s\n",
        "\n\nbool = object\n",
        "\n\nfrom elsewhere import int\n",
        "\n\nfrom elsewhere import *\n",
        "\n\ndef given(config): return eval('config')\n",
        "\n\nclass Other(vf.TasksetConfig):\n    a: int = 1\n",
        "    model_config = {'str_to_lower': True}\n",
        "\n\nbroken(\n",
    ],
)
def test_nothing_is_known_of_a_package_that_could_tell_a_default_from_a_given_value(tmp_path: Path, code: str) -> None:
    assert defaults(tmp_path, CONFIG + code) == {}


def test_a_base_class_that_is_not_of_verifiers_is_not_known(tmp_path: Path) -> None:
    assert defaults(tmp_path, CONFIG.replace("import verifiers.v1 as vf", "import mine as vf")) == {}


def test_arguments_are_compared_by_value_and_type() -> None:
    assert same_arguments({"a": 1, "b": {"c": [1]}}, {"b": {"c": [1]}, "a": 1})
    assert not same_arguments({"a": 1}, {"a": True})
    assert not same_arguments({"a": 1}, {"a": 1.0})
    assert not same_arguments({"a": "1"}, {"a": 1})
    assert not same_arguments({"a": None}, {})


def test_only_known_defaults_are_dropped() -> None:
    given = {"split": "train", "size": 6, "lenient": 0}
    assert canonical_arguments(given, DEFAULTS) == {"lenient": 0, "size": 6}
    assert canonical_arguments(given) == given


def test_the_text_none_is_null_in_the_tables_that_prime_rl_reads_so() -> None:
    table = {"a": "None", "task": {"b": "None", "c": ["None"]}, "d": {"e": "None"}}
    assert without_null_text(table) == {"a": None, "task": {"b": None, "c": ["None"]}, "d": {"e": "None"}}


def test_arguments_are_shown_as_a_caller_writes_them() -> None:
    assert arguments_summary({}) == "default arguments"
    assert arguments_summary({"level": "easy"}) == 'env_args={"level": "easy"}'


def test_defaults_of_edited_files_are_read_again(tmp_path: Path) -> None:
    assert defaults(tmp_path, CONFIG)["size"] == 5
    (tmp_path / "sums" / "sums" / "__init__.py").write_text(CONFIG.replace("(5,", "(7,"), encoding="utf-8")
    folder = EnvironmentFolder("sums", tmp_path / "sums", "environments/sums")
    assert known_defaults(take_snapshot(folder, tmp_path / "snapshots"))["size"] == 7


def test_a_caller_that_changes_the_defaults_changes_no_later_answer(tmp_path: Path) -> None:
    folder = EnvironmentFolder("sums", tmp_path / "sums", "environments/sums")
    defaults(tmp_path, CONFIG).clear()
    assert known_defaults(take_snapshot(folder, tmp_path / "snapshots")) == DEFAULTS


@pytest.mark.parametrize(
    "line",
    [
        'return config.split is not SumsConfig.model_fields["split"].default',
        'return config.split is "train"',
        "return id(config.split) == id(_TRAIN)",
        "return operator.is_(config.split, _TRAIN)",
        "return sys.getrefcount(config.split) > 3",
        "return bool(weakref.ref(config))",
    ],
)
def test_no_default_is_known_of_code_that_could_compare_objects(tmp_path: Path, line: str) -> None:
    code = f"import operator, sys, weakref\n{CONFIG}\n\n_TRAIN = 'train'\n\ndef looks(config):\n    {line}\n"
    assert defaults(tmp_path, code) == {}


def test_a_comparison_with_none_tells_no_given_value_from_a_default(tmp_path: Path) -> None:
    code = f"{CONFIG}\n\ndef looks(config):\n    return config.share is None or config.lenient is not True\n"
    assert defaults(tmp_path, code) == DEFAULTS


def test_a_field_whose_only_value_is_none_is_known(tmp_path: Path) -> None:
    assert defaults(tmp_path, CONFIG.partition('    """Keys."""')[0] + "    share: None = None\n") == {"share": None}


def test_a_config_class_that_a_decorator_may_change_has_no_known_defaults(tmp_path: Path) -> None:
    assert defaults(tmp_path, CONFIG.replace("class SumsConfig", "@changed\nclass SumsConfig")) == {}


def test_defaults_are_read_again_once_too_many_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "_MOST_KNOWN_DEFAULTS", 0)
    assert defaults(tmp_path, CONFIG) == DEFAULTS


def test_the_arguments_of_checks_are_a_table_of_the_manifest() -> None:
    assert check_args(parse_manifest(b'[tool.prime-lab]\ncheck_args = { split = "train" }\n')) == {"split": "train"}
    assert check_args(parse_manifest(b"tool = 3\n")) == check_args(parse_manifest(b"")) == {}
    with pytest.raises(BadInput) as caught:
        check_args(parse_manifest(b'[tool.prime-lab]\ncheck_args = "train"\n'))
    assert caught.value.code == "bad-check-args"


@pytest.mark.parametrize(
    ("text", "fields"),
    [(CONFIG, tuple(DEFAULTS)), (CONFIG + CONFIG.replace("SumsConfig", "OtherConfig"), None), ("x = 1\n", None)],
)
def test_the_fields_of_a_taskset_are_those_of_its_one_config(
    tmp_path: Path, text: str, fields: tuple[str, ...] | None
) -> None:
    assert taskset_fields(read_source(snapshot(tmp_path, text))) == fields


def test_a_date_of_a_config_equals_no_text() -> None:
    """The text "date:2020-01-01" was the proof of a run with that date."""
    dated = {"cutoff": date(2020, 1, 1)}
    assert same_arguments(dated, {"cutoff": date(2020, 1, 1)})
    assert not same_arguments(dated, {"cutoff": "date:2020-01-01"})
    assert not same_arguments(dated, {"cutoff": "2020-01-01"})
    assert arguments_summary(dated) == 'env_args={"cutoff": {"(date)": "2020-01-01"}}'
