"""Observes scoring: exceptions and returned values of reward functions, and durations.

verifiers hides these. v0 turns exceptions into a reward of 0.0, v1 stops at the first exception, and both convert
returned values and let NaN through.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from typing import Any

from . import coercion, environment
from .protocol import ComponentReply, ErrorReply, JudgeReply, ProblemReply, ScoreReply

_MOST_ERRORS = 20
_FIRST = 8.0
"""Extra seconds for the first scoring of a process, in which rewards import modules (host.py allows the same)."""
_REWARD_UNKNOWN = frozenset({"judge-unreachable", "judge-unread", "confined"})
_REQUEST_ERRORS = frozenset({"BadRequestError", "UnprocessableEntityError", "APIResponseValidationError"})
"""Errors for requests that the endpoint refuses as invalid. They are faults of the caller."""
_UNREACHABLE = frozenset(
    {
        "APIConnectionError",
        "APITimeoutError",
        "APIStatusError",
        "AuthenticationError",
        "PermissionDeniedError",
        "NotFoundError",
        "RateLimitError",
        "InternalServerError",
        "MissingKeyError",
        "ConnectError",
        "ConnectTimeout",
        "ReadTimeout",
        "ClientConnectorError",
    }
)
"""Exceptions of the openai client, httpx and aiohttp, and the exception of verifiers for a missing key."""
_HTTP_PACKAGES = frozenset({"openai", "httpx", "httpcore", "aiohttp", "verifiers", "litellm", "anthropic"})
_current: list[Observation] = []


def current() -> Observation | None:
    """Return the observation of the case that is being scored; None before the first case."""
    return _current[0] if _current else None


def unreachable(error: BaseException) -> bool:
    """Return whether an exception or one of its causes means that a judge is unreachable.

    A judge is unreachable without a connection, a key or quota.
    """
    chain: BaseException | None = error
    for _ in range(20):
        if chain is None:
            return False
        kinds = {k.__name__ for k in type(chain).__mro__ if k.__module__.partition(".")[0] in _HTTP_PACKAGES}
        if kinds & _UNREACHABLE and not kinds & _REQUEST_ERRORS:
            return True
        if "OpenAIError" in kinds and any(word in str(chain) for word in ("api_key", "API_KEY", "credentials")):
            return True
        chain = chain.__cause__ or chain.__context__
    return False


class Observation:
    """The errors, problems and asked judges of one scored case."""

    def __init__(self) -> None:
        self.errors: list[ErrorReply] = []
        self.problems: list[ProblemReply] = []
        self.raised: list[BaseException] = []
        self.waiting = ""
        self.judges: list[JudgeReply] = []
        """Judges that were asked while this case was scored."""
        self.judge_cancelled = False
        """Whether a request to a judge was cancelled."""
        _current[:] = [self]

    def add_problem(self, code: str, detail: str = "") -> None:
        """Note a problem, unless the same code and detail are noted already."""
        problem: ProblemReply = {"code": code, "detail": detail}
        if problem not in self.problems:
            self.problems.append(problem)

    def has_problem(self, *codes: str) -> bool:
        """Return whether a problem with one of these codes was noted."""
        return any(problem["code"] in codes for problem in self.problems)

    def add_error(self, kind: str, message: str, where: str) -> None:
        """Note an error that was not raised as an exception."""
        self.errors.append({"type": kind, "message": message, "where": where})

    def add_exception(self, error: BaseException, where: str) -> None:
        """Note an exception, with the line of the environment's code that raised it."""
        if isinstance(error, asyncio.CancelledError):
            self.waiting = self.waiting or where  # A timeout cancels the function; `scoring_failed` notes the timeout.
            return
        self.raised.append(error)
        if unreachable(error):
            self.add_problem("judge-unreachable")
        elif self.judges and not self.has_problem("judge-unreachable"):
            self.add_problem("judge-unread")
        failure = environment.failure(error)
        if failure["refused"]:
            self.add_problem("confined", failure["refused"])
        place = ":".join(p for p in (where, failure["where"]) if p)
        self.add_error(failure["type"], failure["message"], place)

    def judge_unreachable(self, error: BaseException) -> None:
        """Note that a judge is unreachable, even if the reward handles the error."""
        if not self.has_problem("judge-unreachable"):
            self.add_problem("judge-unreachable")
            self.add_error(type(error).__name__, coercion.text(error, 2000), "")

    def scoring_failed(self, error: BaseException, seconds: float, limit: float) -> None:
        """Note that the whole scoring failed after `seconds`, unless its cause is already noted."""
        if isinstance(error, TimeoutError) and seconds >= limit * 0.98:
            self.add_problem("judge-unreachable" if self.judge_cancelled else "timeout")
            self.add_error("TimeoutError", f"no score within {limit:g} seconds", self.waiting)
            return
        chain: BaseException | None = error
        while chain is not None:
            if any(chain is noted for noted in self.raised):
                return
            chain = chain.__cause__ or chain.__context__
        if not self.errors:
            self.add_exception(error.__cause__ or error, "")

    def check_duration(self, seconds: float, limit: float, *, first: bool) -> None:
        """Note a scoring that returned after its limit. That happens if blocking code keeps the timeout from firing."""
        allowed = limit + _FIRST if first else limit
        if seconds > allowed + 0.1 and not self.errors and not self.has_problem("timeout"):
            self.add_problem("timeout")
            self.add_error(
                "TimeoutError", f"the score came after {seconds:.1f} seconds, {limit:g} are allowed", self.waiting
            )

    def check_value(self, value: Any, name: str) -> None:
        """Note a returned value that is not a finite number, or not a mapping of such numbers (v1)."""
        for part in value.values() if isinstance(value, Mapping) else (value,):
            number = coercion.number(part)
            scalar = type(part).__module__ == "numpy" and type(part).__name__ != "ndarray"
            if isinstance(part, bool | int | float) or scalar:
                if number is None:
                    self.add_problem("nonfinite")
                continue
            self.add_problem("not-a-float", type(part).__name__)
            if number is None:
                self.add_error("TypeError", f"{name} returned {type(part).__name__}, not a number", name)

    def as_reply(
        self,
        reward: float | None = None,
        ms: float = 0.0,
        components: dict[str, ComponentReply] | None = None,
        metrics: dict[str, float | None] | None = None,
    ) -> ScoreReply:
        """Build the reply for the scored case.

        The reward is None if a judge failed or the confinement refused something, whatever the function returned.
        """
        return {
            "reward": None if self.has_problem(*_REWARD_UNKNOWN) else reward,
            "components": components or {},
            "metrics": metrics or {},
            "errors": self.errors[:_MOST_ERRORS],
            "problems": self.problems,
            "judges": self.judges,
            "ms": ms,
        }


