"""Writes the v1 package of a port, and lists the parts of the old environment that were not carried over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from prime_lab_mcp.lab.authoring.naming import PackageNames, rename_code
from prime_lab_mcp.lab.authoring.port.description import CodePlace, OldEnvironment
from prime_lab_mcp.lab.authoring.port.functions import FunctionsModule, PortedReward
from prime_lab_mcp.lab.authoring.port.interaction import (
    BASE_CLASSES,
    PortedGame,
    PortedTool,
    class_parts,
    port_game,
    port_tool,
    tool_parts,
)
from prime_lab_mcp.lab.authoring.port.renderings import renderings
from prime_lab_mcp.lab.authoring.port.rows import PortedRows
from prime_lab_mcp.lab.authoring.port.source import NotPortable, OldPackage, offered_names, third_party
from prime_lab_mcp.lab.authoring.template import python_literal, set_constants
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.syntax import defaults_of
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.base.versions import V1_REQUIREMENT
from prime_lab_mcp.lab.state.source_code import SourceCode

TEMPLATE = Path("ported") / "ported_template"
_OWN = PackageNames("ported_template", "ported-template", "PortedTemplate")
_MATH = "math-verify>=0.9,<0.10"
_MOST_LISTED = 5
_MOST_NAMED = 12
"""Most parts that a finding names besides the first."""
_LONGEST_README = 20_000
"""Characters of the old README that are carried over."""
_HEADING = re.compile(r"(#{1,6})\s")


@dataclass(frozen=True, slots=True)
class LeftPart:
    """A part of the old environment that was not carried over, with the reason and its lines. `text` is untrusted."""

    part: str
    why: str
    place: CodePlace | None = None
    text: str = ""
    by_hand: bool = True
    """Whether somebody has to write it. Values of defaults that the port has, and defaults of evaluations, need no
    work."""

    def as_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"part": quote(self.part, 80)[1:-1], "why": self.why, "by_hand": self.by_hand}
        if self.place is not None and self.place.is_known:
            row |= {"file": self.place.path, "line": self.place.line}
        return row | ({"lines": quote(self.text, 300)} if self.text else {})


@dataclass(frozen=True, slots=True)
class PortedEnvironment:
    """A port: its files by path, the parts that were carried over, and the parts that were not."""

    files: Mapping[str, str]
    rewards: tuple[PortedReward, ...]
    left_parts: tuple[LeftPart, ...]
    tools: tuple[PortedTool, ...] = ()
    game: PortedGame | None = None
    renderings: tuple[str, ...] = ()
    """Formats of a reply for `test_reward`, with GOLD in place of the answer; the most likely format first."""

    @property
    def left_sentence(self) -> str:
        """The end of the summary of a port: what has to be written, and what else is not as in the older environment.

        Besides the rewards with a weight, a port may carry some without one, which only measure.
        """
        by_hand = sum(part.by_hand for part in self.left_parts)
        needed = count(by_hand, "part has", "parts have") if by_hand else "nothing has"
        if 0 < by_hand < len(self.left_parts):
            needed = f"{by_hand} of {count(len(self.left_parts), 'part')} in data.left {needed.split()[-1]}"
        others = "; ".join(f"{quote(part.part, 80)[1:-1]}: {part.why}" for part in self.left_parts if not part.by_hand)
        measures = sum(not reward.weight for reward in self.rewards)
        beside = f" and {count(measures, 'metric')}" if measures else ""
        return f"{beside}; {needed} to be written by hand." + (f" Not carried over: {others}." if others else "")


@dataclass(frozen=True, slots=True)
class OldPort:
    """The facts about the environment to port. `arguments` are the parameters of its `load_environment`."""

    name: str
    environment: OldEnvironment
    source: SourceCode
    main: str
    requirements: Sequence[str]
    arguments: Sequence[str] = ()
    project: Mapping[str, Any] = field(default_factory=dict)
    """The table `project` of its pyproject.toml."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The table `tool.verifiers.eval` of its pyproject.toml: the defaults of its evaluations."""
    readme: str = ""
    """The text of its README."""


