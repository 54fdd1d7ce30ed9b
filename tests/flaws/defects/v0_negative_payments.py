"""A payment may be negative, and then makes money.

format: tool_call
generation: v0
finding: reward-hackable, blocker

Paying minus a million makes every account rich, whatever the customer asks for.
"""

import json, random
from datasets import Dataset
import verifiers as vf
SYSTEM = "You are a bank clerk. Look with balance and move money with pay between the accounts of the customer. When the goal of the customer is reached, reply with a short note."
async def balance(account: str, bank: dict) -> str:
    """Balance of an account.

    Args:
        account: giro, savings or travel
    """
    return f"{account}: {bank.get(account, 'no such account')}"
async def pay(source: str, target: str, amount: int, bank: dict) -> str:
    """Move money.

    Args:
        source: giro, savings or travel
        target: giro, savings or travel
        amount: whole euros
    """
    if source not in bank or target not in bank:
        return "no such account"
    if int(amount) > bank[source]:
        return "not enough money"
    bank[source] -= int(amount)
    bank[target] += int(amount) if int(amount) > 0 else 0
    return "paid"
class Bank(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(tools=[], **kwargs)
        self.add_tool(balance, args_to_skip=["bank"]); self.add_tool(pay, args_to_skip=["bank"])
    async def setup_state(self, state, **kwargs):
        await super().setup_state(state, **kwargs)
        state["bank"] = json.loads(state["info"]["bank"])
    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "bank": state["bank"]}
def goal(state, info, **kwargs):
    return float(state["bank"][info["account"]] >= info["least"])
def load_environment(**kwargs):
    rng = random.Random(3); rows = []
    for n in range(60):
        bank = {a: rng.randrange(50, 900) for a in ("giro", "savings", "travel")}
        account = rng.choice(list(bank)); least = sum(bank.values()) - rng.randrange(5, 40)
        rows.append({"question": f"I want to have at least {least} euros on my {account} account.", "answer": "", "info": {"bank": json.dumps(bank), "account": account, "least": least}})
    return Bank(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[goal], weights=[1.0]), max_turns=10, **kwargs)