class CaughtExceptions(logging.Handler):
    """Notes the exceptions that a port (`create_environment(port=...)`) counts as 0 and logs."""

    @classmethod
    def listen(cls, module: str) -> None:
        """Note what the module `v0` of a package logs; nothing if the package is no port."""
        if f"{module}.v0" in sys.modules:
            logger = logging.getLogger(f"{module}.v0")
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
            logger.handlers[:] = [cls()]

    def emit(self, record: logging.LogRecord) -> None:
        observation, error = current(), record.exc_info[1] if record.exc_info else None
        if observation is None or error is None:
            return
        failure = environment.failure(error)
        detail = f"{failure['type']}: {failure['message']} ({failure['where']})"
        observation.add_problem("caught", f"{record.getMessage()} {coercion.text(detail, 300)}")


def not_run() -> ScoreReply:
    """Build the reply for a case that is not scored, because earlier cases took too long."""
    observation = Observation()
    observation.add_error("not-run", "earlier cases took too long", "")
    observation.add_problem("not-run")
    return observation.as_reply()


def no_row(row: int) -> ScoreReply:
    """Build the reply for a case whose task does not exist."""
    observation = Observation()
    observation.add_error("IndexError", f"there is no task {row}", "")
    observation.add_problem("no-such-row")
    return observation.as_reply()
