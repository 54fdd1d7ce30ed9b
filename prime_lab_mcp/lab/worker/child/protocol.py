"""The types of all messages between the server and the processes of this package. A message is one line of JSON.

The server imports the same types, so that both sides agree on the fields. It still converts every field of a reply,
because environment code may have written the line. This module imports only the standard library.

`lab/worker/description.py` and `lab/worker/scoring.py` decode the replies; the classes there document the fields of
`LoadReply`, `FactsReply`, `ScoreReply` and `RolloutReply`. `port_v0` has the types of the description for a port.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from .port_v0 import PortReply

CANARY = "prime_lab.canary"
"""Name of an audit event. Some test completions are Python code that raises this event when a reward executes it."""

CONTAINER_ERROR = re.compile(
    r"\bpodman (runtime selected|run failed|network|proxy listener failed|did not publish|environment inspection failed"
    r"|workdir setup failed|background process failed|(run|create|start|pull|rm|stop) did not end within)"
)
"""Matches errors of verifiers (v1/runtimes/docker) about a container that could not be prepared, and those of Podman
commands that were too slow on this machine. The environment's code has not run there yet."""

Messages = list[dict[str, Any]]


# --- zygote and supervisor -------------------------------------------------------------------------------------------


class ForkRequest(TypedDict):
    """Asks for a child. Two sockets accompany the message, one for the child and one for its supervisor."""

    op: Literal["fork"]


class Versions(TypedDict):
    """The versions of verifiers and Python in an interpreter. `seconds` is the time that importing verifiers took."""

    verifiers: str | None
    python: str
    seconds: float


class ForkServerReply(TypedDict, total=False):
    """A message of the fork server with exactly one of these fields.

    `ready` follows the import of verifiers, `broken` says why the import failed, and `forked` is a new process id.
    """

    ready: Versions
    broken: str
    forked: int


class EndReport(TypedDict):
    """How a child ended. `code` and `signal` are both null if its supervisor killed it.

    `flood` says that the child was killed for too much output; `output` is the last part of its output.
    """

    code: int | None
    signal: int | None
    flood: bool
    output: str


# --- parts of requests and replies -----------------------------------------------------------------------------------


class JudgeReply(TypedDict):
    """A judge: a model that a reward asks. `host` is the host of its endpoint."""

    name: str
    model: str
    temperature: float | None
    host: str


RewardKind = Literal["reward", "metric", "group"]


class RewardReply(TypedDict):
    """A reward or metric function. A group reward gets all rollouts of a task at once."""

    name: str
    weight: float | None
    kind: RewardKind
    is_async: bool


class ErrorReply(TypedDict):
    """An exception or another failure of the environment's code. `where` names the function or line that raised it."""

    type: str
    message: str
    where: str


class Failure(ErrorReply):
    """A request that failed as a whole."""

    traceback: str
    refused: str
    """What the confinement of this process refused, if that caused the failure; otherwise an empty string."""


class ProblemReply(TypedDict):
    """A problem of a scored case.

    `code` is a `ProblemCode` (worker/faults.py); `detail` may be a type, host or path.
    """

    code: str
    detail: str


class ComponentReply(TypedDict):
    """The score and weight of one reward function."""

    score: float | None
    weight: float | None


# --- load, serve -----------------------------------------------------------------------------------------------------


class EnvironmentRequest(TypedDict):
    """The environment to load.

    `tree` is the folder of its files. `variables` are set for its code, and `hidden` packages cannot be imported.
    `scratch` is the folder for temporary files.
    """

    tree: str
    module: str
    env_args: dict[str, Any]
    hidden: list[str]
    variables: dict[str, str]
    scratch: str
    caches: dict[str, str]
    """Environment variables with the paths of the environment's own cache of downloaded data."""
    confinement: dict[str, Any] | None
    """The policy for lab/sandbox/confine.py; null if this machine cannot confine processes."""


class LoadRequest(EnvironmentRequest):
    """Asks to import the environment and load it."""

    op: Literal["load"]


class LoadReply(TypedDict):
    """The loaded environment (`Loaded` in worker/description.py). `tasks` is null if they are infinite or uncounted."""

    kind: str
    tasks: int | None
    infinite: bool
    turns: bool
    own_run: NotRequired[bool]
    container: NotRequired[bool]
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
    """Asks to score tasks that are rebuilt from their data, without loading the environment (v1).

    The result is a list of `ScoreReply`. `case_timeout` is in seconds.
    """

    op: Literal["serve"]
    cases: list[ServedCase]
    case_timeout: float


# --- rows, facts -----------------------------------------------------------------------------------------------------


class RowsRequest(TypedDict):
    """Asks for a seeded sample of at most `limit` tasks. `split` is null for the split that is loaded.

    `after` asks for tasks that follow so many first ones, where the number of tasks is not known.
    """

    op: Literal["rows"]
    limit: int
    seed: int
    split: str | None
    after: int | None