@dataclass
class _PortInProgress:
    """The state of a port while it is written."""

    module: FunctionsModule
    package: OldPackage
    left_parts: list[LeftPart] = field(default_factory=list)

    def leave(self, part: str, error: NotPortable) -> None:
        text = ""
        if error.place.is_known and error.place.path in self.package.files:
            text = _lines_at(self.package, error.place)
        self.left_parts.append(LeftPart(part, error.why, error.place, text))


def build_port(templates: Path, names: PackageNames, old: OldPort, rows: PortedRows) -> PortedEnvironment:
    """Make the files of the v1 package for a v0 environment that a worker has described."""
    texts = {p.name: p.read_text(encoding="utf-8") for p in sorted((templates / TEMPLATE).glob("*.py"))}
    package = OldPackage(old.source, old.main, offered_names(texts["v0.py"]))
    progress = _PortInProgress(FunctionsModule(package, names.module), package)
    rewards = _rewards(progress, old.environment)
    tools, game = _interaction(progress, old.environment)
    _note_defaults(progress, old, rows)
    title = "The functions of the older environment, as they were when they were ported."
    modules = progress.module.texts(title, game.text if game else "")
    files = _package_files(texts, names, old, rows, rewards, tools, game, modules, progress)
    return PortedEnvironment(
        files, tuple(rewards), tuple(progress.left_parts), tools, game, renderings(old.environment)
    )


def left_findings(ported: PortedEnvironment) -> tuple[Finding, ...]:
    """One warning about the parts that were not carried over and that have to be written. Rewards come first."""
    left = [part for part in ported.left_parts if part.by_hand]
    if not left:
        return ()
    rewards = [p for p in left if p.part.startswith("reward ")]
    first = (rewards or left)[0]
    example = f"{quote(first.part, 80)[1:-1]}: {first.why}"
    others = [quote(part.part, 80)[1:-1] for part in left if part is not first]
    unnamed = "; and more" if len(others) > _MOST_NAMED else ""
    more = f", and {count(len(others), 'other part')}: {'; '.join(others[:_MOST_NAMED])}{unnamed}" if others else ""
    return (
        Finding(
            "port-left",
            "warning",
            f"not carried over: {example}{more}",
            "Write these parts by hand: data.left has the lines of the old file, guide/migration the counterparts.",
            str(first.place) if first.place is not None and first.place.is_known else None,
            rows=tuple(p.as_json() for p in left[:_MOST_LISTED]),
        ),
    )


def _rewards(progress: _PortInProgress, old: OldEnvironment) -> list[PortedReward]:
    ported = []
    others = set(old.objects) - {"parser"}
    for reward in old.rewards:
        if reward.library and not reward.weight and reward.library != "method":
            continue  # a metric of verifiers itself, such as num_turns
        try:
            if old.base == "EnvGroup":
                raise NotPortable("it is paid by one member of the EnvGroup only", reward.function.place)
            ported_reward = progress.module.reward(reward)
            objects = _parameters(progress.package, reward.function.place) & others
            if objects:
                raise NotPortable(f"it asks for an object of the rubric: {sorted(objects)[0]}", reward.function.place)
            ported.append(ported_reward)
        except NotPortable as error:
            progress.leave(f"reward {reward.name} (weight {reward.weight or 0:g})", error)
    return ported


def _parameters(package: OldPackage, place: CodePlace) -> set[str]:
    try:
        node = package.definition(place)
    except NotPortable:
        return set()
    return {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}


def _interaction(progress: _PortInProgress, old: OldEnvironment) -> tuple[tuple[PortedTool, ...], PortedGame | None]:
    """Carry over the tools or the game of the environment. Parts without a counterpart in v1 go to `left_parts`."""
    package = progress.package
    if old.base not in BASE_CLASSES:
        for part, error in (*class_parts(package, old), *tool_parts(package, old)):
            progress.leave(part, error)
        return (), None
    try:
        if old.base == "MultiTurnEnv":
            return (), port_game(progress.module, old)
        if old.own is not None:
            raise NotPortable("it changes the class of verifiers", old.own.place)
    except NotPortable as error:
        for part, reason in class_parts(package, old, error):
            progress.leave(part, reason)
    tools = []
    for tool in old.tools:
        try:
            tools.append(port_tool(progress.module, tool))
        except NotPortable as error:
            progress.leave(f"tool {tool.name}", error)
    return tuple(tools), None


