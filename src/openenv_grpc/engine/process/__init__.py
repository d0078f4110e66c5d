"""Environments in processes of their own: a crash, a leak or a long computation harms one only."""

from openenv_grpc.engine.process.housing import ProcessHousing
from openenv_grpc.engine.process.pool import ProcessPool
from openenv_grpc.engine.process.recipe import write_recipe

__all__ = ["ProcessHousing", "ProcessPool", "write_recipe"]