class RowReply(TypedDict):
    """One task. `index` is its position, and `key` is a hash of its content."""

    index: int
    key: str
    prompt: Messages
    answer: Any
    info: Any
    fields: dict[str, Any]
    group: NotRequired[str]
    """The column `task` of v0, where the rows have one of their own."""


class RowsReply(TypedDict):
    """Tasks in task order. `total` is the number of all tasks; null if unknown."""

    rows: list[RowReply]
    total: int | None


class FactsRequest(TypedDict):
    """Asks for a description of the loaded environment beyond its rewards and rows."""

    op: Literal["facts"]


class ArgReply(TypedDict):
    """One argument of an environment. `choices` are the values of a Literal; otherwise the list is empty."""

    name: str
    type: str
    default: Any
    required: bool
    choices: list[Any]


class LossyReply(TypedDict):
    """A task that changes when it is serialised and rebuilt: its row, the changed field, and the change."""

    row: int
    field: str
    why: str


class RoleReply(TypedDict):
    """An agent of a v1 environment with its default harness and runtime.

    `own` says that the package defines an `Env` or a harness of its own.
    """

    name: str
    harness: str
    runtime: str
    own: bool


class SentTask(TypedDict):
    """A task with its data as the trainer sends it to the env server (v1)."""

    row: int
    data: dict[str, Any]


class ParserReply(TypedDict):
    """A v0 reward function with a `parser` argument.

    `given` is the class of the rubric's parser, which the function gets; `environment` is the class of the
    environment's parser.
    """

    function: str
    given: str
    environment: str


class GeneratorReply(TypedDict):
    """Whether two values of an argument gave the same tasks. If both values are equal, loading was repeated.

    `marked` tasks are the same but for the value itself, which their data carry.
    """

    argument: str
    values: list[str]
    same: bool
    marked: bool


class FactsReply(TypedDict):
    """The description of an environment (`Traits` in worker/description.py). Some fields exist only for v0 or v1."""

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
    """A completion of a task. `key` is the task's hash in an earlier reply.

    `rest_of_group` are the other completions that a group reward gets. `verdict` is what a stand-in answers in place of
    the reward's judge.
    """

    row: int
    messages: Messages
    key: NotRequired[str | None]
    rest_of_group: NotRequired[list[Messages]]
    verdict: NotRequired[str]


class ScoreRequest(TypedDict):
    """Asks to score completions. The answer has one line for each case and a last line without a result.

    `search` is the number of a search for reward holes. With it, each reply names the branches of the environment's
    code that its case was the first to take in this search. `case_timeout` is in seconds.
    """

    op: Literal["score"]
    cases: list[CaseRequest]
    case_timeout: float
    search: NotRequired[int]


class ScoreReply(TypedDict):
    """One scored case. `ms` is the duration in milliseconds; `members` are the results of a group scored together.

    `questions` are what the reward asked its judge, if a stand-in answered.
    """

    reward: float | None
    components: dict[str, ComponentReply]
    metrics: dict[str, float | None]
    errors: list[ErrorReply]
    problems: list[ProblemReply]
    judges: list[JudgeReply]
    ms: float
    members: NotRequired[list[ScoreReply]]
    branches: NotRequired[list[str]]
    questions: NotRequired[list[str]]


# --- side effects ----------------------------------------------------------------------------------------------------


class SideEffectsCase(TypedDict):
    """A completion to score alone. If `concurrent` is true, it is also scored concurrently with other cases."""

    row: int
    messages: Messages
    concurrent: bool


class SideEffectsRequest(TypedDict):
    """Asks to score cases alone and concurrently. The result is a list of `SideEffectsReply`."""

    op: Literal["side-effects"]
    cases: list[SideEffectsCase]
    case_timeout: float


class SideEffectsReply(TypedDict):
    """The side effects of one scoring.

    `alone` is the reward of the case scored alone. `concurrent` is a list with its one concurrent reward, or null if
    the case was only scored alone. `mutated` names the changed inputs. `blocked` is the longest time for which scoring
    blocked the event loop, in seconds.
    """

    alone: float | None
    concurrent: list[float | None] | None
    mutated: list[str]
    blocked: float


# --- scripted rollouts -----------------------------------------------------------------------------------------------


class ScriptedRollout(TypedDict):
    """A rollout to run: the row of its task, and the script of the model (scripted_rollouts.py)."""

    row: int
    script: dict[str, Any]


