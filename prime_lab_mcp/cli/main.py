"""The command line. Without a subcommand it starts the server; subcommands are for people in a terminal."""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from prime_lab_mcp import __version__
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import escape, escape_lines

_NAMES_ENDPOINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*=")
COMMANDS = (
    "serve",
    "call",
    "demo",
    "setup",
    "install",
    "approve",
    "override",
    "doctor",
    "spend",
    "dashboard",
    "completion",
)

CLIENT_NAMES = ("claude-code", "claude-desktop", "vscode", "cursor", "codex", "gemini")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 passed, 1 failed or inconclusive, 2 bad usage, 3 blocked, 4 error, 5 running, 6 to confirm."""
    given = list(sys.argv[1:] if argv is None else argv)
    if sys.platform == "win32":
        print("prime-lab-mcp needs Linux or macOS: process groups and forked workers. Use WSL.", file=sys.stderr)
        return 2
    if "_ARGCOMPLETE" in os.environ:
        from prime_lab_mcp.cli.completion import complete

        parser, call = _parsers(completing=True)
        complete(parser, call)
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help", "--version")):
        given.insert(0, "serve")
    try:
        code = _run(given)
        sys.stdout.flush()  # Here, where a reader that has gone is handled, and not when Python ends.
        return code
    except LabError as error:
        print(f"prime-lab-mcp: {escape(error.message)}\n{escape_lines(error.fix)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output has gone (`| head`); the final flush of Python must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _run(given: list[str]) -> int:
    named: list[str] = []
    if given[0] == "call":
        if len(given) == 1 or {"-h", "--help"} & set(given):
            return _explain_call(given[1:])
        named, given = _named_endpoints(given)  # `--endpoint` is also an argument of tools
    args, rest = _parser().parse_known_args(given)
    if rest and args.command != "call":
        _parser().error(f"unrecognised: {' '.join(rest)}")
    return _dispatch(args, rest, named or getattr(args, "endpoint", []))


_MOST_HEAPS = -8
"""`M_ARENA_MAX` of glibc's malloc.h."""


def _share_one_heap() -> None:
    """Let all threads of the process use one heap of the C library, where that is glibc.

    With a heap each, what one thread frees serves no other, and a server grew for an hour. A heap that exists stays, so
    this comes before the first thread.
    """
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_MOST_HEAPS, 1)


def _dispatch(args: argparse.Namespace, rest: list[str], named: Sequence[str]) -> int:
    if args.command == "serve":
        gc.disable()  # Collections during the imports take a quarter of the start; the server switches them on again.
        _share_one_heap()
    if args.command == "completion":
        from prime_lab_mcp.cli.completion import completion_script

        print(completion_script(args.shell))
        return 0
    if args.command == "demo":
        from prime_lab_mcp.cli.demo import demo

        return demo(keep=args.keep, era=args.era)
    from prime_lab_mcp.server.main import serve, settings

    chosen = settings(
        args.workspace,
        args.state_dir,
        rehearsal=args.rehearsal,
        approval=getattr(args, "approval", "ask"),
        max_spend=getattr(args, "max_spend", None),
        allow_env=tuple(args.allow_env),
        endpoints=tuple(named),
        notify=getattr(args, "notify", None),
    )
    if args.command == "serve":
        if args.http is None and sys.stdin.isatty():
            print(
                "prime-lab-mcp: waiting for an MCP client on stdin. To add the server to a client:"
                " prime-lab-mcp install. To look around: prime-lab-mcp --help.",
                file=sys.stderr,
            )
        serve(chosen, args.http, args.http_token_file)
        return 0
    if args.command == "install":
        from prime_lab_mcp.cli import clients

        if args.client is None:
            return clients.list_clients(chosen, args.name)
        return clients.install(
            chosen,
            args.client,
            _serve_options(args),
            scope=args.scope,
            name=args.name,
            only_print=args.print,
            remove=args.remove,
        )
    if args.command == "dashboard":
        from prime_lab_mcp.server.main import serve_dashboard

        serve_dashboard(chosen, args.port)
        return 0
    if args.command == "spend":
        from prime_lab_mcp.cli.spend import spend

        return spend(chosen, as_json=args.output == "json")
    if args.command in ("doctor", "setup"):
        from prime_lab_mcp.cli.doctor import doctor

        return doctor(chosen, args.output, install=args.command == "setup")
    from prime_lab_mcp.cli import person, terminal

    if args.command == "call":
        return terminal.call(chosen, args.tool, args.json, rest, args.output)
    if args.command == "approve":
        return person.approve(chosen, args.token, assume_yes=args.yes)
    return person.override(chosen, args.environment, args.code, args.reason)


def _explain_call(words: Sequence[str]) -> int:
    """Print the help of `call`, or of the tool that is named. Returns 2 where a tool is missing."""
    from prime_lab_mcp.cli.tool_arguments import list_of_tools, tool_help, usage_of_tool

    tool = next((tool for tool in map(tool_help, words) if tool is not None), None)
    if tool is not None:
        print(usage_of_tool(tool))
        return 0
    stream = sys.stdout if words else sys.stderr
    print(_parsers()[1].format_help(), file=stream)
    print(list_of_tools(), file=stream)
    return 0 if words else 2


def _parser() -> argparse.ArgumentParser:
    return _parsers()[0]


