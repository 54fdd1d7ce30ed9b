"""Lists what environment code may use: modules that read nothing besides their arguments, and names of other modules.

A list of modules and names that reach files, the network, clocks or the machine could never be complete: the standard
library and the packages that come with verifiers 0.4.0 have hundreds, and a package of arrays has a clock
(`numpy.datetime64("now")`). So the lists hold what is harmless, and everything else is named: a module that is on no
list at its import, a name that is not listed for its module where it is used. outside_kinds.py says what the named
ones read.
"""

from __future__ import annotations

_STANDARD = """
__future__ abc argparse array ast base64 binascii bisect builtins calendar cmath codecs collections colorsys
configparser contextlib copy csv dataclasses decimal difflib email encodings enum errno fnmatch fractions
getopt graphlib hashlib heapq hmac html http.HTTPStatus inspect io ipaddress itertools json keyword math
numbers opcode operator pathlib pickle pickletools plistlib pprint queue quopri re reprlib secrets shlex
sre_compile sre_constants sre_parse stat statistics stringprep struct symtable tempfile textwrap this token tomllib
unicodedata urllib.error urllib.parse warnings weakref xml.dom.minidom xml.etree.ElementTree
xml.parsers.expat xml.sax.saxutils zlib
"""
_PACKAGES = """
annotated_types antlr4 attr attrs bs4 chess editdistance emoji flashtext ftfy fuzzywuzzy html2text inflect inflection
jaro jellyfish json5 json_repair jsonpath_ng jsonschema lark latex2sympy2 latex2sympy2_extended Levenshtein lxml
markdown markdown_it markupsafe math_verify more_itertools mpmath networkx nltk num2words orjson packaging parse PIL
pylatexenc pyparsing quantulum3 rapidfuzz referencing regex rich roman rouge rouge_score sacrebleu scipy
sentence_transformers shapely six sklearn sortedcontainers spacy sqlglot sqlparse Stemmer strsimpy tabulate tenacity
textdistance textstat thefuzz tiktoken tokenizers toml tomli tomlkit toolz torch tqdm typing_inspection
unidecode verifiers word2number wordfreq xmltodict xxhash yaml zss
"""
"""Packages that honest rewards use, of which the names at the top are harmless. Some of them read what they were told
to load, and their caches. Their modules are named unless they are listed below: a package whose top is harmless holds
modules that read variables, files and clocks (`tqdm.utils`, `packaging.markers`, `verifiers.v1.utils`)."""
_PARTS = """
attr.validators attrs.validators bs4.element chess.pgn chess.svg chess.variant fuzzywuzzy.fuzz fuzzywuzzy.process
jsonpath_ng.ext jsonschema.exceptions jsonschema.validators lark.exceptions lark.lexer lark.tree lark.visitors
lxml.builder lxml.etree lxml.html markdown_it.token math_verify.errors math_verify.grader math_verify.metric
math_verify.parser mpmath.libmp networkx.algorithms networkx.exception networkx.generators nltk.metrics nltk.stem
nltk.tokenize nltk.translate nltk.tree nltk.util packaging.specifiers packaging.version PIL.Image PIL.ImageChops
PIL.ImageColor PIL.ImageDraw PIL.ImageEnhance PIL.ImageFilter PIL.ImageOps PIL.ImageStat pylatexenc.latex2text
pylatexenc.latexencode pylatexenc.latexwalker pylatexenc.macrospec quantulum3.parser rapidfuzz.distance
rapidfuzz.fuzz rapidfuzz.process rapidfuzz.string_metric rapidfuzz.utils rich.box rich.markup rich.panel rich.table
rich.text rouge_score.rouge_scorer rouge_score.scoring sacrebleu.metrics scipy.cluster scipy.constants scipy.fft
scipy.integrate scipy.interpolate scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse
scipy.spatial scipy.special scipy.stats sentence_transformers.util shapely.affinity shapely.geometry shapely.ops
shapely.validation shapely.wkt sklearn.cluster sklearn.decomposition sklearn.ensemble sklearn.feature_extraction
sklearn.linear_model sklearn.metrics sklearn.model_selection sklearn.naive_bayes sklearn.neighbors
sklearn.pipeline sklearn.preprocessing sklearn.svm sklearn.tree spacy.matcher spacy.tokens sqlglot.diff
sqlglot.dialects sqlglot.errors sqlglot.executor sqlglot.expressions sqlglot.optimizer sqlglot.tokens
sqlparse.sql sqlparse.tokens tenacity.retry tenacity.stop tenacity.wait thefuzz.fuzz thefuzz.process
tokenizers.models tomlkit.exceptions tomlkit.items toolz.curried torch.nn torch.optim tqdm.asyncio tqdm.auto
tqdm.notebook tqdm.std tqdm.tqdm verifiers.decorators verifiers.envs.env_group verifiers.envs.environment
verifiers.envs.multiturn_env verifiers.envs.python_env verifiers.envs.sandbox_env verifiers.envs.singleturn_env
verifiers.envs.stateful_tool_env verifiers.envs.tool_env verifiers.errors verifiers.parsers verifiers.rubrics
verifiers.types verifiers.utils.data_utils verifiers.utils.message_utils verifiers.utils.response_utils
verifiers.utils.tool_utils verifiers.v1 verifiers.v1.env verifiers.v1.envs verifiers.v1.episode
verifiers.v1.errors verifiers.v1.configs.env verifiers.v1.configs.judge verifiers.v1.configs.task
verifiers.v1.configs.taskset verifiers.v1.graph verifiers.v1.judge verifiers.v1.judges verifiers.v1.semantic
verifiers.v1.state verifiers.v1.task verifiers.v1.taskset verifiers.v1.trace verifiers.v1.types word2number.w2n
zss.compare zss.simple_tree
"""
"""Modules of these packages that read nothing besides their arguments, with all that they hold."""
_TOPS = frozenset({*_PACKAGES.split(), "verifiers.v1"})
HARMLESS_MODULES = frozenset(f"{_STANDARD} {_PACKAGES} {_PARTS}".split())
"""Modules that read nothing besides their arguments, apart from names in outside_kinds.py."""