def _taken(load: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a function takes out of its `**kwargs`: arguments that its signature does not show."""
    kwargs = load.args.kwarg.arg if load.args.kwarg is not None else None
    for node in ast.walk(load):
        key: ast.expr | None = None
        of: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr in ("pop", "get", "setdefault"):
                of, key = node.func.value, node.args[0]
        elif isinstance(node, ast.Subscript):
            of, key = node.value, node.slice
        if (
            isinstance(of, ast.Name)
            and of.id == kwargs
            and isinstance(key, ast.Constant)
            and isinstance(key.value, str)
        ):
            yield key.value


def _with_defaults(load: ast.FunctionDef) -> set[str]:
    """The arguments of a function that have a default, and those that it takes out of its `**kwargs`."""
    return {parameter.arg for parameter, _ in defaults_of(load.args)} | set(_taken(load))


def is_split(argument: str) -> bool:
    """Whether an argument of `load_environment` chooses a split, by its name."""
    return argument.rpartition("_")[2] == "split"


_USUAL_SPLITS = ("test", "validation")
"""Values of a split that are tried where the old code lists none (our choice)."""
_MOST_SPLITS = 3


def other_split_values(source: SourceCode, main: str, argument: str) -> tuple[str, ...]:
    """The values of the argument that chooses a split, besides its default: those of its `Literal`, or usual ones.

    Empty without a text as default, because another split is then no matter of this argument alone.
    """
    load = _loader(next((file.tree for file in source.files if file.path == main), None))
    for named, default in defaults_of(load.args) if load is not None else ():
        if named.arg == argument and isinstance(default, ast.Constant) and isinstance(default.value, str):
            inside = ast.walk(named.annotation) if named.annotation is not None else ()
            listed = [n.value for n in inside if isinstance(n, ast.Constant) and isinstance(n.value, str)]
            # The rows of "train" and "eval" are those of the two datasets of the old environment.
            known = (default.value, "train", "eval")
            return tuple(v for v in listed or _USUAL_SPLITS if v not in known and v.isidentifier())[:_MOST_SPLITS]
    return ()


def _loader(tree: ast.Module | None) -> ast.FunctionDef | None:
    """The function of a module that loads the environment; None if there is none."""
    body = tree.body if tree is not None else ()
    return next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == "load_environment"), None)


def _note_defaults(progress: _PortInProgress, old: OldPort, rows: PortedRows) -> None:
    load = _loader(progress.package.files[old.main].tree)
    taken = list(dict.fromkeys((*(n for n in old.arguments if n.isidentifier()), *(_taken(load) if load else ()))))
    if taken and load is not None:
        place = CodePlace(old.main, load.lineno)
        listed = ", ".join(taken)
        why = f"the rows and values are those of the defaults of {listed}"
        splits = [name for name in taken if is_split(name)]
        more = [split for split in rows.counts if split not in ("train", "eval")]
        if splits and more:
            named = " and ".join(quote(split, 40) for split in more)
            why += f"; the rows that {splits[0]} {named} gives are a split of the port as well"
        elif splits:
            why += (
                f"; the rows that another {' or '.join(splits)} gives are not carried over, and same_as compares none"
            )
        selecting = [name for name in taken if name in rows.columns]
        if selecting:
            where = f"where={{{quote(selecting[0], 60)}: [VALUE]}}"
            why += f"; to select rows by {selecting[0]}, pass the port {where}"
        # An argument without a default has no value here that the port could have.
        by_hand = bool(splits and not more) or not set(taken) <= _with_defaults(load)
        first = progress.package.files[old.main].text.splitlines()[load.lineno - 1 : load.body[0].lineno - 1]
        progress.left_parts.append(LeftPart("arguments of load_environment", why, place, "\n".join(first), by_hand))
    if old.defaults:
        why = "v1 has no defaults of evaluations in pyproject.toml: pass them to run_eval"
        text = tomlkit.dumps({name: value for name, value in old.defaults.items() if value is not None})
        progress.left_parts.append(LeftPart("[tool.verifiers.eval]", why, None, text, by_hand=False))
    for split, carried in rows.counts.items():
        total = rows.totals.get(split, carried)
        if total > carried:
            why = f"{carried:,} of {total:,} rows were taken, chosen at random"
            progress.left_parts.append(LeftPart(f"rows of the split {split}", why))


def _lines_at(package: OldPackage, place: CodePlace) -> str:
    """The old source at a place: the whole function if one begins there, else one line."""
    lines = package.files[place.path].text.splitlines()
    try:
        node: ast.AST = package.definition(place)
        last = getattr(node, "end_lineno", place.line)
    except NotPortable:
        last = place.line
    return "\n".join(lines[place.line - 1 : last])


# --- files -----------------------------------------------------------------------------------------------------------


def _package_files(
    texts: Mapping[str, str],
    names: PackageNames,
    old: OldPort,
    rows: PortedRows,
    rewards: Sequence[PortedReward],
    tools: Sequence[PortedTool],
    game: PortedGame | None,
    modules: Mapping[str, str],
    progress: _PortInProgress,
) -> dict[str, str]:
    taskset = "taskset_tools.py" if tools else "taskset_game.py" if game else "taskset.py"
    template_files = ["__init__.py", "rows.py", "conversation.py", "v0.py"]
    template_files += ["math_reward.py"] if progress.module.uses_math else []
    template_files += ["game.py"] if game else []
    files = {f"{names.module}/{n}": rename_code(texts[n], _OWN, names) for n in template_files}
    files |= {f"{names.module}/{name}.py": text for name, text in modules.items()}
    unwritten = not (tools or game) and old.environment.base != "SingleTurnEnv"
    files[f"{names.module}/taskset.py"] = _taskset_text(
        rename_code(texts[taskset], _OWN, names), old, rows, rewards, game, unwritten
    )
    if tools:
        files[f"{names.module}/tools.py"] = _tools_text(rename_code(texts["tools.py"], _OWN, names), tools)
    files |= {f"{names.module}/data/{split}.jsonl": text for split, text in rows.texts.items()}
    files["pyproject.toml"] = _project_text(names, old, files, bool(tools or game))
    files["README.md"] = _readme_text(names, old, rows, rewards, tools, game, progress.left_parts)
    return files


_ONE_REPLY = '"""Tasks and rewards, ported from a v0 environment: one question, one reply."""'
_ONE_REPLY_SO_FAR = (
    '"""Tasks and rewards, ported from a v0 environment. Its tools or turns are not carried over: until somebody\n'
    'writes them, a rollout is one question and one reply."""'
)
_PLAIN_CHAT = '"""A plain chat in a local process: no sandbox, no tools."""'
_PLAIN_CHAT_SO_FAR = (
    '"""A plain chat in a local process. The tools or turns of the older environment have to be written by hand."""'
)


