"""Lists what leaves an object as it is: makers of objects that nothing changes, methods that read, functions that only
look at what they are given.

The lists serve the reading of objects that a package keeps between calls (kept_kinds.py, kept_objects.py): what stands
on none of them is named. They hold what the standard library, verifiers and the packages that honest rewards use
document as leaving their object unchanged.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque

READS = frozenset(
    {"get", "items", "keys", "values", "index", "count", "copy", "isdisjoint", "issubset", "issuperset", "union",
     "intersection", "difference", "symmetric_difference", "most_common", "elements", "total", "__contains__",
     "__getitem__", "__len__", "__eq__", "__iter__", "new_child", "maps"}
)  # fmt: skip
"""Methods that leave a container as it is. An iterator that is kept is unknown again."""
_READS_OF_TABLES = frozenset(
    {"all", "any", "argmax", "argmin", "argsort", "astype", "clip", "cumsum", "dot", "filter", "flatten", "groupby",
     "head", "iterrows", "itertuples", "map", "max", "mean", "min", "ravel", "reshape", "round", "select", "shuffle",
     "std", "sum", "tail", "to_dict", "to_list", "to_pandas", "tolist", "train_test_split", "transpose", "unique"}
)  # fmt: skip
"""Methods that leave an array, a table of columns or a data set as it is."""
PATTERN_READS = frozenset({"search", "match", "fullmatch", "sub", "subn", "findall", "split", "finditer"})
PATTERN_VALUES = frozenset({"pattern", "flags", "groups", "groupindex"})
TEXT_READS = frozenset(name for kind in (str, bytes, int, float, frozenset, tuple) for name in dir(kind))
"""Methods of values that nothing changes."""
TABLE_READS = READS | _READS_OF_TABLES
LISTING = frozenset({"split", "rsplit", "splitlines", "partition", "rpartition"})
OPENING = frozenset({"open", "iterdir", "glob", "rglob", "walk", "__iter__"})
CONTAINER_MAKERS = frozenset({"list", "dict", "set", "sorted", "bytearray", "vars", "dir"})
VALUE_MAKERS = frozenset(
    {"abs", "ascii", "bin", "bool", "bytes", "chr", "complex", "divmod", "float", "format", "frozenset", "hash", "hex",
     "id", "int", "isinstance", "issubclass", "len", "max", "min", "oct", "object", "ord", "pow", "print", "property",
     "range", "repr", "round", "slice", "str", "sum", "super", "tuple", "type", "all", "any", "callable", "hasattr",
     "staticmethod", "classmethod"}
)  # fmt: skip
STEADY_MAKERS = (
    "abc.", "ast.", "base64.", "binascii.", "dataclasses.", "datetime.", "decimal.Decimal", "enum.", "fractions.",
    "html.escape", "html.unescape", "importlib.resources.", "jinja2.", "jsonschema.", "keyword.", "lark.",
    "latex2sympy2_extended.", "logging.", "math.", "math_verify.", "nltk.", "openai.", "operator.attrgetter",
    "operator.itemgetter", "os.", "pathlib.", "pydantic.", "re.escape", "rouge_score.", "sacrebleu.", "secrets.",
    "sentence_transformers.", "spacy.", "statistics.", "string.", "struct.Struct", "sympy.", "textwrap.", "tiktoken.",
    "tokenizers.", "transformers.", "types.", "typing.", "typing_extensions.", "unicodedata.", "uuid.", "verifiers.",
    "zoneinfo.",
)  # fmt: skip
"""Beginnings of the full names of functions and classes whose results answer alike in every call."""
TABLE_MAKERS = (
    "collections.", "copy.", "csv.list_dialects", "datasets.", "itertools.batched", "json.load", "json.loads",
    "numpy.", "operator.", "orjson.", "pandas.", "random.choices", "random.sample", "re.findall", "re.split", "toml",
    "yaml.",
)  # fmt: skip
PLAIN_RESULTS = ("hashlib.", "hmac.", "numpy.random.", "random.Random", "zlib.")
"""Beginnings of the full names of what makes objects that change, whose methods return plain values."""
NO_TABLE_MAKERS = ("numpy.random", "numpy.nditer", "collections.abc", "operator.methodcaller")
PATTERN_MAKERS = frozenset({"re.compile", "regex.compile"})
WRAPPERS = frozenset({"functools.lru_cache", "functools.cache", "functools.wraps", "functools.update_wrapper"})
LOCK_MAKERS = frozenset(
    f"{module}.{name}"
    for module in ("asyncio", "threading", "asyncio.locks")
    for name in ("Lock", "RLock", "Semaphore", "BoundedSemaphore")
)
PARTIALS = frozenset({"functools.partial", "functools.partialmethod"})
NAMESPACES = frozenset({"types.SimpleNamespace", "argparse.Namespace"})
"""Classes whose objects hold the attributes that they are given, and nothing else."""
FIELDS = frozenset({"dataclasses.field", "pydantic.Field", "pydantic.PrivateAttr", "attrs.field", "attr.ib"})
"""Functions that say what a field holds at first."""
STEADY_BASES = ("abc.", "dataclasses.", "enum.", "pydantic.", "typing.", "typing_extensions.", "verifiers.")
CHANGING = (
    frozenset(name for kind in (list, dict, set, bytearray, deque, Counter, OrderedDict) for name in dir(kind))
    | {"fill", "resize", "put", "itemset", "partition", "setflags", "setfield", "byteswap", "drop", "rename"}
) - TABLE_READS - TEXT_READS  # fmt: skip
"""Methods of containers and arrays that may change them: a function of the package with such a name hides none."""
CHANGEABLE = frozenset({"list", "dict", "set", "bytearray", "deque", "defaultdict", "OrderedDict", "Counter"})
OF_FUNCTIONS = frozenset(
    {"cache_clear", "cache_info", "model_validate", "model_validate_json", "model_json_schema", "model_construct",
     "from_config", "from_data", "from_list", "from_dict", "from_row", "fromkeys", "mro", "with_config", "parse_obj",
     "create", "get", "__new__", "__init__", "__call__", "_make", "__wrapped__", "metadata", "issubclass"}
)  # fmt: skip
"""Methods of functions and classes that change neither. Others count where the package defines them."""
ON_UNKNOWN = frozenset({"isinstance", "issubclass", "bool", "str", "repr", "type", "id", "callable", "cast"})
READERS = frozenset(
    {"abs", "all", "any", "bool", "bytes", "cast", "dict", "enumerate", "filter", "float", "format", "frozenset",
     "hash", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "print", "range",
     "repr", "reversed", "round", "set", "sorted", "str", "sum", "super", "tuple", "type", "zip", "bytearray",
     "callable", "ValueError", "TypeError", "KeyError", "RuntimeError", "AssertionError", "divmod", "pow", "ascii",
     "memoryview"}
)  # fmt: skip
"""Builtin functions that leave what they are given as it is."""
READING_MODULES = (
    "asyncio.", "base64.", "bisect.bisect", "collections.", "copy.", "dataclasses.", "datasets.", "datetime.",
    "difflib.", "editdistance.", "fractions.", "functools.", "hashlib.", "heapq.merge", "heapq.nlargest",
    "heapq.nsmallest", "hmac.", "itertools.", "json.", "jsonschema.", "Levenshtein.", "logging.", "math.",
    "math_verify.", "more_itertools.", "networkx.", "nltk.", "numpy.", "orjson.", "pandas.", "pathlib.", "pprint.",
    "pydantic.", "random.", "rapidfuzz.", "re.", "rouge_score.", "sacrebleu.", "scipy.", "shlex.", "sklearn.",
    "statistics.", "string.", "sympy.", "tabulate.", "textwrap.", "thefuzz.", "types.", "typing.", "unicodedata.",
    "verifiers.", "yaml.",
)  # fmt: skip
CHANGE_GIVEN = frozenset({"at", "put", "copyto", "place", "putmask", "fill_diagonal", "shuffle", "put_along_axis"})
"""Functions of these modules that change what they are given."""
TAKING = frozenset(
    {"update", "extend", "append", "add", "insert", "setdefault", "union", "intersection", "difference", "issubset",
     "issuperset", "isdisjoint", "symmetric_difference", "intersection_update", "difference_update", "join", "format",
     "format_map", "translate", "startswith", "endswith", "get", "index", "count", "pop", "put", "send", "fromkeys",
     "choice", "choices", "sample", "parse", "verify", "validate", "iter_errors", "is_valid", "render", "substitute",
     "safe_substitute", "model_validate", "model_copy", "info", "debug", "warning", "error", "exception", "select",
     "map", "filter", "isin", "dot", "search", "match", "sub", "from_iterable", "execute", "executemany", "create",
     "complete", "chat", "apply_chat_template", "encode", "decode", "remove", "discard", "writerows", "writerow",
     "write", "add_nodes_from", "add_edges_from", "subtract", "deepcopy", "evaluate", "score", "compute", "replace",
     "get_model_response", "from_list", "from_dict", "register", "add_column", "cast_column"}
)  # fmt: skip
"""Methods that leave what they are given as it is. What they keep of that is not followed."""
SETTINGS = ("set", "register", "unregister", "push", "install", "enable", "disable", "reset", "filterwarnings")
SETTING_NAMES = frozenset(
    {"csv.field_size_limit", "decimal.getcontext", "decimal.setcontext", "calendar.setfirstweekday",
     "codecs.lookup_error", "warnings.simplefilter", "warnings.resetwarnings", "re.purge", "opcode.def_op",
     "mimetypes.add_type", "random.seed", "numpy.random.seed", "numpy.seterr", "csv.list_dialects", "csv.get_dialect"}
)  # fmt: skip
"""Functions that set, or show, what all later calls of a library find."""
WITH_SETTINGS = frozenset(
    {"abc", "ast", "calendar", "codecs", "copyreg", "csv", "decimal", "email", "functools", "mpmath", "networkx",
     "numpy", "pandas", "nltk", "sympy", "warnings", "xml", "yaml", "html", "sklearn", "torch", "scipy", "tqdm", "PIL",
     "lxml"}
)  # fmt: skip
NO_SETTINGS = frozenset({"set", "setdefault", "setdiff1d", "setxor1d", "set_index", "setattr"})
