"""Grade-school math word problems (GSM8K), answered in one turn."""

from gsm8k.taskset import Gsm8kEnv, Gsm8kTaskset

__all__ = ["Gsm8kEnv", "Gsm8kTaskset"]
