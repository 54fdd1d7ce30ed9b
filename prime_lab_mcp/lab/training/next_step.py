"""Chooses the next call for an environment whose evidence is complete.

The call writes its config, starts or watches its run, or produces evidence that the config still lacks. The choice
depends only on the ledger and the files of this machine; the platform is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.configs.config import TrainingConfig, read_config
from prime_lab_mcp.lab.configs.registry import REGISTRY, RegistryEntry, load_registry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.arguments import arguments_summary, same_arguments
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.state.pulled import pull_of_folder
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import detect_generation
from prime_lab_mcp.lab.training.declined import calls_after_decline, newest_decline


def _published_as(lab: Lab, snapshot: Snapshot) -> set[str]:
    """The names on the Hub under which these files were pushed or pulled."""
    pushes = lab.ledger.pushes(workspace=lab.key, source=snapshot.source, platform=lab.platform)
    pulled = pull_of_folder(lab.ledger, lab.key, snapshot.name)
    names = {f"{push.owner}/{push.name}@{push.version}" for push in pushes}
    return names | {pulled.ref} if pulled is not None and pulled.source == snapshot.source else names


def config_of_pull(lab: Lab, snapshot: Snapshot) -> Next | None:
    """The step towards training on an environment that was pulled and not changed; None for any other.

    The Hub has it already, so that nothing has to be published.
    """
    pulled = pull_of_folder(lab.ledger, lab.key, snapshot.name)
    if pulled is None or pulled.source != snapshot.source:
        return None
    if detect_generation(snapshot).api == "v0":
        port = {"name": lab.workspace.free_port_name(snapshot.name), "port": snapshot.name}
        return Next("create_environment", "v0 cannot be trained; makes a v1 port beside it", port)
    why = f"it is {pulled.ref} as the Hub holds it, so that nothing has to be published"
    after = step_after_the_push(lab, snapshot)
    return after or Next("write_training_config", why, {"environments": [pulled.ref]})


def push_as_it_can_go(lab: Lab, snapshot: Snapshot, push: Next) -> Next:
    """The recommended push of these files, with a new version where the present one was published with other files.

    Files that were pulled and not changed are trained on instead.
    """
    train = config_of_pull(lab, snapshot)
    if train is not None:
        return train
    given = dict(push.arguments or {})
    version = snapshot.manifest.version
    pushes = lab.ledger.pushes(workspace=lab.key, environment=snapshot.name, platform=lab.platform)
    taken = any(one.version == version and one.source != snapshot.source for one in pushes)
    if not taken or "bump" in given:
        return push
    return replace(
        push, why=f"{push.why}; {version} was published with other files", arguments={**given, "bump": "patch"}
    )


def waiting_config_of_pull(lab: Lab, snapshot: Snapshot) -> Next | None:
    """The step of a config that trains on an environment as the Hub holds it, where a folder was pulled from there.

    A folder is often pulled to look at its files, or changed by a split for evaluations, and the config does not wait
    for either. None without such a config, if its run ended, and if the folder's files were published.
    """
    ref = _trained_as_pulled(lab, snapshot)
    step = _step_of_config(lab, {ref}) if ref is not None else None
    live = step is not None and step.tool == "watch_run" and step in map(watch_call, live_runs(lab))
    if step is None or step.tool == "read_eval" or (step.tool == "watch_run" and not live):
        return None
    why = f"{step.why}; it is about {ref} as the Hub holds it, not about the files of this folder, which serve run_eval"
    return replace(step, why=why)


def result_of_pull(lab: Lab, snapshot: Snapshot) -> Next | None:
    """The result of the newest run on an environment as the Hub holds it, where a folder was pulled from there, such as
    for a split that the checkpoint was judged with. None without a judged run, and if the folder's files were
    published."""
    ref = _trained_as_pulled(lab, snapshot)
    runs = lab.ledger.runs(workspace=lab.key, kind="training", platform=lab.platform) if ref is not None else ()
    newest = next((run for run in runs if ref in (run.data.get("environments") or ())), None)
    if newest is None or not newest.data.get("ended"):
        return None
    from prime_lab_mcp.lab.training.evaluations import result_of_run  # late: few calls come this far

    return result_of_run(lab, newest)


def _trained_as_pulled(lab: Lab, snapshot: Snapshot) -> str | None:
    """The name on the Hub of the environment that a folder was pulled from; None if the files were published here."""
    pulled = pull_of_folder(lab.ledger, lab.key, snapshot.name)
    published = pulled is not None and lab.ledger.pushes(
        workspace=lab.key, source=snapshot.source, platform=lab.platform
    )
    return pulled.ref if pulled is not None and not published else None


def step_after_the_push(lab: Lab, snapshot: Snapshot, model: str | None = None) -> Next | None:
    """The next call for the newest config of the pushed environment; None if no active hosted config names it.

    With `model`, only a config that trains this model counts.
    """
    return _step_of_config(lab, _published_as(lab, snapshot), model)


def _step_of_config(lab: Lab, names: set[str], model: str | None = None) -> Next | None:
    """The next call for the newest active hosted config of an environment under one of these names, or None. With
    `model`, a config of another model is none."""
    live = next((run for run in live_runs(lab) if names & set(run.data.get("environments") or ())), None)
    if live is not None and model in (None, live.data.get("model")):
        return watch_call(live)
    found = _newest_config(lab, names)
    if found is None or found[0].target != "hosted" or model not in (None, found[1].model):
        return None
    newest, config = found
    sha256 = config.sha256
    run = next(
        (r for r in lab.ledger.runs(workspace=lab.key, platform=lab.platform) if r.config_sha256 == sha256), None
    )
    if run is not None:
        from prime_lab_mcp.lab.training.evaluations import result_of_run  # late: few calls come this far

        return result_of_run(lab, run) or Next("watch_run", "the run of its config", {"id": run.id})
    declined = newest_decline(lab, sha256)
    if declined is not None:
        return calls_after_decline(config, newest.path, str(declined.data["declined_by"]))[0]
    checked = lab.ledger.evidence(lab.key, tool="check_training_config", config_sha256=sha256)
    if not checked or checked[0].status != "passed":
        return Next("check_training_config", "judges the config before it is paid for", {"path": newest.path})
    return untested_source(lab, config) or Next(
        "submit_training", "trains with it, after asking", {"config": newest.path}
    )


def config_waits_for(lab: Lab, snapshot: Snapshot, env_args: Mapping[str, Any]) -> bool:
    """Whether the newest config of the pushed files uses them with these arguments."""
    names = _published_as(lab, snapshot)
    found = _newest_config(lab, names) if names else None
    sources = found[1].sources if found is not None else ()
    return any(source.id in names and same_arguments(env_args, source.args) for source in sources)


def _newest_config(lab: Lab, names: set[str]) -> tuple[RegistryEntry, TrainingConfig] | None:
    """The newest active config of an environment under one of these names; None without one that can be read."""
    try:
        entries = load_registry(lab.workspace.resolve(REGISTRY))
        newest = next((e for e in reversed(entries) if e.active and names & set(e.environments)), None)
        if newest is None:
            return None
        return newest, read_config(lab.workspace.resolve(newest.path, must_exist=True))
    except (LabError, OSError):
        return None


def live_runs(lab: Lab) -> list[Run]:
    """Training runs of this workspace that no `watch_run` has seen at their end and no run continues, newest first."""
    return unended_runs(lab, lab.key)


def unended_runs(lab: Lab, workspace: str | None) -> list[Run]:
    """Training runs of one workspace that nobody has seen end and no run continues, or of all workspaces that share the
    state directory."""
    runs = lab.ledger.runs(workspace=workspace, platform=lab.platform, kind="training")
    continued = {run.data.get("resumed_from") for run in runs}
    return [run for run in runs if "ended" not in run.data and run.id not in continued]


def watch_call(run: Run) -> Next:
    return Next("watch_run", "a run that was started, and that nobody has seen end", {"id": run.id})


def untested_split(lab: Lab, snapshot: Snapshot) -> Next | None:
    """The `test_reward` call for the held-out tasks of files that follow published or pulled ones, or None.

    A config of the published environment evaluates the held-out tasks, and its gate asks for this test. Before anything
    was published, the config leads to the test (`untested_source`).
    """
    pulled = pull_of_folder(lab.ledger, lab.key, snapshot.name)
    if pulled is None and not lab.ledger.pushes(workspace=lab.key, environment=snapshot.name, platform=lab.platform):
        return None
    from prime_lab_mcp.lab.configs.resolve import held_out_keys  # late: few calls come this far

    keys = held_out_keys(lab.workspace.root / snapshot.relative)
    tests = lab.ledger.evidence(tool="test_reward", source=snapshot.source)
    if keys is None or any(same_arguments(row.env_args, keys) for row in tests):
        return None
    why = f"a config evaluates the held-out tasks ({arguments_summary(keys)}), and its gate asks for this free test"
    if pulled is not None:
        why = f"free: the held-out tasks of this folder ({arguments_summary(keys)}) judge a checkpoint after the run"
    return Next("test_reward", why, {"environment": snapshot.name, "env_args": keys})


def untested_source(lab: Lab, config: TrainingConfig) -> Next | None:
    """The `test_reward` call for the first source that was not tested with the config's arguments; None if there is
    none.

    Only environments that were pushed from this workspace need a test.
    """
    for source in config.sources:
        if source.owner is None:
            continue
        push = lab.newest_push(source.owner, source.env_name, source.version, workspace=lab.key)
        if push is None:
            continue
        tests = lab.ledger.evidence(tool="test_reward", source=push.source)
        if not any(same_arguments(row.env_args, source.args) for row in tests):
            why = f"the config uses the environment with {arguments_summary(source.args)}, which is not tested"
            arguments = {"environment": push.environment, **({"env_args": dict(source.args)} if source.args else {})}
            return Next("test_reward", why, arguments)
    return None
