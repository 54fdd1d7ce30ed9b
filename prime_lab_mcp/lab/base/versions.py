"""Pinned versions of the programs that the server drives. pyproject.toml repeats those of the toolchain for pip."""

from __future__ import annotations

VERIFIERS = "0.4.0"
PRIME = "0.18.0"
OLDEST_PRIME = "0.18.0"
"""First release that has `train validate` and accepts only prime-rl configs."""
DATASETS_REQUIREMENT = "datasets>=4,<6"
TOOLCHAIN = (f"verifiers=={VERIFIERS}", f"prime=={PRIME}", DATASETS_REQUIREMENT)
"""Requirements of the toolchain environment; the extra `lab` has the same pins."""
SUPPORTED = {"verifiers": VERIFIERS, "prime": PRIME}
"""Versions that the server is tested with. Other versions may work."""
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
PYTHONS = f"{OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]}-{NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1]}"

RELEASES_BEFORE_0_2 = tuple(f"0.1.{patch}" for patch in range(40))
V0_RELEASES_LABELLED_V1 = tuple(f"0.{minor}.{patch}" for minor in (2, 3) for patch in range(20))
"""Releases with the v0 API that prime labels v1: prime does so for every requirement that starts at 0.2.0 or later."""
V0_RELEASES = (*RELEASES_BEFORE_0_2, *V0_RELEASES_LABELLED_V1)
"""Versions of verifiers with the v0 API. The ranges are complete, because a package may pin any version."""
V1_RELEASES = tuple(f"0.4.{patch}" for patch in range(40))
"""Versions of verifiers that training uses: the released ones, and future ones that the bound <0.5 admits."""
LATER_RELEASES = ("0.5.0", "0.9.0", "1.0.0")
"""Possible future versions of verifiers that a requirement without an upper bound admits."""
OLDEST_V0 = "0.1.14"
"""The last release of the 0.1 line, and the oldest whose rubrics the server reads."""
V0_INSTALLED = "verifiers>=0.1.14,<0.4"
"""Requirement with which the interpreter of a v0 environment is built."""
V0_ADVISED = "verifiers>=0.1.14,<0.2"
"""Requirement that a v0 environment should state so that the Hub labels it v0."""
V1_REQUIREMENT = "verifiers>=0.4.0,<0.5"
FIRST_WITH_SHUFFLE = "0.2.1"
"""First release whose v0 `vf-eval` accepts --shuffle."""
FIRST_RESUMED_V0 = "0.1.14"
"""First release whose v0 evaluations can resume after an interruption."""

PRIME_RL_COMMIT = "559b44772e471d1538537b8805cc77f3824a5e64"
"""Commit of PrimeIntellect-ai/prime-rl that the config schemas were exported from."""