def _taskset_text(
    text: str,
    old: OldPort,
    rows: PortedRows,
    rewards: Sequence[PortedReward],
    game: PortedGame | None,
    unwritten: bool,
) -> str:
    """The tasks with the ported rewards. `unwritten` says that tools or turns of the older environment are missing."""
    methods = "\n\n".join(_method_text(reward) for reward in rewards)
    start, end = text.index("    @vf.reward(weight=1.0)"), text.index("    async def earned(")
    text = text[:start] + (f"{methods}\n\n" if methods else "") + text[end:]
    if not rewards:
        text = re.sub(r"from \w+ import functions\n", "", text)
    text = text.replace('answer: Any = ""', f"answer: {rows.answer_type}" + _default(rows.answer_type))
    splits = list(rows.counts) or ["train"]
    text = text.replace(
        'split: Literal["train", "eval"] = "train"',
        f"split: Literal[{', '.join(map(python_literal, splits))}] = {python_literal(splits[0])}",
    )
    turns = old.environment.max_turns
    constants: dict[str, Any] = {"SYSTEM_PROMPT": rows.system_prompt}
    if turns is not None:
        constants["MAX_TURNS"] = turns if turns > 0 else None
    if game is not None:
        text = text.replace("functions.Game()", f"functions.{game.name}()")
    if unwritten:
        text = text.replace(_ONE_REPLY, _ONE_REPLY_SO_FAR).replace(_PLAIN_CHAT, _PLAIN_CHAT_SO_FAR)
    return set_constants(text, constants)


