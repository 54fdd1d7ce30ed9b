"""Every message between the server and the processes of this package, both ways. Each is one line of JSON.

The server imports these types too. It converts every field of a reply, since foreign code may have written the line.
The types ensure that both sides mean the same fields. Standard library only.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

CANARY = "prime_lab.canary"
"""The audit event that the text of a canary raises when a reward runs that text as Python."""

Messages = list[dict[str, Any]]


# --- zygote and supervisor -------------------------------------------------------------------------------------------


class ForkRequest(TypedDict):
    """Fork a child. Two sockets accompany the message, one for the child and one for its supervisor."""

    op: Literal["fork"]


class Versions(TypedDict):
    """What an interpreter has. `seconds` is the time that importing verifiers took."""

    verifiers: str | None
    python: str
    seconds: float


class ForkServerReply(TypedDict, total=False):
    """Has one field: `ready` after verifiers is imported, `broken` if the import failed, `forked` with a process id."""

    ready: Versions
    broken: str
    forked: int


class EndReport(TypedDict):
    """The end of a child. `code` and `signal` are both null where its supervisor stopped it."""

    code: int | None
    signal: int | None
    flood: bool
    output: str


# --- parts of requests and replies -----------------------------------------------------------------------------------


class JudgeReply(TypedDict):
    """A model that rewards ask."""

    name: str
    model: str
    temperature: float | None
    host: str


RewardKind = Literal["reward", "metric", "group"]


class RewardReply(TypedDict):
    """A scoring function."""

    name: str
    weight: float | None
    kind: RewardKind
    is_async: bool


class ErrorReply(TypedDict):
    """An exception, or another failure of the environment's code."""

    type: str
    message: str
    where: str


class Failure(ErrorReply):
    """A request that failed as a whole."""

    traceback: str
    refused: str
    """What the confinement of this process refused, if that is the cause."""


class ProblemReply(TypedDict):
    """A problem of a scored case. `code` is a `ProblemCode` of worker/faults.py; `detail` is a type, host or path."""

    code: str
    detail: str


class ComponentReply(TypedDict):
    """A part of a reward."""

    score: float | None
    weight: float | None


# --- load, serve -----------------------------------------------------------------------------------------------------


class EnvironmentRequest(TypedDict):
    """The environment to load. `variables` are set for its code; `hidden` packages cannot be imported."""

    tree: str
    module: str
    env_args: dict[str, Any]
    hidden: list[str]
    variables: dict[str, str]
    scratch: str
    caches: dict[str, str]
    """Variables that lead to the environment's own cache of downloaded data."""
    confinement: dict[str, Any] | None
    """The policy for lab/sandbox/confine.py; null where this machine confines nothing."""


class LoadRequest(EnvironmentRequest):
    """Import the environment and load it."""

    op: Literal["load"]


class LoadReply(TypedDict):
    """The loaded environment. `tasks` is null where they are infinite or too many to count."""

    kind: str
    tasks: int | None
    infinite: bool
    turns: bool
    own_run: NotRequired[bool]
    solutions: bool
    task_class: NotRequired[str]
    rewards: list[RewardReply]
    fields: list[str]
    system_prompt: Any
    shadowed_by: NotRequired[str | None]
    judges: list[JudgeReply]
    seconds: float


class ServedCase(TypedDict):
    """A completion for a task that is rebuilt from its data."""

    data: dict[str, Any]
    messages: Messages


class ServeRequest(EnvironmentRequest):
    """Score tasks that are rebuilt from their data, without loading the environment (v1). Answer: `[ScoreReply]`."""

    op: Literal["serve"]
    cases: list[ServedCase]
    case_timeout: float


# --- rows, facts -----------------------------------------------------------------------------------------------------


class RowsRequest(TypedDict):
    """A seeded sample of tasks. `split` is null for the split that is loaded."""

    op: Literal["rows"]
    limit: int
    seed: int
    split: str | None


class RowReply(TypedDict):
    """One task."""

    index: int
    key: str
    prompt: Messages
    answer: Any
    info: Any
    fields: dict[str, Any]


class RowsReply(TypedDict):
    """Tasks in task order. `total` is null where it is not known."""

    rows: list[RowReply]
    total: int | None


class FactsRequest(TypedDict):
    """Describe the loaded environment beyond its rewards and rows."""

    op: Literal["facts"]


