"""Code as an agent's way to act: run in a process of its own, with tools as functions."""

from openenv_grpc.code_mode.callables import Callables
from openenv_grpc.code_mode.interpreter import CodeLimits, CodeOutcome, run_code

__all__ = ["Callables", "CodeLimits", "CodeOutcome", "run_code"]
