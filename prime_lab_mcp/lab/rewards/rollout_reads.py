"""Finds reads of a rollout that can differ between a test and training.

Training samples with other clients, models and tokens than a test. So this module lists what may be read of a rollout:
messages, the fields that verifiers documents for rewards, and what the environment stored itself.
tests/lab/worker/test_seen_rollouts.py compares these in our scoring with a rollout of verifiers. Every other read is
named, and so is a rollout that goes where the module cannot follow it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from prime_lab_mcp.lab.base.syntax import called_name, defaults_of

_TRACE = {
    "task": "", "state": "own", "info": "", "rewards": "", "metrics": "", "reward": "", "messages": "messages",
    "last_message": "message", "assistant_messages": "messages", "tool_messages": "messages", "last_reply": "",
    "transcript": "", "num_turns": "", "num_branches": "", "stop_condition": "", "is_truncated": "", "is_timeout": "",
    "is_completed": "", "errors": "", "last_error": "", "nodes": "nodes", "branches": "branches", "calls": "calls",
    "agent": "agent",
    # Random, so that a reward that depends on it is unstable.
    "id": "",
    # These write.
    "record_reward": "", "record_metric": "", "record_metrics": "", "record_judge_call": "", "stop": "", "notify": "",
}  # fmt: skip
_MAY_BE_READ: Mapping[str, Mapping[str, str]] = {
    "trace": _TRACE,
    "node": {"message": "message", "sampled": "", "parent": ""},
    "branch": {"messages": "messages", "nodes": "nodes", "calls": "calls", "index": ""},
    # Both tell of the reply only.
    "call": {"finish_reason": "", "node": ""},
    # The agent's place in the environment, which the environment chose.
    "agent": {"name": ""},
    "message": {
        "role": "", "content": "", "tool_calls": "", "reasoning_content": "", "name": "", "tool_call_id": "",
        "model_dump": "", "model_dump_json": "", "model_copy": "",
    },
}  # fmt: skip
"""For each part of a rollout, the attributes that may be read, and which part each of them is ("": none)."""
_ITEMS: Mapping[str, str] = {
    "traces": "trace", "nodes": "node", "branches": "branch", "calls": "call", "messages": "message", "steps": "step",
}  # fmt: skip
"""Lists of parts, and what they hold."""
_LISTED = {item: whole for whole, item in _ITEMS.items()}
_FOLLOWED = frozenset({"trace", "traces", "node", "nodes", "branch", "branches", "call", "calls", "agent", "step"})
"""Parts that hold more than may be read, so that they may not go where nothing is known of their use."""
_STATE = frozenset(
    {"client", "model", "sampling_args", "trajectory_id", "timing", "usage", "usage_tracker", "token_usage",
     "responses", "prompt_too_long", "timed_out", "advantage", "oai_tools"}
)  # fmt: skip
"""Keys of the state of a v0 rollout that verifiers writes and that tell how it was sampled."""
_OF_STATE = _STATE - {"prompt_too_long", "timed_out", "responses", "advantage"}
"""Those of them that are no likely names of a field that an environment adds to the state of v1."""
_STEP = frozenset({"response", "tokens", "trajectory_id", "advantage"})
"""Keys of a step of a v0 trajectory that tell how it was sampled."""
_DISTINCT = frozenset(
    {"token_ids", "prompt_ids", "completion_ids", "logprobs", "completion_logprobs", "prompt_mask", "completion_mask",
     "is_content", "sampled_mask", "renderer_token_ids", "logical_ids", "routed_experts", "sampling_mask",
     "reference_logprobs", "trainer_logprobs", "entropies", "loss_weights", "mm_token_type_ids",
     "mm_token_type_id_map", "num_total_tokens", "num_input_tokens", "num_output_tokens", "to_record", "extra_usage",
     "model_fields_set", "__pydantic_fields_set__"}
)  # fmt: skip
"""Names that count on an object of any type, because only parts of a rollout have them."""
_CLASSES = {
    "Trace": "trace", "WireTrace": "trace", "MessageNode": "node", "Branch": "branch", "ModelCall": "call",
    "AgentInfo": "agent",
}  # fmt: skip
_TRACE_TYPE = re.compile(r"\b(?:Wire)?Trace\b")
_LIST_TYPE = re.compile(r"\b(?:list|List|Sequence|Iterable|Iterator|tuple|set)\[")
_OF_STATES = frozenset({"", "State", "dict", "Any", "Mapping", "MutableMapping"})
"""Types of a parameter `state` that holds the state of a v0 rollout; "": none is stated."""
_UNSET = frozenset({"exclude_unset"})
"""An option of `model_dump` with which a message shows which fields its client set."""
_WRITES = frozenset({"repr", "str", "vars", "dict", "iter", "list", "hash", "tuple", "set", "sorted", "dir"})
_WRITES_PARTS = frozenset({"repr", "str", "vars", "hash", "format", "dumps", "pformat", "asdict", "dir"})
_LISTS = frozenset({"list", "tuple", "reversed", "iter", "sorted"})
"""Functions whose result holds the same parts."""
_PASSES = frozenset({"isinstance", "type", "id", "bool", "print", "len", "any", "all", "cast"})
_OF_VERIFIERS = frozenset({"setup", "finalize", "score", "evaluate", "stage_verifier", "complete", "invoke"})
"""Methods and functions of verifiers that take a rollout."""
_READERS = frozenset({"getattr", "hasattr"})
_OF_DICT = frozenset({"get", "pop", "setdefault", "__getitem__"})
_WHOLE_DICT = frozenset({"items", "values", "keys", "copy"})

Parts = frozenset[str]
_NONE: Parts = frozenset()
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class RolloutNames:
    """The expressions of one file that are rollouts or parts of them, and the reads of these.

    `functions` are those of the whole package by name: a rollout that goes into one of them is followed there.
    """

    def __init__(self, tree: ast.AST | None, functions: Mapping[str, list[_Function]] | None = None) -> None:
        self._functions = functions or {}
        self._parents: dict[int, ast.AST] = {}
        self._names: dict[tuple[int, str], Parts] = {}
        self._attributes: dict[str, Parts] = {}
        self.given: dict[int, dict[str, Parts]] = {}
        """The parts that go into functions of the package, by the function's id and the parameter's name."""
        self._nodes = list(ast.walk(tree)) if tree is not None else []
        for node in self._nodes:
            for child in ast.iter_child_nodes(node):
                self._parents[id(child)] = node
        self._parameters()
        self.follow({})

    def _parameters(self) -> None:
        for node in self._nodes:
            if not isinstance(node, ast.arg):
                continue
            stated = ast.unparse(node.annotation).strip("'\"") if node.annotation is not None else ""
            kind = stated.split("[")[0].rpartition(".")[2]
            part = _CLASSES.get(kind, "")
            if not part and _TRACE_TYPE.search(stated):
                part = "traces" if _LIST_TYPE.search(stated) else "trace"
            if not part and (kind == "State" or (node.arg == "state" and kind in _OF_STATES)):
                part = "state"
            if part:
                self._bind(node, node.arg, frozenset({part}))

    def follow(self, given: Mapping[int, Mapping[str, Parts]]) -> None:
        """Learn which names hold parts of a rollout. `given` is what other files hand to the functions of this one."""
        for node in self._nodes:
            for name, parts in given.get(id(node), {}).items():
                self._add(id(node), name, parts)
        for _ in range(4):  # an alias of an alias of an alias, and functions that hand on
            for node in self._nodes:
                self._learn(node)

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._iterate(node.target, node.iter)
        elif isinstance(node, ast.arguments):
            for arg, default in defaults_of(node):
                self._bind(arg, arg.arg, self.parts(default))
        elif isinstance(node, ast.Match):
            for case in node.cases:
                for pattern in ast.walk(case.pattern):
                    if isinstance(pattern, ast.MatchAs) and pattern.name is not None:
                        self._bind(node, pattern.name, self.parts(node.subject) & _FOLLOWED)
        elif isinstance(node, ast.Call):
            self._hand_on(node)

    def _hand_on(self, call: ast.Call) -> None:
        for function, pairs in self._landings(call):
            for name, value in pairs:
                if parts := self.parts(value) & (_FOLLOWED | {"state", "steps", "message", "messages"}):
                    known = self.given.setdefault(id(function), {})
                    known[name] = known.get(name, _NONE) | parts
                    self._add(id(function), name, parts)

    def _landings(self, call: ast.Call) -> Iterator[tuple[_Function, list[tuple[str, ast.expr]]]]:
        """Yield the functions of the package that a call may run, each with its parameters and what they get."""
        for function in self._functions.get(called_name(call), []):
            names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
            method = names[:1] in (["self"], ["cls"])
            if method != isinstance(call.func, ast.Attribute) and (method or _is_self(call.func)):
                continue  # another function of this name
            known = {*names, *(a.arg for a in function.args.kwonlyargs)}
            given = [(k.arg, k.value) for k in call.keywords if k.arg in known]
            yield function, [*zip(names[method:], call.args, strict=False), *((n or "", v) for n, v in given)]

    def _assign(self, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            for inner, part in zip(target.elts, value.elts, strict=False):
                self._assign(inner, part)
        elif isinstance(target, ast.Tuple | ast.List):
            self._iterate(target, value)
        elif isinstance(target, ast.Name):
            self._bind(target, target.id, self.parts(value))
        elif isinstance(target, ast.Attribute) and (parts := self.parts(value) & (_FOLLOWED | {"state"})):
            self._attributes[target.attr] = self._attributes.get(target.attr, _NONE) | parts

    def _iterate(self, target: ast.AST, iterable: ast.AST) -> None:
        paired = isinstance(iterable, ast.Call) and called_name(iterable) in ("enumerate", "zip")
        if paired and isinstance(iterable, ast.Call) and isinstance(target, ast.Tuple):
            sources = iterable.args if called_name(iterable) == "zip" else [ast.Constant(0), *iterable.args]
            for element, source in zip(target.elts, sources, strict=False):
                self._iterate(element, source)
            return
        held = frozenset(_ITEMS[p] for p in self.parts(iterable) if p in _ITEMS)
        names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for name in names:
            inner: ast.AST = name.value if isinstance(name, ast.Starred) else name
            if isinstance(inner, ast.Name):
                self._bind(inner, inner.id, held)

    def _scope(self, node: ast.AST) -> Iterator[int]:
        """Yield the ids of the functions around a node, the innermost first, and 0 for the module."""
        at: ast.AST | None = self._parents.get(id(node))
        while at is not None:
            if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                yield id(at)
            at = self._parents.get(id(at))
        yield 0

    def _bind(self, node: ast.AST, name: str, parts: Parts) -> None:
        if parts:
            self._add(next(self._scope(node)), name, parts)

    def _add(self, scope: int, name: str, parts: Parts) -> None:
        self._names[scope, name] = self._names.get((scope, name), _NONE) | parts

    def is_rollout(self, node: ast.AST) -> bool:
        """Whether an expression is a whole rollout."""
        return bool(self.parts(node) & {"trace", "state"})

    def parts(self, node: ast.AST, depth: int = 0) -> Parts:
        """Return the parts of a rollout that an expression may be."""
        if depth > 12:
            return _NONE
        if isinstance(node, ast.Name):
            if node.id in ("trace", "traces"):
                return frozenset({node.id})
            return next((p for s in self._scope(node) if (p := self._names.get((s, node.id)))), _NONE)
        if isinstance(node, ast.Attribute):
            own = {self._field(part, node.attr) for part in self.parts(node.value, depth + 1)}
            more = {"traces"} if node.attr == "traces" else set()
            return frozenset({*own, *more} - {""}) | self._attributes.get(node.attr, _NONE)
        if isinstance(node, ast.Subscript):
            return self._item(node, self.parts(node.value, depth + 1))
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Starred):
            return self.parts(node.value, depth + 1)
        if isinstance(node, ast.IfExp):
            return self.parts(node.body, depth + 1) | self.parts(node.orelse, depth + 1)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            return frozenset(_LISTED[part] for part in self.parts(node.elt, depth + 1) if part in _LISTED)
        if isinstance(node, ast.BinOp):
            return (self.parts(node.left, depth + 1) | self.parts(node.right, depth + 1)) & frozenset(_ITEMS)
        if isinstance(node, ast.BoolOp):
            return frozenset().union(*(self.parts(v, depth + 1) for v in node.values))
        if isinstance(node, ast.Call):
            return self._returned(node, depth)
        return _NONE

    @staticmethod
    def _field(part: str, name: str) -> str:
        return _MAY_BE_READ.get(part, {}).get(name, "")

    @staticmethod
    def _item(node: ast.Subscript, whole: Parts) -> Parts:
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if key in ("trace", "traces"):
            return frozenset({str(key)})
        if "state" in whole and key in ("trajectory", "completion", "prompt"):
            return frozenset({"steps" if key == "trajectory" else "messages"})
        if "step" in whole and key in ("completion", "prompt"):
            return frozenset({"messages"})
        if isinstance(node.slice, ast.Slice):
            return whole & frozenset(_ITEMS)
        return frozenset(_ITEMS[part] for part in whole if part in _ITEMS)

    def _returned(self, call: ast.Call, depth: int) -> Parts:
        called = called_name(call)
        first = self.parts(call.args[0], depth + 1) if call.args else _NONE
        if called in _READERS and len(call.args) > 1 and isinstance(call.args[1], ast.Constant):
            return frozenset({self._field(part, str(call.args[1].value)) for part in first} - {""})
        if called in _LISTS and isinstance(call.func, ast.Name):
            return first & frozenset(_ITEMS)
        if called in ("next", "min", "max"):
            return frozenset(_ITEMS[part] for part in first if part in _ITEMS)
        if called in _OF_DICT and isinstance(call.func, ast.Attribute) and call.args:
            key = ast.Subscript(call.func.value, call.args[0], ast.Load())
            return self._item(key, self.parts(call.func.value, depth + 1))
        if called == "pop" and isinstance(call.func, ast.Attribute):
            return frozenset(_ITEMS[p] for p in self.parts(call.func.value, depth + 1) if p in _ITEMS)
        if called in ("model_copy", "copy", "deepcopy") and isinstance(call.func, ast.Attribute):
            return self.parts(call.func.value, depth + 1) | first
        return first if called in ("cast", "deepcopy", "copy") else _NONE

    def sampling(self, node: ast.AST) -> str:
        """Return what an expression reads of a rollout besides what may be read; empty for other expressions."""
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            whole = self.parts(node.value)
            if isinstance(node.value, ast.Name) and node.value.id == "state" and "own" not in whole:
                whole |= {"state"}
            return self._key(whole, key) if isinstance(key, str) else ""
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant) and len(node.comparators) == 1:
            looked = isinstance(node.ops[0], ast.In | ast.NotIn)
            return self._key(self.parts(node.comparators[0]), str(node.left.value)) if looked else ""
        if isinstance(node, ast.MatchClass):
            return self._pattern(node)
        return self._by_name(node) if isinstance(node, ast.Call) else ""

    def _attribute(self, node: ast.Attribute) -> str:
        name = node.attr
        if name in _DISTINCT:
            return name
        if isinstance(node.ctx, ast.Load) and (read := self._unlisted(self.parts(node.value), name)):
            return read
        stated = isinstance(node.value, ast.Name) and node.value.id == "state"
        stated = stated and "own" not in self.parts(node.value)
        return name if stated and name in _OF_STATE and isinstance(node.ctx, ast.Load) else ""

    @staticmethod
    def _unlisted(parts: Parts, name: str) -> str:
        """Return the name if one of the parts has it and it is not on the list; empty for others."""
        judged = parts & frozenset(_MAY_BE_READ)
        return name if any(name not in _MAY_BE_READ[part] for part in judged) else ""

    @staticmethod
    def _key(parts: Parts, key: str) -> str:
        of_state = "state" in parts and key in _STATE
        return key if key in _DISTINCT or of_state or ("step" in parts and key in _STEP) else ""

    def _by_name(self, node: ast.Call) -> str:
        """The read of a call that names what it reads by a text."""
        called = called_name(node)
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if called in ("getattr", "hasattr", "attrgetter", "methodcaller", "__getattribute__", "getattr_static"):
            owner = node.func.value if called == "__getattribute__" and isinstance(node.func, ast.Attribute) else None
            looked = owner if owner is not None else node.args[0] if node.args else None
            parts = self.parts(looked) if looked is not None else _NONE
            if called in ("getattr", "hasattr") and parts & _FOLLOWED and not texts:
                return called
            for text in (name for whole in texts for name in whole.split(".")):
                if text in _DISTINCT or (read := self._unlisted(parts, text)):
                    return text if text in _DISTINCT else read
        if called in _OF_DICT and isinstance(node.func, ast.Attribute) and texts:
            return self._key(self.parts(node.func.value), texts[0])
        if called.startswith("model_dump") and isinstance(node.func, ast.Attribute):
            unset = any(k.arg is None or k.arg in _UNSET for k in node.keywords)
            return "exclude_unset" if unset and "message" in self.parts(node.func.value) else ""
        return ""

    def _pattern(self, node: ast.MatchClass) -> str:
        """The read of a pattern `case Trace(ok=True)`, of any class that the pattern names."""
        kind = node.cls.attr if isinstance(node.cls, ast.Attribute) else getattr(node.cls, "id", "")
        parts = {_CLASSES[kind]} if kind in _CLASSES else set()
        at: ast.AST | None = self._parents.get(id(node))
        while at is not None and not isinstance(at, ast.Match):
            at = self._parents.get(id(at))
        subject = self.parts(at.subject) if isinstance(at, ast.Match) else _NONE
        judged = frozenset(parts) | (subject & _FOLLOWED)
        return next((n for n in node.kwd_attrs if n in _DISTINCT or self._unlisted(judged, n)), "")

    def written_out(self, node: ast.AST) -> str:
        """Return what writes out a rollout, or hands it on to where it is not followed; empty for others."""
        if isinstance(node, ast.FormattedValue):
            return "an f-string" if self._holds_sampling(node.value) else ""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return "%" if any(map(self._holds_sampling, values)) else ""
        if isinstance(node, ast.Call) and (written := self._called_with(node)):
            return written
        if isinstance(node, ast.Dict):
            whole = any(k is None and self.is_rollout(v) for k, v in zip(node.keys, node.values, strict=True))
            return "**" if whole else ""
        stored = isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        return "" if stored or not isinstance(node, ast.expr) else self._elsewhere(node)

    def _called_with(self, node: ast.Call) -> str:
        called = called_name(node)
        if isinstance(node.func, ast.Attribute):
            owner = self.parts(node.func.value)
            if called.startswith(("model_dump", "__reduce", "__getstate")) and owner & _FOLLOWED:
                return called
            if called in _WHOLE_DICT and owner & {"state", "step"}:
                return called
        whole = self.parts(node.args[0]) & (_FOLLOWED | {"state"}) - frozenset(_ITEMS) if node.args else _NONE
        if isinstance(node.func, ast.Name) and called in _WRITES and whole:
            return called
        given = [*node.args, *(k.value for k in node.keywords)]
        return called if called in _WRITES_PARTS and any(map(self._holds_sampling, given)) else ""

    def _holds_sampling(self, node: ast.AST) -> bool:
        return bool(self.parts(node) & (_FOLLOWED | {"state", "steps"}))

    def _elsewhere(self, node: ast.expr) -> str:
        """Return where a part of a rollout goes that is not followed there; empty where it is read or followed."""
        if not self.parts(node) & _FOLLOWED:
            return ""
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.keyword):
            parent = self._parents.get(id(parent))
        if isinstance(parent, ast.Call):
            called = called_name(parent)
            builtin = called in _PASSES | _LISTS | {"enumerate", "zip", "next", "min", "max"}
            keyed = any(k.arg in ("key", "default", None) for k in parent.keywords)
            known = (builtin and not keyed) or called in _READERS | _OF_VERIFIERS | _WRITES_PARTS
            lands = any(value is node for _, pairs in self._landings(parent) for _, value in pairs)
            return "" if known or node is parent.func or lands else called or "a call"
        if isinstance(parent, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.Return | ast.Yield | ast.Lambda):
            match = isinstance(parent, ast.Tuple) and self._is_unpacked(parent)
            return "" if match else type(parent).__name__.lower()
        if isinstance(parent, ast.DictComp):
            return "dict"
        if isinstance(parent, ast.For | ast.AsyncFor | ast.comprehension) and "trace" in self.parts(node):
            return "iter"
        return ""

    def _is_unpacked(self, node: ast.Tuple) -> bool:
        """Whether a tuple is only assigned to as many names."""
        parent = self._parents.get(id(node))
        return isinstance(parent, ast.Assign) and all(isinstance(t, ast.Tuple) for t in parent.targets)


def _is_self(func: ast.AST) -> bool:
    """Whether an expression is a method of the present object or class."""
    owner = func.value if isinstance(func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def follow_rollouts(files: Iterable[RolloutNames]) -> None:
    """Follow rollouts from each file of a package into the functions of the others."""
    every = list(files)
    for _ in range(3):
        given: dict[int, dict[str, Parts]] = {}
        for names in every:
            for function, parameters in names.given.items():
                known = given.setdefault(function, {})
                for name, parts in parameters.items():
                    known[name] = known.get(name, _NONE) | parts
        for names in every:
            names.follow(given)
