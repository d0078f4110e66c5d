"""What `serve` is given, a name, a folder or a class, turned into an environment's definition."""

from openenv_grpc.targets.target import Overrides, Target, definition_of, load

__all__ = ["Overrides", "Target", "definition_of", "load"]