class ArgReply(TypedDict):
    """One argument of an environment."""

    name: str
    type: str
    default: Any
    required: bool
    choices: list[Any]


class LossyReply(TypedDict):
    """A task that changes when it is serialised and rebuilt."""

    row: int
    field: str
    why: str


class RoleReply(TypedDict):
    """An agent of an environment (v1)."""

    name: str
    harness: str
    runtime: str
    own: bool


class SentTask(TypedDict):
    """A task with its data as sent to an env server (v1)."""

    row: int
    data: dict[str, Any]


class ParserReply(TypedDict):
    """A reward function that takes a parser (v0)."""

    function: str
    given: str
    environment: str


class PortFunctionReply(TypedDict):
    """Where a function of a v0 environment stands. `free` are the variables of the function around it, by name."""

    name: str
    file: str
    line: int
    bound: bool
    free: dict[str, dict[str, Any]]


class PortClassReply(TypedDict):
    """A class of a v0 package: a line inside of it, its bases in the package, and what its instance holds."""

    name: str
    file: str
    line: int
    own_bases: list[str]
    held: dict[str, dict[str, Any]]


class PortParserReply(TypedDict):
    """A parser of a v0 environment. `kind` is the class of verifiers; `own` the class of the package, if any."""

    kind: str
    own: PortClassReply | None
    fields: list[list[str]]
    answer_field: str
    extract: dict[str, Any]


class PortRewardReply(TypedDict):
    """A reward function of a v0 environment. `library` is its qualified name where verifiers defines it."""

    name: str
    weight: float | None
    library: str
    rubric: str
    group: bool
    function: PortFunctionReply
    parser: PortParserReply | None
    seconds: float | None


class PortReply(TypedDict):
    """What a port of a v0 environment needs to know beyond its rows."""

    base: str
    own: PortClassReply | None
    max_turns: int | None
    tools: list[PortFunctionReply]
    rewards: list[PortRewardReply]
    parser: PortParserReply | None
    objects: list[str]


class GeneratorReply(TypedDict):
    """Whether two values of an argument gave the same tasks. Two equal values are two loads with the same arguments."""

    argument: str
    values: list[str]
    same: bool


class FactsReply(TypedDict):
    """The description of an environment. Some fields exist for one generation only."""

    args: list[ArgReply]
    held_out: str | None
    parsers: NotRequired[list[ParserReply]]
    port: NotRequired[PortReply]
    excluded: NotRequired[list[str]]
    declared_task: NotRequired[str]
    other_tasks: NotRequired[list[str]]
    tried: NotRequired[int]
    lossy: NotRequired[list[LossyReply]]
    lossy_total: NotRequired[int]
    roles: NotRequired[list[RoleReply] | None]
    shapes: NotRequired[dict[str, Any]]
    sent_tasks: NotRequired[list[SentTask]]
    generator: NotRequired[list[GeneratorReply]]


# --- score -----------------------------------------------------------------------------------------------------------


class CaseRequest(TypedDict):
    """A completion for a task. `key` is the task's hash as an earlier reply stated it."""

    row: int
    messages: Messages
    key: NotRequired[str | None]
    company: NotRequired[list[Messages]]


class ScoreRequest(TypedDict):
    """Score completions. Answered by a line per case, then by one without a result.

    `search` is the number of a search for reward holes: the replies then name the branches of the environment's code
    that no earlier case of this search took.
    """

    op: Literal["score"]
    cases: list[CaseRequest]
    case_timeout: float
    search: NotRequired[int]


class ScoreReply(TypedDict):
    """One scored case. `members` are the results of a group that was scored together."""

    reward: float | None
    components: dict[str, ComponentReply]
    metrics: dict[str, float | None]
    errors: list[ErrorReply]
    problems: list[ProblemReply]
    judges: list[JudgeReply]
    ms: float
    members: NotRequired[list[ScoreReply]]
    branches: NotRequired[list[str]]


# --- side effects ----------------------------------------------------------------------------------------------------


class SideEffectsCase(TypedDict):
    """A completion; with `together` it is also scored concurrently with others."""

    row: int
    messages: Messages
    concurrent: bool


class SideEffectsRequest(TypedDict):
    """Score cases alone and concurrently. Answered by `[SideEffectsReply]`."""

    op: Literal["side-effects"]
    cases: list[SideEffectsCase]
    case_timeout: float


