"""The reward asks for exactly one call, with the right queue.

format: tool_call
generation: v0

Twin of v0_any_queue_counts: filing a ticket twice earns nothing.
"""

import random
from datasets import Dataset
import verifiers as vf
QUEUES = ["billing", "shipping", "returns", "accounts", "technical"]
SAID = {"billing": "I was charged twice", "shipping": "My parcel has not come", "returns": "I want to send this back", "accounts": "I cannot log in", "technical": "The app crashes at start"}
SYSTEM = "File each ticket with file_ticket into the right queue, once, then reply with a short message."
async def file_ticket(queue: str) -> str:
    """File the ticket.

    Args:
        queue: one of billing, shipping, returns, accounts, technical
    """
    return "filed" if queue in QUEUES else "no such queue"
def filed(completion, answer, **kwargs):
    import json
    calls = []
    for m in completion:
        for call in m.get("tool_calls") or []:
            name = call.name if hasattr(call, "name") else call.get("name") or call["function"]["name"]
            args = call.arguments if hasattr(call, "arguments") else call.get("arguments") or call["function"]["arguments"]
            if name == "file_ticket":
                try:
                    calls.append(json.loads(args).get("queue"))
                except ValueError:
                    pass
    return float(calls == [answer])
def load_environment(**kwargs):
    rng = random.Random(23); rows = []
    for n in range(80):
        q = rng.choice(QUEUES)
        rows.append({"question": f"Ticket {n + 1}: {SAID[q]}, and I have been a customer for {rng.randrange(2, 30)} years.", "answer": q})
    return vf.ToolEnv(tools=[file_ticket], dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[filed], weights=[1.0]), max_turns=8, **kwargs)
