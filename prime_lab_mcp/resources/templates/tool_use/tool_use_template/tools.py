"""The tools of the model: a server that verifiers starts once for all rollouts, because its tools keep no state.

What a tool refuses it says as a result that begins with `error`, so that the model can mend the call.
"""

from __future__ import annotations

import verifiers.v1 as vf

from tool_use_template import documents
from tool_use_template.calculator import calculate


class ToolUseTemplateToolset(vf.Toolset[vf.SharedToolsetConfig]):
    """Search and read the packaged documents; calculate."""

    TOOL_PREFIX = None

    async def setup(self) -> None:
        self.documents = documents.load()

    @vf.tool
    def search_documents(self, query: str) -> str:
        """Find documents by words. Returns up to five titles, the best match first; read_document gives the text."""
        found = documents.search(self.documents, query)
        return "\n".join(d.title for d in found) or "error: no document has any of these words"

    @vf.tool
    def read_document(self, title: str) -> str:
        """The full text of one document, by its exact title."""
        found = documents.find(self.documents, title)
        return found.text if found is not None else "error: there is no document with this title; use search_documents"

    @vf.tool
    def calculate(self, expression: str) -> str:
        """The value of an arithmetic expression such as (1250 - 980) * 3. No names, no functions."""
        try:
            return calculate(expression)
        except ValueError as error:
            return f"error: {error}"


if __name__ == "__main__":
    ToolUseTemplateToolset.run()
