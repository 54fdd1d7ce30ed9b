"""Says what the question about a run must name: whose code it runs, the keys that this code gets, and paid judges.

The question of a submission and that of a run that goes on say the same about one config.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.evidence import evidence_of_files
from prime_lab_mcp.lab.configs.packages import named_packages
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rewards.surroundings_report import surroundings_sentence
from prime_lab_mcp.lab.state.arguments import same_arguments
from prime_lab_mcp.lab.state.evaluation_evidence import has_judge
from prime_lab_mcp.lab.state.open_warnings import port_since_edited, warnings_sentence
from prime_lab_mcp.lab.training.keys import handed_keys


def disclosure_sentences(lab: Lab, config: TrainingConfig) -> list[str]:
    """The sentences about strangers' code, keys, known warnings, and what code reads besides task and completion."""
    keys = handed_keys(lab, config)
    return [
        _strangers_sentence(lab, config),
        f"Handed to the run, and readable for its code: {'; '.join(keys)}." if keys else "",
        *known_warnings(lab, config),
        *_surroundings(lab, config),
    ]


def disclosure_cautions(lab: Lab, config: TrainingConfig) -> tuple[str, ...]:
    """The cautions that need a person's own answer: keys in reach of a stranger's code, and judges that are paid."""
    keys = handed_keys(lab, config) if strangers_of(lab, config) else []
    read = [f"code that nobody proved here can read {' and '.join(keys)}"] if keys else []
    return (*read, *_judge_cautions(lab, config))


def strangers_of(lab: Lab, config: TrainingConfig) -> list[str]:
    """The ids of other owners' packages in a config: environments, harnesses, environment classes and judges."""
    named = [(source.id, source.owner, source.env_name) for source in config.sources]
    named += [(package.id, *package.identity[:2]) for package in named_packages(config) if not package.shipped]
    return list(
        dict.fromkeys(
            id
            for id, owner, name in named
            if owner is not None and not lab.ledger.pushes(owner=owner, name=name, platform=lab.platform)
        )
    )


def _strangers_sentence(lab: Lab, config: TrainingConfig) -> str:
    named = strangers_of(lab, config)
    return f"Published by somebody else, so that nothing had to be proven here: {', '.join(named)}." if named else ""


def _judge_cautions(lab: Lab, config: TrainingConfig) -> Iterator[str]:
    """Yield a caution for each environment whose reward was tested with a judge. Its tokens are in no bound."""
    for source in _published_sources(config):
        rows = [row for row in evidence_of_files(lab, source) if has_judge(row)]
        fitting = [row for row in rows if same_arguments(row.env_args, source.args)] or rows
        if fitting:
            judge = quote(str(fitting[0].sampling.get("judge") or "a model"), 120)
            yield (
                f"the reward of {source.id} asks the judge {judge} about rollouts of the run; what the judge's tokens "
                "cost is not in the bound"
            )


def _published_sources(config: TrainingConfig) -> list[ConfigSource]:
    return list({source.id: source for source in config.sources if source.owner is not None}.values())


def _surroundings(lab: Lab, config: TrainingConfig) -> list[str]:
    """What the code of pushed environments looks at besides task and completion, as `test_reward` recorded it."""
    sentences = []
    for source in _published_sources(config):
        push = lab.newest_push(source.owner, source.env_name, source.version) if source.owner else None
        rows = lab.ledger.evidence(tool="test_reward", source=push.source) if push else []
        names: Sequence[Any] = next((r.data["surroundings"] for r in rows if r.data.get("surroundings")), ())
        sentence = surroundings_sentence([str(name) for name in names])
        sentences += [sentence.replace("Its code", f"The code of {source.id}", 1)] if sentence else []
    return sentences


def known_warnings(lab: Lab, config: TrainingConfig) -> list[str]:
    """What the checks of each environment warned of, for those whose files are known here."""
    sentences = []
    for source in {s.id: s for s in config.train_sources if s.owner}.values():
        push = lab.newest_push(str(source.owner), source.env_name, source.version)
        port = None
        if push is not None:
            port = port_since_edited(lab.ledger, push.workspace, push.environment, push.source)
        arguments = [one.args for one in config.sources if one.id == source.id]
        sentences.append(warnings_sentence(source.id, evidence_of_files(lab, source), port, arguments))
    return [sentence for sentence in sentences if sentence]
