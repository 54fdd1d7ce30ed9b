"""What is known of a model decides what is said of it; of an unknown model nothing is said."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.configs.context import ConfigContext, EnvironmentSchemas
from prime_lab_mcp.lab.configs.examine import config_findings
from prime_lab_mcp.lab.configs.rules import model
from prime_lab_mcp.lab.models.registry import KnownModel
from tests.lab.configs.examples import codes, sound

QWEN = "Qwen/Qwen3-4B-Instruct-2507"
VLM = '[model.vlm]\nvision_encoder_attr = "model.visual"\nlanguage_model_attr = "model.language_model"\n'
BF16 = '[trainer.model]\nimpl = "custom"\noptimization_dtype = "bfloat16"\nreduce_dtype = "bfloat16"\n'
SEEING = (("[ckpt]", f"{VLM}[ckpt]"), ("[trainer.model.lora]", f"{BF16}[trainer.model.lora]"))
DEFAULT = ("[inference]", '[orchestrator.renderer]\nname = "default"\n[inference]')
PARSED = ("[inference]", '[orchestrator.renderer]\nname = "default"\ntool_parser = "hermes"\n[inference]')
SOURCE = "alice/tiny-env@0.1.0"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Any:
    def know(**traits: Any) -> None:
        monkeypatch.setattr(model, "find_model", lambda name: KnownModel(name, **traits))

    return know


def tools(offered: bool | None) -> ConfigContext:
    return ConfigContext(shapes={SOURCE: EnvironmentSchemas(tools=offered)})


def test_a_vision_model_is_said_to_be_trained_on_text(known: Any) -> None:
    known(vision=True)
    assert codes(sound(), "info") == {"config-vision-model"}
    assert codes(sound(*SEEING)) == set()


def test_images_need_a_model_that_sees_and_that_prime_rl_implements(known: Any) -> None:
    for traits in ({"vision": False}, {"vision": True, "native": False}):
        known(**traits)
        assert "config-vlm" in codes(sound(*SEEING), "blocker")


def test_a_model_without_implementation_of_its_own_is_said_to_be_slower(known: Any) -> None:
    known(native=False)
    assert codes(sound()) == {"config-model-fallback"}
    attention = ("[trainer.model.lora]", '[trainer.model]\nattn = "flash_attention_3"\n[trainer.model.lora]')
    assert codes(sound(attention), "blocker") == {"config-implementation"}
    known(native=True)
    assert codes(sound(attention)) == set()


def test_tools_and_the_renderer_default_need_a_parser(known: Any) -> None:
    known(tool_parser="hermes")
    (finding,) = config_findings(sound(DEFAULT), tools(True))
    assert (finding.code, finding.severity) == ("config-tool-parser", "blocker")
    assert 'tool_parser = "hermes"' in finding.fix
    assert codes(sound(PARSED), None, tools(True)) == set()
    assert codes(sound(DEFAULT), None, tools(False)) == set()
    assert codes(sound(), None, tools(True)) == set()


def test_of_an_environment_that_is_not_known_the_parser_is_a_warning() -> None:
    assert "config-tool-parser" in codes(sound(DEFAULT), "warning", ConfigContext(shapes={}))
    assert codes(sound(DEFAULT)) == set()
