"""Science questions with options whose order is shuffled by a seed and balanced over the letters."""

from science_choice.taskset import ScienceChoiceEnv, ScienceChoiceTaskset

__all__ = ["ScienceChoiceEnv", "ScienceChoiceTaskset"]
