"""Rewards made of parts: rubrics, and what combines them."""

from openenv_grpc.rubrics.containers import (
    Gate,
    RubricDict,
    RubricList,
    Sequential,
    WeightedSum,
)
from openenv_grpc.rubrics.rubric import Rubric
from openenv_grpc.rubrics.trajectory import (
    ExponentialDiscountingTrajectoryRubric,
    TrajectoryRubric,
)

__all__ = [
    "ExponentialDiscountingTrajectoryRubric",
    "Gate",
    "Rubric",
    "RubricDict",
    "RubricList",
    "Sequential",
    "TrajectoryRubric",
    "WeightedSum",
]
