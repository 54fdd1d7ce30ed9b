"""crewai-tools: the tools of a crew, which has no way to a resource, a prompt, progress or its user."""

from __future__ import annotations

from crewai.utilities.agent_utils import convert_tools_to_openai_schema
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters
from walk import COMMAND, NEW, SPENT, UNPROVEN, say, text_of, token_in

with MCPServerAdapter(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]), connect_timeout=120) as crew_tools:
    tools = {tool.name: tool for tool in crew_tools}
    say("list", names=list(tools))
    schemas, *_ = convert_tools_to_openai_schema(list(tools.values()))
    say("convert", names=[schema["function"]["name"] for schema in schemas])
    say("call", text=text_of(tools["create_environment"].run(**NEW)))
    say("refuse", text=text_of(tools["push_environment"].run(**UNPROVEN)))
    asked = text_of(tools["spend"].run())
    spent = text_of(tools["spend"].run(confirm=token_in(asked)))
    say("confirm", asked=asked, text=spent, spent=SPENT.exists())
