"""A word-guessing game in several turns."""

from guess_word.taskset import GuessWordEnv, GuessWordTaskset

__all__ = ["GuessWordEnv", "GuessWordTaskset"]
