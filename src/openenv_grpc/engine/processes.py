"""The processes of those environments that have them: nothing of it is loaded where none has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from openenv_grpc.engine.housing import House
from openenv_grpc.engine.registry import EngineSettings, RegisteredEnvironment
from openenv_grpc.engine.session import Session

if TYPE_CHECKING:
    from openenv_grpc.engine.process import ProcessPool


class Processes:
    """The pools of a server's environments."""

    def __init__(
        self, registered: Mapping[str, RegisteredEnvironment], settings: EngineSettings
    ) -> None:
        """Writes what the processes are told.

        Raises:
            ConfigurationError: another process could not find an environment.
        """
        self._size = settings.process_pool_size
        self._apart = [each for each in registered.values() if each.spec.isolation == "process"]
        self._recipes: list[bytes] = []
        self._pools: dict[str, ProcessPool] = {}
        if self._apart:
            from openenv_grpc.engine.process import write_recipe

            self._recipes = [write_recipe(each.definition, settings) for each in self._apart]

    def start(self) -> None:
        """Starts those that wait for sessions."""
        if not self._apart:
            return
        from openenv_grpc.engine.process import ProcessPool

        for each, recipe in zip(self._apart, self._recipes, strict=True):
            self._pools[each.spec.name] = ProcessPool(
                recipe,
                size=min(self._size, each.spec.session_limit),
                end_timeout_s=each.close_timeout_s,
            )

    async def stop(self) -> None:
        """Ends them all."""
        for pool in self._pools.values():
            await pool.stop()

    def house(self, session: Session) -> House | None:
        """Returns where a session's environment will live; `None` if not in a process."""
        pool = self._pools.get(session.spec.name)
        if pool is None:
            return None
        from openenv_grpc.engine.process import ProcessHousing

        return ProcessHousing(pool, session.spec, session.crashed, session_id=session.id)

    def idle(self) -> dict[str, int]:
        """Tells how many processes of each environment wait for a session."""
        return {name: pool.idle for name, pool in self._pools.items()}
