"""A single-turn environment whose answers are programs, run against tests."""

from python_functions.taskset import PythonFunctionsEnv, PythonFunctionsTaskset

__all__ = ["PythonFunctionsEnv", "PythonFunctionsTaskset"]