def _parsers(*, completing: bool = False) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The parser of the command line and that of `call`, which completion gives the tools as commands of its own."""
    parser = argparse.ArgumentParser(
        prog="prime-lab-mcp",
        description="MCP server that builds, validates, publishes and trains RL environments on Prime Intellect Lab.",
    )
    parser.add_argument("--version", action="version", version=f"prime-lab-mcp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--workspace", metavar="DIR", help="folder the agent works in (default: here)")
    shared.add_argument("--state-dir", metavar="DIR", help="ledger, snapshots, jobs (default: the platform's)")
    shared.add_argument("--rehearsal", action="store_true", help="loopback platform: no account, no spend")
    shared.add_argument(
        "--allow-env", action="append", default=[], metavar="NAME", help="variable environments may see"
    )

    spending = argparse.ArgumentParser(add_help=False)
    spending.add_argument("--approval", choices=("ask", "always"), default="ask", help="who may approve spending")
    spending.add_argument("--max-spend", type=_dollars, metavar="USD", help="cumulative cap; honours yes=true")

    written = argparse.ArgumentParser(add_help=False)
    written.add_argument("--output", choices=("text", "json", "markdown"), default="text", help="form of the report")

    named = argparse.ArgumentParser(add_help=False)
    named.add_argument(
        "--endpoint",
        action="append",
        default=[],
        metavar="NAME=URL|VARIABLE",
        help="endpoint and its key, for run_eval",
    )

    named_person = argparse.ArgumentParser(add_help=False)
    named_person.add_argument(
        "--notify",
        metavar="COMMAND|URL",
        help="gets anomalies, ends and waiting questions as JSON (stdin, or POST)",
    )

    serve = commands.add_parser(
        "serve", parents=[shared, spending, named, named_person], help="speak MCP over stdio (default) or HTTP"
    )
    serve.add_argument("--http", metavar="HOST:PORT", help="streamable HTTP; clients need the token that it prints")
    serve.add_argument("--http-token-file", metavar="FILE", help="token of the clients; needed off loopback")
    call = commands.add_parser(
        "call",
        parents=[shared, spending, written],
        help="run one tool: call TOOL [--json ARGS | --key value ...]; call TOOL --help",
        allow_abbrev=False,
    )
    if not completing:
        call.add_argument("tool", metavar="TOOL")
    call.add_argument("--json", metavar="ARGS", help="arguments as one JSON object")
    demo = commands.add_parser("demo", help="the whole workflow in rehearsal, through a real client")
    demo.add_argument("--keep", metavar="DIR", help="keep the scratch workspace and state here")
    demo.add_argument("--era", choices=("auto", "legacy"), default="auto", help="protocol era of the client")
    commands.add_parser("setup", parents=[shared, written], help="install the toolchain (verifiers, datasets, prime)")
    install = commands.add_parser(
        "install",
        parents=[shared, spending, named, named_person],
        help="add this server to an MCP client; without CLIENT: list the clients",
    )
    install.add_argument("client", nargs="?", choices=CLIENT_NAMES, metavar="CLIENT", help=", ".join(CLIENT_NAMES))
    install.add_argument(
        "--scope", choices=("project", "user"), help="the workspace's file, or yours (default: the first)"
    )
    install.add_argument("--name", default="prime-lab", help="name of the entry (default: prime-lab)")
    install.add_argument("--print", action="store_true", help="print the entry and write nothing")
    install.add_argument("--remove", action="store_true", help="remove the entry")
    commands.add_parser("doctor", parents=[shared, written], help="what works here, and a command for what does not")
    completion = commands.add_parser("completion", help="print the completion script of a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    dashboard = commands.add_parser(
        "dashboard", parents=[shared], help="a read-only page of the workspace, on loopback"
    )
    dashboard.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any that is free)")
    spend = commands.add_parser("spend", parents=[shared], help="every dollar by environment, evaluation and run")
    spend.add_argument("--output", choices=("text", "json"), default="text")
    approve = commands.add_parser("approve", parents=[shared, spending], help="approve a pending question as a person")
    approve.add_argument("token")
    approve.add_argument("--yes", action="store_true", help="do not ask again")
    override = commands.add_parser("override", parents=[shared], help="waive one blocker code for the present files")
    override.add_argument("environment")
    override.add_argument("code")
    override.add_argument("--reason", required=True)
    return parser, call


def _serve_options(args: argparse.Namespace) -> list[str]:
    """Return the options of `serve` that an entry in a client's configuration has to pass on."""
    options = ["--rehearsal"] if args.rehearsal else []
    if args.state_dir:
        options += ["--state-dir", str(Path(args.state_dir).expanduser().resolve())]
    if args.approval != "ask":
        options += ["--approval", args.approval]
    if args.max_spend is not None:
        options += ["--max-spend", f"{args.max_spend:.12g}"]
    if args.notify is not None:
        options += ["--notify", args.notify]
    for option, values in (("--allow-env", args.allow_env), ("--endpoint", args.endpoint)):
        options += [word for value in values for word in (option, value)]
    return options


def _named_endpoints(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take `--endpoint NAME=URL` out of a command line. Any other `--endpoint` is an argument of the tool."""
    named, others, items = [], [], list(given)
    while items:
        item = items.pop(0)
        option, equals, value = item.partition("=")
        if option == "--endpoint" and not equals and items and _NAMES_ENDPOINT.match(items[0]):
            named.append(items.pop(0))
        elif option == "--endpoint" and _NAMES_ENDPOINT.match(value):
            named.append(value)
        else:
            others.append(item)
    return named, others


def _dollars(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < 1e6:
        raise argparse.ArgumentTypeError("give US dollars between 0 and 1,000,000")
    return amount


if __name__ == "__main__":
    raise SystemExit(main())
