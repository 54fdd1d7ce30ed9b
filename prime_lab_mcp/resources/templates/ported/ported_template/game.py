"""The turns of an older environment: the game answers each reply, until one of its conditions ends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ported_template.conversation import prompt_of, state_of, steps_of
from ported_template.v0 import Record, State, awaited, message, stop


class Game:
    """What the class MultiTurnEnv of v0 gives to its subclasses."""

    max_turns = -1

    async def setup_state(self, state: State) -> State:
        return state

    async def env_response(self, messages: Any, state: State, **_: Any) -> Any:
        return []

    @stop(priority=100)
    async def has_error(self, state: State, **_: Any) -> bool:
        return state.get("error") is not None

    @stop
    async def max_turns_reached(self, state: State, **_: Any) -> bool:
        return 0 < self.max_turns <= len(state["trajectory"])

    @stop
    async def has_final_env_response(self, state: State, **_: Any) -> bool:
        return state.get("final_env_response") is not None


class Played:
    """One conversation of a game with its state."""

    def __init__(self, game: Game, data: Any) -> None:
        self.game, self.state = game, state_of(data, [])
        self.state.update(completion=None, is_completed=False, stop_condition=None)
        self._prompt = prompt_of(data)
        self._said: list[Record] = []

    async def begin(self) -> None:
        """Let the game set its state up."""
        self.state = await awaited(self.game.setup_state(self.state)) or self.state

    async def ended(self) -> bool:
        """Whether a condition of the game holds."""
        for method in self._conditions():
            if await awaited(method(self.state)):
                return True
        return False

    async def heard(self, reply: Record) -> list[Record] | None:
        """What the game says to a reply; None when the game is over."""
        self._said.append(reply)
        self.state["trajectory"] = steps_of(self._prompt, self._said)
        if await self.ended():
            return self._over()
        said = _messages(await awaited(self.game.env_response([*self._prompt, *self._said], self.state)))
        if self.state.get("final_env_response") is not None:
            self._said += _messages(self.state["final_env_response"])
            return self._over()
        self._said += said
        return said

    async def replay(self, completion: Sequence[Record]) -> State:
        """The state after a conversation that was stored."""
        await self.begin()
        for said in completion:
            if said.role == "assistant":
                await self.heard(said)
        self._over()
        return self.state

    def _over(self) -> None:
        self.state.update(completion=list(self._said), is_completed=True)

    def _conditions(self) -> list[Any]:
        names = [n for n in dir(self.game) if hasattr(getattr(self.game, n), "stop_priority")]
        methods = [getattr(self.game, name) for name in names]
        return sorted(methods, key=lambda method: -method.stop_priority)


def _messages(said: Any) -> list[Record]:
    if isinstance(said, str):
        return [message({"role": "user", "content": said})]
    return [m if isinstance(m, Record) else message(m) for m in said or ()]
