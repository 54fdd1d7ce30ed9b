"""Competition math (MATH): one problem, one reply, a boxed answer compared as mathematics."""

from competition_math.taskset import CompetitionMathEnv, CompetitionMathTaskset

__all__ = ["CompetitionMathEnv", "CompetitionMathTaskset"]