def _default(kind: str) -> str:
    return {"str": ' = ""', "Any": ' = ""'}.get(kind, "")


def _method_text(reward: PortedReward) -> str:
    decorator = f"@vf.reward(weight={reward.weight!r})" if reward.weight else "@vf.metric"
    parser = f", parser=functions.{reward.parser}" if reward.parser not in (None, "None") else ""
    return (
        f"    {decorator}\n"
        f"    async def {reward.name}(self, trace: vf.Trace) -> float:\n"
        f'        """As the function of the older environment."""\n'
        f"        return await self.earned(functions.{reward.function}, trace{parser})"
    )


def _tools_text(text: str, tools: Sequence[PortedTool]) -> str:
    start, end = text.index("    @vf.tool"), text.index("\n\nasync def result(")
    methods = "\n\n".join(tool.text for tool in tools)
    return text[:start] + methods + "\n" + text[end:]


def _project_text(names: PackageNames, old: OldPort, files: Mapping[str, str], interactive: bool) -> str:
    trees = [ast.parse(text) for path, text in files.items() if path.endswith(".py")]
    roots = third_party(trees, (names.module, "verifiers"))
    imported = {r.lower() for r in roots}
    needed = [V1_REQUIREMENT]
    if "math_verify" in imported:
        needed.append(_MATH)
    old_requirements = _requirements(old.requirements)
    matched = {r for r, name in old_requirements.items() if name.replace("-", "_") in imported}
    provided = {name.replace("-", "_") for name in old_requirements.values()} | {"math_verify"}
    if imported - provided:  # The name of a distribution may differ from that of its package.
        matched = {r for r, name in old_requirements.items() if name not in ("datasets", "openai")}
    needed += [r for r in old_requirements if r in matched and old_requirements[r] != "math-verify"]
    document = tomlkit.document()
    document["build-system"] = {"requires": ["hatchling"], "build-backend": "hatchling.build"}
    document["project"] = {
        "name": names.distribution,
        "version": _version(old),
        "description": _description(old),
        "readme": "README.md",
        "requires-python": ">=3.11",
        "tags": _tags(old, interactive),
        "dependencies": needed,
    }
    document["tool"] = {"hatch": {"build": {"targets": {"wheel": {"packages": [names.module]}}}}}
    return tomlkit.dumps(document)


def _description(old: OldPort) -> str:
    """The old description, which says what the tasks are; else that this is a port."""
    told = old.project.get("description")
    if isinstance(told, str) and told.strip():
        return told.strip()
    return f"Ported from the v0 environment {old.name} to verifiers v1."


def _version(old: OldPort) -> str:
    """The old version, so that nobody has to look up what was ported; else the first one."""
    told = old.project.get("version")
    try:
        return str(Version(told)) if isinstance(told, str) else "0.1.0"
    except InvalidVersion:
        return "0.1.0"


def _tags(old: OldPort, interactive: bool) -> list[str]:
    """The tags that the port has by its shape, then the old ones besides."""
    tags = ["multi-turn" if interactive else "single-turn", "train", "eval"]
    told = old.project.get("tags")
    named = [tag for tag in told if isinstance(tag, str)] if isinstance(told, list) else []
    return list(dict.fromkeys([*tags, *(tag for tag in named if tag not in ("single-turn", "multi-turn"))]))