def may_be_part(module: str, name: str) -> bool:
    """Whether `name` of a harmless package may be a module of it, of which nothing is known. Classes have capitals, and
    so have the modules of Pillow."""
    written_small = not name[:1].isupper() or module == "PIL"
    return module in _TOPS and written_small and f"{module}.{name}" not in HARMLESS_MODULES


_PARTLY_KNOWN = {
    "asyncio": (
        "ALL_COMPLETED AbstractEventLoop Barrier BoundedSemaphore CancelledError Condition Event FIRST_COMPLETED "
        "FIRST_EXCEPTION Future IncompleteReadError InvalidStateError LifoQueue Lock PriorityQueue Queue "
        "QueueEmpty QueueFull Runner Semaphore StreamReader StreamWriter Task TaskGroup Timeout TimeoutError "
        "as_completed create_task ensure_future exceptions gather iscoroutine iscoroutinefunction isfuture run "
        "run_coroutine_threadsafe set_event_loop shield sleep subprocess timeout to_thread wait wait_for "
        "wrap_future"
    ),
    "asyncio.subprocess": "DEVNULL PIPE Process STDOUT",
    "concurrent.futures": (
        "ALL_COMPLETED BrokenExecutor CancelledError Executor FIRST_COMPLETED FIRST_EXCEPTION Future "
        "InvalidStateError ThreadPoolExecutor TimeoutError as_completed thread wait"
    ),
    "dateutil": "easter parser relativedelta rrule",
    "dateutil.parser": "ParserError isoparse isoparser",
    "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone tzinfo",
    "datetime.date": (
        "day fromisocalendar fromisoformat fromordinal isocalendar isoformat isoweekday max min month replace "
        "resolution strftime timetuple toordinal weekday year"
    ),
    "datetime.datetime": (
        "combine date day fold fromisocalendar fromisoformat fromordinal hour isocalendar isoformat isoweekday "
        "max microsecond min minute month replace resolution second strftime strptime time toordinal tzinfo "
        "utcoffset weekday year"
    ),
    "datasets": (
        "Array2D Array3D Audio ClassLabel Dataset DatasetDict Features Image IterableDataset IterableDatasetDict "
        "NamedSplit Sequence Split Value concatenate_datasets disable_caching disable_progress_bar "
        "disable_progress_bars exceptions features get_dataset_config_names get_dataset_split_names "
        "interleave_datasets load_dataset logging utils"
    ),
    "functools": (
        "WRAPPER_ASSIGNMENTS WRAPPER_UPDATES cache cached_property cmp_to_key lru_cache partial partialmethod "
        "reduce singledispatch singledispatchmethod total_ordering update_wrapper wraps"
    ),
    "importlib": "abc import_module invalidate_caches machinery metadata reload resources util",
    "jinja2": (
        "ChainableUndefined StrictUndefined TemplateError TemplateSyntaxError Undefined UndefinedError exceptions"
    ),
    "numpy": (
        "False_ Inf NaN ScalarType True_ abs absolute acos acosh add all allclose alltrue amax amin angle any "
        "append apply_along_axis apply_over_axes arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
        "argmax argmin argpartition argsort argwhere around array array2string array_equal array_equiv "
        "array_repr array_split array_str asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray "
        "asin asinh asmatrix atan atan2 atanh atleast_1d atleast_2d atleast_3d average bartlett base_repr "
        "binary_repr bincount bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or "
        "bitwise_right_shift bitwise_xor blackman block bmat bool bool_ broadcast broadcast_arrays "
        "broadcast_shapes broadcast_to byte bytes_ c_ can_cast cbrt cdouble ceil char character choose clip "
        "clongdouble column_stack common_type complex128 complex256 complex64 complexfloating compress concat "
        "concatenate conj conjugate convolve copy copysign corrcoef correlate cos cosh count_nonzero cov cross "
        "csingle cumprod cumproduct cumsum cumulative_prod cumulative_sum deg2rad degrees delete diag "
        "diag_indices diag_indices_from diagflat diagonal diff digitize divide divmod dot double dsplit dstack "
        "dtypes e ediff1d einsum einsum_path emath empty empty_like equal errstate euler_gamma exceptions exp "
        "exp2 expand_dims expm1 extract eye fabs fft fill_diagonal finfo fix flatiter flatnonzero flexible flip "
        "fliplr flipud float128 float16 float32 float64 float_ float_power floating floor floor_divide fmax fmin "
        "fmod format_float_positional format_float_scientific frexp frombuffer fromfunction fromiter frompyfunc "
        "full full_like gcd generic geomspace gradient greater greater_equal half hamming hanning heaviside "
        "histogram histogram2d histogram_bin_edges histogramdd hsplit hstack hypot i0 identity iinfo imag in1d "
        "index_exp indices inexact inf infinity inner insert int0 int16 int32 int64 int8 int_ intc integer "
        "interp intersect1d intp invert isclose iscomplex iscomplexobj isdtype isfinite isfortran isin isinf "
        "isnan isnat isneginf isposinf isreal isrealobj isscalar issubdtype iterable ix_ kaiser kron lcm ldexp "
        "left_shift less less_equal lexsort linalg linspace log log10 log1p log2 logaddexp logaddexp2 "
        "logical_and logical_not logical_or logical_xor logspace long longdouble longlong ma mask_indices matmul "
        "matrix matrix_transpose matvec max maximum may_share_memory mean median meshgrid mgrid min "
        "min_scalar_type minimum mintypecode mod modf moveaxis msort multiply nan nan_to_num nanargmax nanargmin "
        "nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum "
        "nanvar ndarray ndenumerate ndim ndindex nditer negative nested_iters newaxis nextafter nonzero "
        "not_equal number object_ ogrid ones ones_like outer packbits pad partition percentile permute_dims pi "
        "piecewise place poly poly1d polyadd polyder polydiv polyfit polyint polymul polynomial polysub polyval "
        "positive pow power printoptions prod product promote_types ptp put put_along_axis putmask quantile r_ "
        "rad2deg radians random ravel ravel_multi_index real real_if_close rec recarray reciprocal record "
        "remainder repeat require reshape resize result_type right_shift rint roll rollaxis roots rot90 round "
        "round_ row_stack s_ searchsorted select set_printoptions setdiff1d seterr setxor1d shape shares_memory "
        "short sign signbit signedinteger sin sinc single sinh size sometrue sort sort_complex spacing split "
        "sqrt square squeeze stack std str_ strings subtract sum swapaxes take take_along_axis tan tanh "
        "tensordot tile timedelta64 trace transpose trapezoid trapz tri tril tril_indices tril_indices_from "
        "trim_zeros triu triu_indices triu_indices_from true_divide trunc typecodes typename typing ubyte ufunc "
        "uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong union1d unique unique_all unique_counts "
        "unique_inverse unique_values unpackbits unravel_index unsignedinteger unstack unwrap ushort vander var "
        "vdot vecdot vecmat vectorize void vsplit vstack where zeros zeros_like"
    ),
    "pandas": (
        "BooleanDtype Categorical CategoricalDtype CategoricalIndex DataFrame Float32Dtype Float64Dtype Grouper "
        "Index IndexSlice Int16Dtype Int32Dtype Int64Dtype Int8Dtype Interval IntervalIndex MultiIndex NA NaT "
        "NamedAgg RangeIndex Series SparseDtype StringDtype Timedelta TimedeltaIndex UInt16Dtype UInt32Dtype "
        "UInt64Dtype UInt8Dtype concat crosstab cut errors factorize from_dummies get_dummies interval_range "
        "isna isnull json_normalize melt merge merge_asof merge_ordered notna notnull pivot pivot_table qcut "
        "testing timedelta_range to_numeric to_timedelta unique wide_to_long"
    ),
    "pydantic": (
        "AfterValidator AliasChoices AliasGenerator AliasPath AllowInfNan AnyHttpUrl AnyUrl AnyWebsocketUrl "
        "AwareDatetime Base64Bytes Base64Encoder Base64Str Base64UrlBytes Base64UrlStr BaseModel BeforeValidator "
        "ByteSize ConfigDict Discriminator EmailStr EncodedBytes EncodedStr EncoderProtocol Extra FailFast Field "
        "FieldSerializationInfo FileUrl FiniteFloat FtpUrl HttpUrl IPvAnyAddress IPvAnyInterface IPvAnyNetwork "
        "InstanceOf Json JsonValue ModelWrapValidatorHandler NaiveDatetime NameEmail NegativeFloat NegativeInt "
        "NonNegativeFloat NonNegativeInt NonPositiveFloat NonPositiveInt OnErrorOmit PaymentCardNumber "
        "PlainSerializer PlainValidator PositiveFloat PositiveInt PrivateAttr PydanticForbiddenQualifier "
        "PydanticImportError PydanticInvalidForJsonSchema PydanticSchemaGenerationError "
        "PydanticUndefinedAnnotation PydanticUserError RootModel Secret SecretBytes SecretStr SerializationInfo "
        "SerializeAsAny SerializerFunctionWrapHandler SkipValidation Strict StrictBool StrictBytes StrictFloat "
        "StrictInt StrictStr StringConstraints Tag TypeAdapter UUID1 UUID3 UUID4 UUID5 UUID6 UUID7 UUID8 "
        "UrlConstraints ValidateAs ValidationError ValidationInfo ValidatorFunctionWrapHandler WebsocketUrl "
        "WrapSerializer WrapValidator alias_generators computed_field conbytes condate condecimal confloat "
        "confrozenset conint conlist conset constr dataclasses errors field_serializer field_validator fields "
        "functional_validators model_serializer model_validator networks root_validator validate_call "
        "validate_email validator with_config"
    ),
    "pydantic_core": (
        "PydanticCustomError PydanticUndefined PydanticUseDefault Url ValidationError from_json to_json "
        "to_jsonable_python"
    ),
    "random": (
        "Random SystemRandom betavariate choice choices expovariate gammavariate gauss getrandbits "
        "lognormvariate normalvariate paretovariate randbytes randint random randrange sample seed shuffle "
        "triangular uniform vonmisesvariate weibullvariate"
    ),
    "string": (
        "Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits printable "
        "punctuation whitespace"
    ),
    "sympy": (
        "Add Basic E Expr Float Function I Integer Mul Number Pow Rational Symbol SympifyError Wild "
        "default_sort_key degree denom divisors factorint flatten functions gcd igcd ilcm "
        "isprime lcm nan nextprime numer oo ordered pi prevprime prime primefactors primepi primerange printing "
        "symbols totient zoo"
    ),
    "sympy.core.sympify": "SympifyError",
    "unittest": "TestCase TestResult TestSuite TextTestResult case result suite skip skipIf skipUnless",
    "transformers": (
        "AutoConfig AutoFeatureExtractor AutoImageProcessor AutoModel AutoModelForCausalLM AutoModelForMaskedLM "
        "AutoModelForQuestionAnswering AutoModelForSeq2SeqLM AutoModelForSequenceClassification "
        "AutoModelForTokenClassification AutoProcessor AutoTokenizer BatchEncoding BertTokenizer BertTokenizerFast "
        "GPT2Tokenizer GPT2TokenizerFast LlamaTokenizer LlamaTokenizerFast PreTrainedTokenizer "
        "PreTrainedTokenizerBase PreTrainedTokenizerFast Qwen2Tokenizer Qwen2TokenizerFast RobertaTokenizer "
        "RobertaTokenizerFast T5Tokenizer T5TokenizerFast set_seed"
    ),
    "types": (
        "AsyncGeneratorType BuiltinFunctionType BuiltinMethodType CoroutineType EllipsisType GeneratorType "
        "GenericAlias MappingProxyType MethodType ModuleType NoneType NotImplementedType SimpleNamespace "
        "TracebackType UnionType coroutine new_class"
    ),
    "typing": (
        "AbstractSet Annotated Any AnyStr AsyncContextManager AsyncGenerator AsyncIterable AsyncIterator "
        "Awaitable BinaryIO Buffer ByteString Callable ChainMap ClassVar Collection Concatenate Container "
        "ContextManager Coroutine Counter DefaultDict Deque Dict Doc Final FrozenSet Generator Generic Hashable "
        "IO ItemsView Iterable Iterator KeysView List Literal LiteralString Mapping MappingView Match "
        "MutableMapping MutableSequence MutableSet NamedTuple Never NewType NoDefault NoReturn NotRequired "
        "Optional OrderedDict ParamSpec ParamSpecArgs ParamSpecKwargs Pattern Protocol ReadOnly Required "
        "Reversible Self Sequence Set Sized SupportsAbs SupportsBytes SupportsComplex SupportsFloat "
        "SupportsIndex SupportsInt SupportsRound TYPE_CHECKING Text TextIO Tuple Type TypeAlias TypeAliasType "
        "TypeGuard TypeIs TypeVar TypeVarTuple TypedDict Union Unpack ValuesView assert_never assert_type cast "
        "dataclass_transform deprecated final get_args get_origin is_protocol is_typeddict no_type_check "
        "no_type_check_decorator overload override runtime_checkable"
    ),
}
_PARTLY_KNOWN["typing_extensions"] = _PARTLY_KNOWN["typing"]
"""For each module that honest rewards use and that also reads more, the names that read nothing."""
_REACHING = {
    "time": "asctime mktime sleep strptime struct_time tzset",
    "os": (
        "DirEntry PathLike devnull environ environb error fsdecode fsencode fspath getenv "
        "linesep name path putenv register_at_fork sched_yield unsetenv urandom"
    ),
    "os.path": ("basename commonpath commonprefix dirname isabs join normcase normpath sep split splitext"),
    "sys": (
        "argv byteorder exc_info executable exit float_info getsizeof int_info intern maxsize maxunicode modules "
        "orig_argv prefix set_int_max_str_digits setrecursionlimit stderr stdout"
    ),
    "gc": "collect disable enable",
    "socket": "error gaierror timeout",
    "subprocess": "CalledProcessError CompletedProcess DEVNULL PIPE STDOUT SubprocessError TimeoutExpired",
    "multiprocessing": "TimeoutError",
    "logging": (
        "BASIC_FORMAT CRITICAL DEBUG ERROR FATAL FileHandler Filter Formatter Handler INFO Logger LoggerAdapter NOTSET "
        "NullHandler StreamHandler WARN WARNING addLevelName basicConfig captureWarnings config critical debug disable "
        "error exception getLevelName getLogger handlers info log setLoggerClass warn warning"
    ),
    "threading": (
        "Barrier BoundedSemaphore BrokenBarrierError Condition Event Lock RLock Semaphore Thread Timer excepthook local"
    ),
    "_thread": "LockType RLock allocate_lock error start_new_thread",
    "torch.backends": "cuda cudnn mkl mps",
    "torch.distributed": "optim",
    "shutil": "Error rmtree",
    "signal": "ITIMER_PROF ITIMER_REAL Signals alarm setitimer signal",
    "contextvars": "ContextVar Token",
    "traceback": "TracebackException format_exc format_exception format_exception_only print_exc print_exception",
    "zipfile": "BadZipFile ZIP_DEFLATED ZIP_STORED ZipInfo",
    "tarfile": "TarError TarInfo",
    "gzip": "decompress",
    "bz2": "BZ2Compressor BZ2Decompressor compress decompress",
    "lzma": "LZMACompressor LZMADecompressor LZMAError compress decompress",
    "tokenize": "TokenError TokenInfo generate_tokens tokenize untokenize",
    "sqlite3": "Connection Cursor DatabaseError IntegrityError OperationalError ProgrammingError Row Warning",
    "uuid": "NAMESPACE_DNS NAMESPACE_URL UUID uuid3 uuid4 uuid5",
    "ssl": "SSLError",
    "email.utils": "formataddr getaddresses parseaddr parsedate parsedate_to_datetime",
    "locale": "LC_ALL LC_NUMERIC atof atoi delocalize",
    "requests": "RequestException exceptions",
    "httpx": "HTTPError HTTPStatusError Limits RequestError Timeout TimeoutException",
    "aiohttp": "ClientError ClientTimeout",
    "anyio": (
        "BrokenResourceError CapacityLimiter CancelScope Condition Event Lock Semaphore create_memory_object_stream "
        "create_task_group fail_after from_thread get_cancelled_exc_class lowlevel move_on_after run sleep to_thread"
    ),
    "huggingface_hub": "errors utils",
    "verifiers.v1.runtimes": "ProgramResult Runtime RuntimeConfig",
}
"""For each module that is made to read surroundings, the names that read nothing of them."""
HARMLESS_NAMES = {module: frozenset(names.split()) for module, names in (_PARTLY_KNOWN | _REACHING).items()}
"""For each module that is known in part, the names that read nothing besides their arguments."""
