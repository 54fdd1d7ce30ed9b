"""What the API references show: names of verifiers by what an author needs them for."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Group:
    """A heading, what an author needs it for, and names as the package's root exports them (or `module:name`)."""

    title: str
    about: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    title: str
    about: str
    root: str
    """Module whose exports the names are."""
    groups: tuple[Group, ...]
    folders: dict[str, str] = field(default_factory=dict)
    """Label -> folder of plug-ins whose ids are listed."""


def group(title: str, about: str, names: str) -> Group:
    return Group(title, about, tuple(names.split()))


V1 = Page(
    "verifiers v1",
    "Signatures of `verifiers.v1` {version}, as `import verifiers.v1 as vf` gives them, grouped as an author needs "
    "them.\nMembers of a base class are listed with the base. Worked examples: `lab://guide/environments`.",
    "verifiers.v1",
    (
        group("Tasks", "The data of a task, and the task that scores it.", "Task TaskData TaskResources TaskTimeout"),
        group(
            "Decorators",
            "Mark methods of a `Task` (reward, metric, stop, intercept) or of a `Toolset` (tool). Rewards and metrics "
            "are `async def`\nand ask for what they need by name: `trace`, `runtime`.",
            "reward metric stop intercept tool",
        ),
        group(
            "Tasksets",
            "`load()` yields tasks; arguments of an environment are fields of its config.",
            "Taskset TasksetConfig SharedTasksetConfig TaskConfig RewardFunctionConfig DecoratedFunctionConfig "
            "SelectConfig TaskMatchConfig load_taskset taskset_config_type task_type",
        ),
        group(
            "Trace",
            "What a rollout recorded: rewards read it.",
            "Trace TraceTask Reward MessageNode ModelCall Timing Error State Episode",
        ),
        group(
            "Messages",
            "What stands in a trace, and how replies are sampled.",
            "SystemMessage UserMessage AssistantMessage ToolMessage ToolCall Tool TextContentPart ImageUrlContentPart "
            "Usage SamplingConfig",
        ),
        group(
            "Tools",
            "Served to the model over MCP; declared by a task.",
            "Toolset mcp.server:ServerBase ToolsetConfig SharedToolsetConfig",
        ),
        group(
            "Judges",
            "Rewards by a model.",
            "Judge JudgeConfig JudgeResponse JudgeView ReferenceJudge ReferenceJudgeConfig RubricJudge "
            "RubricJudgeConfig Criterion DecisionJudge DecisionJudgeConfig parse_judge_choice",
        ),
        group(
            "Environments and agents",
            "Needed where one chat is not enough, or to default harness and runtime.",
            "Env EnvConfig SharedEnvConfig SingleAgentEnv SingleAgentEnvConfig AgentConfig Agent Interaction Segment "
            "load_environment env_config_type RetryConfig RetryRule",
        ),
        group(
            "Harnesses",
            "The program that talks to the model.",
            "Harness HarnessConfig harness_config_type",
        ),
        group(
            "Runtimes",
            "Where harness and tools run.",
            "Runtime SubprocessConfig runtimes.container:ContainerConfig configs.runtime:NetworkPolicyConfig "
            "DockerConfig PodmanConfig ApptainerConfig PrimeConfig ProgramResult RuntimeInfo",
        ),
        group("Clients", "Where the model is.", "configs.client:BaseClientConfig EvalClientConfig"),
        group(
            "Scoring",
            "Ready-made pieces of rewards.",
            "extract_boxed_answer verify_boxed_math_answer compare_stdout_results parse_pytest_outcomes "
            "read_answer_file_or_last_reply",
        ),
        group(
            "Errors",
            "Raised by the framework at the boundary that failed; authors raise their own exceptions.",
            "RolloutError ProviderError HarnessError ToolsetError SandboxError TaskError EnvError InterceptionError",
        ),
    ),
    {"harness": "harnesses", "taskset": "tasksets", "env": "envs", "judge": "judges"},
)

V0 = Page(
    "verifiers v0",
    "Signatures of `verifiers` {version}, the last of the 0.1 line, as `import verifiers as vf` "
    "gives them.\nThe present platform does not train v0 environments: `lab://guide/migration` ports one.",
    "verifiers",
    (
        group(
            "Loading",
            "A package defines `load_environment(**arguments)`; `vf.load_environment(id, **arguments)` calls it.",
            "load_environment load_example_dataset extract_boxed_answer extract_hash_answer ensure_keys",
        ),
        group(
            "Environments",
            "Dataset, rubric and the way a rollout goes.",
            "Environment SingleTurnEnv MultiTurnEnv ToolEnv StatefulToolEnv SandboxEnv PythonEnv EnvGroup",
        ),
        group("Parsers", "How a reply gives its answer.", "Parser XMLParser ThinkParser MaybeThinkParser"),
        group(
            "Rubrics",
            "Reward functions ask by parameter name for `completion`, `answer`, `prompt`, `state`, `info`, `task`, "
            "`parser`\nand objects added to the rubric; plural names (`completions`) make a group reward.",
            "Rubric RubricGroup JudgeRubric MathRubric",
        ),
        group("Decorators", "Mark methods of an environment.", "stop cleanup teardown"),
        group(
            "Types",
            "What functions get and give.",
            "types:State types:RolloutInput types:RolloutOutput types:TrajectoryStep types:RolloutTiming "
            "types:GenerateOutputs types:GenerateMetadata types:Tool types:Response",
        ),
        group(
            "Clients and evaluation",
            "How a model is called.",
            "Client types:ClientConfig types:EndpointClientConfig types:EvalConfig",
        ),
    ),
)
PAGES = {"v1": V1, "v0": V0}