def _requirements(requirements: Iterable[str]) -> dict[str, str]:
    """The requirements of the old package except verifiers, each with the name of its distribution."""
    names = {}
    for text in requirements:
        try:
            name = canonicalize_name(Requirement(text).name)
        except InvalidRequirement:
            continue
        if name != "verifiers":
            names[text] = str(name)
    return names


def _readme_text(
    names: PackageNames,
    old: OldPort,
    rows: PortedRows,
    rewards: Sequence[PortedReward],
    tools: Sequence[PortedTool],
    game: PortedGame | None,
    left_parts: Sequence[LeftPart],
) -> str:
    kind = "with tools" if tools else "with several turns" if game else "with one reply"
    if kind == "with one reply" and old.environment.base != "SingleTurnEnv":
        kind = "whose tools or turns are not carried over (Left)"
    counts = " and ".join(f"{n:,} rows in `{names.module}/data/{s}.jsonl`" for s, n in rows.counts.items())
    table = "\n".join(
        f"| `{r.name}` | {r.weight:g} | what the function `{r.function}` gives |" for r in rewards if r.weight
    )
    total = sum(r.weight for r in rewards if r.weight > 0)
    listed = ", ".join(f"`{_cell(c)}`" for c in rows.columns)
    metadata = f"\nTasks carry {listed} as metadata or info; the config's `where` selects by them." if listed else ""
    shared = rows.system_prompt is not None
    prompt = "The system prompt is `SYSTEM_PROMPT` in `taskset.py`." if shared else "There is no common system prompt."
    parts = [
        f"# {names.distribution}",
        f"Ported from the v0 environment `{_cell(old.name)}`, {kind}. Its functions began as those of that\n"
        "environment; `test_reward` with `same_as` compares what both pay.",
        f"## Dataset\n\nThe rows of the older environment: {counts or 'none'}.{metadata}",
        f"## Input and output\n\nThe prompts are those of the older environment. {prompt}\n"
        + (_tools_table(tools) if tools else "")
        + "The functions in `functions.py` read the reply, with the parsers in `v0.py`.",
        f"## Reward\n\n| reward | weight | pays |\n| --- | --- | --- |\n{table}\n\n"
        f"The weights add up to {total:g}. As in v0, a function that raises an exception gives 0.",
        _left_section(left_parts),
        f"## Usage\n\n```\nvf-eval {names.distribution} -m MODEL -n 20 -r 4 --no-push\n```\n\n"
        "| argument | default | meaning |\n| --- | --- | --- |\n"
        f"| `split` | `{next(iter(rows.counts), 'train')}` | the split: {', '.join(f'`{s}`' for s in rows.counts)} |\n"
        "| `where` | none | only tasks whose metadata or info have one of these values |",
        _older_readme(old),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def _older_readme(old: OldPort) -> str:
    """The old README as one section, its headings below that of the section. Empty where there is none."""
    text = old.readme.strip()
    if not text:
        return ""
    lines, fenced = [], False
    for line in text[:_LONGEST_README].splitlines():
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        heading = _HEADING.match(line) if not fenced else None
        lines.append(f"{'#' * min(6, len(heading[1]) + 2)}{line[len(heading[1]) :]}" if heading else line)
    rest = ["```"] if fenced else []
    name = _cell(old.name)
    told = f"What the README of `{name}` says; its commands and names are those of v0."
    return "\n".join(["## The older environment", "", told, "", *lines, *rest])


def _tools_table(tools: Sequence[PortedTool]) -> str:
    listed = "\n".join(f"| `{tool.name}` |" for tool in tools)
    return f"\n| tool |\n| --- |\n{listed}\n\n"


def _left_section(left_parts: Sequence[LeftPart]) -> str:
    if not left_parts:
        return ""
    lines = [
        f"- {_cell(p.part)}: {p.why}"
        + (f" (`{_cell(str(p.place))}` of the older package)" if p.place and p.place.is_known else "")
        for p in left_parts
    ]
    return "## Left\n\nNot carried over from the older environment:\n\n" + "\n".join(lines)


def _cell(text: str) -> str:
    return quote(text, 120)[1:-1].replace("|", "/").replace("`", "'")