class SideEffectsReply(TypedDict):
    """The side effects of one scoring. `blocked` is in seconds; `together` is a list of one reward, or null."""

    alone: float | None
    concurrent: list[float | None] | None
    mutated: list[str]
    blocked: float


# --- scripted rollouts -----------------------------------------------------------------------------------------------


class ScriptedRollout(TypedDict):
    """A rollout to run: its task, and the script that the model follows there."""

    row: int
    script: dict[str, Any]


class RolloutsRequest(TypedDict):
    """Run whole rollouts. Times are in seconds. `turns` bounds rollouts with a stated limit, `endless` all others.

    `in_order`: each rollout begins when the one before has ended. `held`: also, each begins with the same state of
    every random generator, and nothing is scored again.
    """

    op: Literal["rollout"]
    rollouts: list[ScriptedRollout]
    in_order: bool
    held: bool
    seconds: float
    rollout_seconds: float
    serving: float
    turns: int
    endless: int
    case_timeout: float


class ToolReply(TypedDict):
    """A tool that the model was offered."""

    name: str
    description: str
    parameters: dict[str, Any]


RolloutEnd = Literal["ended", "endless", "cut", "slow", "not-run"]


class RolloutReply(TypedDict):
    """One rollout."""

    messages: Messages
    reward: float | None
    components: dict[str, ComponentReply]
    stop: str
    ok: bool
    end: RolloutEnd
    errors: list[ErrorReply]
    turns: int
    tools: list[ToolReply]
    state: list[str]
    unplayable: str
    alone: float | None
    again: float | None
    ms: float
    linear: NotRequired[bool]
    """The rollout is one conversation without branches, so its messages can be scored without a rollout (v1)."""


class RolloutsReply(TypedDict):
    """The requested rollouts, in order. `unavailable`: why none could be run; `by_design`: the reason is no flaw."""

    rollouts: list[RolloutReply]
    unavailable: str
    by_design: bool


class StatedRequest(TypedDict):
    """The solutions that the environment states for some tasks, as messages. At most `seconds` are spent."""

    op: Literal["solutions"]
    rows: list[int]
    seconds: float


class StatedTurn(TypedDict):
    """One turn of a solution. Each call is the name of a tool and its arguments, an object or a text."""

    text: str | None
    calls: list[list[Any]]


class StatedReply(TypedDict):
    """For each asked task the turns of its solution, or None where it is a function of the messages, cannot be read,
    or no time was left; `functions` are the tasks with a function.
    """

    solutions: list[list[StatedTurn] | None]
    functions: list[int]


# --- stored rollouts -------------------------------------------------------------------------------------------------


class LocateRequest(TypedDict):
    """Find the present tasks of stored rollouts. With `whole`, all that a task holds must be unchanged."""

    op: Literal["locate"]
    tasks: list[dict[str, Any]]
    whole: bool
    limit: int
    all: bool


class PlaceReply(TypedDict):
    """The present row of a stored task with the task as a record holds it; or why there is none."""

    row: int | None
    why: str
    task: dict[str, Any] | None


class LocateReply(TypedDict):
    """The present tasks of stored rollouts. `asked` has a fingerprint of each present task's question, if `all`."""

    places: list[PlaceReply]
    unfit: str
    grouped: bool
    asked: list[str]


class StoredCase(TypedDict):
    """A stored rollout, or `{"group": [...]}` of v0, for a present task."""

    id: str
    row: int
    record: dict[str, Any]


class RescoreRequest(TypedDict):
    """Score stored rollouts. Answered like `ScoreRequest`.

    `turns`: the rollouts had more than one reply. `fresh_runtime`: the run scored in an empty folder. `spent_ms`: total
    time for slow cases.
    """

    op: Literal["rescore"]
    cases: list[StoredCase]
    case_timeout: float
    turns: bool
    fresh_runtime: bool
    spent_ms: float


Request = (
    LoadRequest
    | ServeRequest
    | RowsRequest
    | FactsRequest
    | ScoreRequest
    | SideEffectsRequest
    | RolloutsRequest
    | StatedRequest
    | LocateRequest
    | RescoreRequest
)


class Numbered(TypedDict):
    """Every request has an `id` beside its own fields, which the replies to it repeat."""

    id: int


class Reply(Numbered, total=False):
    """One line. `result` is the reply to the request; `case` is the position of a scored case."""

    result: Any
    case: int
    failed: Failure
