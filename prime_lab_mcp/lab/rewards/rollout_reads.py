"""Finds reads of a rollout that tell how it was sampled: tokens, models, times, and whole rollouts written out.

Training samples with other clients, models and tokens than a test, so that such a read can tell the two apart. Replies,
tool calls and what a task stored in its state are no such reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

_TOKENS = frozenset(
    {"token_ids", "prompt_ids", "completion_ids", "logprobs", "completion_logprobs", "prompt_mask", "completion_mask"}
)
_SAMPLED = frozenset({"model", "client", "sampling_args", "sampling", "timing", "usage", "trajectory_id"})
_COUNTED = frozenset({"num_total_tokens", "num_input_tokens", "num_output_tokens", "version"})
_DUMPS = frozenset({"model_dump", "model_dump_json", "dict", "json", "copy", "__dict__", "model_fields_set"})
_WRITES = frozenset({"repr", "str", "vars", "dict", "iter", "list", "hash"})
_WRITES_PARTS = frozenset({"repr", "str", "vars", "hash", "format", "dumps", "pformat", "asdict"})
_PARTS = frozenset({"nodes", "calls", "agent", "branches"})
"""Fields of a rollout whose text holds how it was sampled."""
_OF_REPLY = frozenset({"finish_reason", "node"})
"""Fields of a call of the model that tell of the reply only."""


class RolloutNames:
    """The names of one file that hold a whole rollout: `trace`, its aliases, and parameters of that type."""

    def __init__(self, nodes: Iterable[ast.AST], bindings: Iterable[tuple[str, ast.expr]]) -> None:
        self._names = {"trace"}
        self._harmless: set[int] = set()
        self._parameters: set[int] = set()
        pairs, nodes = list(bindings), list(nodes)
        for node in nodes:
            if isinstance(node, ast.arg) and node.annotation is not None:
                if ast.unparse(node.annotation).strip("'\"").split("[")[0].rpartition(".")[2] == "Trace":
                    self._names.add(node.arg)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
                self._harmless |= {id(argument) for argument in node.args}
            elif isinstance(node, ast.Attribute):
                self._harmless |= self._read_of_reply(node)
        for _ in range(3):  # an alias of an alias of an alias
            self._names |= {target for target, value in pairs if self.is_rollout(value)}
            self._parameters |= self._handed_on(nodes)

    def is_rollout(self, node: ast.AST) -> bool:
        """Whether an expression is a whole rollout."""
        return isinstance(node, ast.Name) and (node.id in self._names or id(node) in self._parameters)

    def _handed_on(self, nodes: list[ast.AST]) -> set[int]:
        """The reads of parameters, inside functions of the file that are called with a whole rollout."""
        functions = {n.name: n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        reads: set[int] = set()
        for call in nodes:
            called = _called(call)
            if not isinstance(call, ast.Call) or called not in functions:
                continue
            function = functions[called]
            parameters = [
                a.arg for a in (*function.args.posonlyargs, *function.args.args) if a.arg not in ("self", "cls")
            ]
            given = [*zip(parameters, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
            names = {name for name, value in given if self.is_rollout(value)}
            reads |= {id(n) for n in ast.walk(function) if isinstance(n, ast.Name) and n.id in names}
        return reads

    def sampling(self, node: ast.AST) -> str:
        """Return the field with which an expression reads how a rollout was sampled; empty for other expressions."""
        if isinstance(node, ast.Attribute):
            if node.attr in _TOKENS:
                return node.attr
            if self.is_rollout(node.value) or (isinstance(node.value, ast.Name) and node.value.id == "state"):
                own = node.attr in _SAMPLED | _COUNTED
                told = node.attr in ("agent", "calls") and self.is_rollout(node.value)
                return node.attr if own or (told and id(node) not in self._harmless) else ""
            return ""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            own = isinstance(node.value, ast.Name) and node.value.id == "state"
            key = str(node.slice.value)
            return key if key in _TOKENS or (own and key in _SAMPLED) else ""
        return ""

    def written_out(self, node: ast.AST) -> str:
        """Return what writes out a whole rollout, or the parts that tell how it was sampled; empty for other
        expressions."""
        if isinstance(node, ast.FormattedValue):
            return "an f-string" if self._holds_sampling(node.value) else ""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return "%" if any(map(self._holds_sampling, values)) else ""
        if not isinstance(node, ast.Call):
            return ""
        called = _called(node)
        if isinstance(node.func, ast.Attribute):
            whole = called in _DUMPS and self.is_rollout(node.func.value)
            if whole or (called.startswith("model_dump") and self._holds_sampling(node.func.value)):
                return called
        if isinstance(node.func, ast.Name) and called in _WRITES and any(map(self.is_rollout, node.args[:1])):
            return called
        return called if called in _WRITES_PARTS and any(map(self._holds_sampling, node.args)) else ""

    def _holds_sampling(self, node: ast.AST) -> bool:
        """Whether an expression is a whole rollout, or its nodes, calls, branches or agent, or one of these."""
        inner = node.value if isinstance(node, ast.Subscript) else node
        part = isinstance(inner, ast.Attribute) and inner.attr in _PARTS and self.is_rollout(inner.value)
        return part or self.is_rollout(node)

    @staticmethod
    def _read_of_reply(node: ast.Attribute) -> set[int]:
        """The node of `trace.calls` in `trace.calls[0].finish_reason`, and of `trace.agent` in `trace.agent.name`."""
        if node.attr in _OF_REPLY and isinstance(node.value, ast.Subscript):
            return {id(node.value.value)}
        return {id(node.value)} if node.attr == "name" else set()


def _called(node: ast.AST) -> str:
    """Return the last name of the function that an expression calls; empty for other expressions."""
    func = node.func if isinstance(node, ast.Call) else None
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
