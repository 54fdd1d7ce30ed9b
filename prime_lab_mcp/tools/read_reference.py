"""`read_reference`: reads the resources through a tool, for clients that cannot read resources."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Annotated

from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Link
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.pages.illustrate import page_of_evaluation
from prime_lab_mcp.lab.models import page as models
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.tools.tool import Arguments, Call, Tool


class Args(Arguments):
    topic: Annotated[str | None, Field(max_length=200, description="As listed without topic.")] = None
    page: Annotated[int, Field(ge=1, le=99, description="Page of a long text.")] = 1


PAGE = 12_000
"""Length of one page in characters: about 3,000 tokens."""
_LISTED = 5
_EVALUATION = re.compile(r"evals/([^/]+)/report")


async def run(call: Call, args: Args) -> Outcome:
    topics = [*call.references.topics(), (models.TOPIC, models.ABOUT)]
    if args.topic is None:
        listed = [{"topic": name, "about": about} for name, about in topics]
        return Outcome("passed", f"{len(listed)} topics can be read.", data={"topics": listed})
    name = args.topic.removeprefix("lab://")
    of_evaluation = _EVALUATION.fullmatch(name)
    if of_evaluation:
        text: str | None = (await page_of_evaluation(call.lab, of_evaluation[1])).markdown
    else:
        text = await models.models_page(call.lab) if name == models.TOPIC else call.references.page(name)
    if text is None:
        near = ", ".join(_near(name, [*call.references.names(), models.TOPIC]))
        raise BadInput(
            f"there is no topic {quote(name, 80)}",
            fix=Fix(
                "Call ",
                NamedCall("read_reference"),
                f" without a topic for the list.{(' Near: ' + near if near else '')}",
            ),
            code="unknown-topic",
        )
    pages = max(1, -(-len(text) // PAGE))
    page = min(args.page, pages)
    return Outcome(
        "passed",
        f"{name}, page {page} of {pages}.",
        data={"topic": name, "page": page, "pages": pages, "text": text[(page - 1) * PAGE : page * PAGE]},
        links=() if name == "finding" else (Link(f"lab://{name}", name),),  # the list of findings is no resource
    )


def _near(name: str, known: list[str]) -> list[str]:
    """A few topics with the same ending or a similar spelling."""
    last = name.rsplit("/", 1)[-1].casefold().replace("_", "-")
    whole = [topic for topic in known if topic.rsplit("/", 1)[-1].casefold() == last]
    alike = get_close_matches(name, known, n=_LISTED, cutoff=0.6)
    parts = [topic for topic in known if len(last) >= 4 and last in topic.casefold()]
    return list(dict.fromkeys([*whole, *alike, *parts]))[:_LISTED]


TOOL = Tool(
    name="read_reference",
    title="Read reference",
    description="Guides, references, finding codes and template files. Without topic: the list.",
    args=Args,
    run=run,
    effect="reads",
)
