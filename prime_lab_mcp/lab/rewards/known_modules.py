"""Lists the modules that read nothing besides their arguments, so that an import of any other module is named.

A list of modules that reach files, the network, clocks or the machine could never be complete: the standard library and
the packages that come with verifiers 0.4.0 have hundreds. Modules that reach some of these with a few names are on this
list too, and outside_names.py names those. A module that is on neither list is named as not known, at
its import: names such as `code` are variables of honest rewards too.
"""

from __future__ import annotations

_STANDARD = """
__future__ abc argparse array ast asyncio base64 binascii bisect builtins calendar cmath codecs collections colorsys
concurrent configparser contextlib copy csv dataclasses datetime decimal difflib dis doctest email encodings enum errno
fnmatch fractions functools getopt gettext graphlib hashlib heapq hmac html http.HTTPStatus http.cookies importlib
inspect io ipaddress itertools json keyword math mimetypes numbers opcode operator pathlib pickle pickletools
plistlib pprint queue quopri random re reprlib secrets shlex sre_compile sre_constants sre_parse stat statistics string
stringprep struct symtable tempfile textwrap this token tomllib types typing unicodedata unittest urllib.error
urllib.parse warnings weakref xml zlib
"""
_PACKAGES = """
Levenshtein PIL Stemmer annotated_types antlr4 attr attrs bs4 cachetools chess click dateutil editdistance emoji faker
flashtext ftfy fuzzywuzzy html2text inflect inflection jaro jellyfish jinja2 json5 json_repair jsonpath_ng jsonschema
latex2sympy2 latex2sympy2_extended lark lxml markdown markdown_it markupsafe math_verify more_itertools mpmath
networkx num2words numpy orjson packaging pandas parse pydantic pydantic_core pylatexenc pyparsing quantulum3
rapidfuzz referencing regex rich rouge rouge_score roman sacrebleu scipy shapely six sklearn sortedcontainers sqlglot
sqlparse strsimpy sympy tabulate tenacity textdistance textstat thefuzz tokenizers toml tomli tomlkit toolz torch tqdm
typing_extensions typing_inspection unidecode verifiers word2number wordfreq xmltodict xxhash yaml zss
datasets transformers tiktoken nltk spacy sentence_transformers
"""
"""Packages that honest rewards use. Those of the last line read what they were told to load, and their caches."""
_KNOWN = frozenset(f"{_STANDARD} {_PACKAGES}".split())


def is_known(module: str) -> bool:
    """Whether a module, or a package above it, is on the list."""
    parts = module.split(".")
    return any(".".join(parts[:n]) in _KNOWN for n in range(1, len(parts) + 1))
