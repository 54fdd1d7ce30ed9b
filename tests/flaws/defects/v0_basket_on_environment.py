"""Tools read and fill a basket that set-up puts on the environment, not into the state of the rollout.

format: tool_call
generation: v0
finding: reward-rollout-differs, blocker

Each rollout begins with an empty basket, so that one after the other is right. At once they fill the same one.
"""

import verifiers as vf
from datasets import Dataset

PRICES = {"bread": 3, "cheese": 7, "apples": 4, "honey": 9, "salt": 1}
SYSTEM = "You shop with the tools. Fill the basket as asked, then say DONE."


class BasketEnv(vf.ToolEnv):
    def __init__(self, **kwargs) -> None:
        self.wishes, self.basket = [], {}

        def read_list() -> str:
            """Say what is wished for."""
            return ", ".join(self.wishes)

        def put(article: str, number: int = 1) -> str:
            """Put articles into the basket.

            Args:
                article: what to put in
                number: how many
            """
            if article not in PRICES:
                return f"no such article; there are {', '.join(sorted(PRICES))}"
            self.basket[article] = self.basket.get(article, 0) + number
            return f"in the basket: {self.basket}"

        super().__init__(tools=[read_list, put], **kwargs)

    async def setup_state(self, state, **kwargs):
        state = await super().setup_state(state, **kwargs) or state
        self.wishes, self.basket = list(state["info"]["wishes"]), {}
        state["basket"] = self.basket
        return state


def filled(state, info, **kwargs) -> float:
    return float(state.get("basket", {}) == {name: 1 for name in info["wishes"]})


def load_environment() -> vf.Environment:
    names = sorted(PRICES)
    table = [
        {"question": f"Customer {n + 1}: read the list and fill the basket.",
         "info": {"wishes": [name for k, name in enumerate(names) if (n % 31 + 1) >> k & 1]}}
        for n in range(62)
    ]
    return BasketEnv(
        dataset=Dataset.from_list(table), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[filled]), max_turns=8
    )