class RolloutsRequest(TypedDict):
    """Asks to run whole rollouts. All times are in seconds.

    `seconds` is the time for all rollouts, `rollout_seconds` for one rollout, and `serving` for starting tool servers.
    `turns` is the most turns of a rollout for which the environment states a limit, `endless` of all others. With
    `in_order`, each rollout begins after the previous one has ended. With `held`, moreover,
    each rollout begins with the same state of every random generator, and nothing is scored again. With `observed`,
    nothing is scored again either, and a rollout without an end has the messages of its last request; the rollouts are
    run one after the other (`in-order`, with a pause before each reply if `slowly`) or take turns (`in-turns`,
    turn_taking.py). `containers` are the environment variables with which the program `podman` runs containers; without
    them, no container can run.
    """

    op: Literal["rollout"]
    rollouts: list[ScriptedRollout]
    in_order: bool
    held: bool
    observed: Literal["", "in-order", "slowly", "in-turns"]
    seconds: float
    rollout_seconds: float
    serving: float
    turns: int
    endless: int
    case_timeout: float
    containers: NotRequired[dict[str, str]]


class ToolReply(TypedDict):
    """A tool that the environment offered to the model. `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


RolloutEnd = Literal["ended", "endless", "cut", "slow", "not-run"]


class RolloutReply(TypedDict):
    """One rollout (`RolloutResult` in worker/scoring.py).

    `alone` is the reward of the same messages scored without a rollout, and `again` the reward of the finished rollout
    when it is scored a second time.
    """

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
    """Whether the rollout is one conversation without branches, so that its messages can be scored alone (v1)."""


class RolloutsReply(TypedDict):
    """The requested rollouts, in order.

    If no rollout can run here, `unavailable` is the reason, and `by_design` says that the reason is no flaw.
    """

    rollouts: list[RolloutReply]
    unavailable: str
    by_design: bool


class StatedRequest(TypedDict):
    """Asks for the reference solutions of some tasks, as messages. Reading them takes at most about `seconds`."""

    op: Literal["solutions"]
    rows: list[int]
    seconds: float


class StatedTurn(TypedDict):
    """One turn of a solution. Each tool call is a pair of the tool's name and its arguments (an object or a text)."""

    text: str | None
    calls: list[list[Any]]


class StatedReply(TypedDict):
    """The solution of each requested task as turns.

    A solution is null if it is a function of the messages, if it cannot be read, or if no time was left. `functions`
    are the rows of tasks whose solution is a function.
    """

    solutions: list[list[StatedTurn] | None]
    functions: list[int]


class TaskDataRequest(TypedDict):
    """Asks for the data of some tasks, as the trainer sends them to the env server (v1).

    The result is a list; a task whose data cannot be sent is null in it.
    """

    op: Literal["task-data"]
    rows: list[int]


class ServedRolloutsRequest(EnvironmentRequest):
    """Asks to run whole rollouts of tasks that are rebuilt from their data, without loading the environment (v1).

    The row of a rollout is the place of its task in `data`. The result is a `RolloutsReply`.
    """

    op: Literal["serve-rollouts"]
    data: list[dict[str, Any]]
    rollouts: RolloutsRequest


# --- stored rollouts -------------------------------------------------------------------------------------------------


class LocateRequest(TypedDict):
    """Asks for the rows of stored tasks among the first `limit` tasks of the environment.

    With `whole`, all data of a task must be unchanged; otherwise its question is enough. With `all`, the reply also has
    a fingerprint of every task's question.
    """

    op: Literal["locate"]
    tasks: list[dict[str, Any]]
    whole: bool
    limit: int
    all: bool


class PlaceReply(TypedDict):
    """The row of a stored task, and the task as a rollout record would store it.

    If no task matches, `row` is null and `why` names the difference: `prompt`, `data` or `ambiguous`.
    """

    row: int | None
    why: str
    task: dict[str, Any] | None


class LocateReply(TypedDict):
    """The rows of stored tasks.

    `unfit` says why stored rollouts cannot be scored; it is empty if they can. `grouped` says that rollouts of a task
    are scored together. `asked` has a fingerprint of every task's question if the request has `all`.
    """

    places: list[PlaceReply]
    unfit: str
    grouped: bool
    asked: list[str]


class StoredCase(TypedDict):
    """A stored rollout to score for the task at `row`. In v0, `record` may be `{"group": [...]}` with its rollouts."""

    id: str
    row: int
    record: dict[str, Any]


class RescoreRequest(TypedDict):
    """Asks to score stored rollouts. The answer has the form of the answer to `ScoreRequest`.

    `turns` says that rollouts may have more than one reply, `fresh_runtime` that the stored run scored in an empty
    folder. After slow cases have taken `spent_ms` milliseconds in total, the remaining cases are left out.
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
    | TaskDataRequest
    | ServedRolloutsRequest
    | StatedRequest
    | LocateRequest
    | RescoreRequest
)


class Numbered(TypedDict):
    """The field that every request has besides its own. All replies to a request repeat its `id`."""

    id: int


class Reply(Numbered, total=False):
    """One line of an answer. `result` is the reply; `case` is the position of a scored case in the request."""

    result: Any
    case: int
    failed: Failure
