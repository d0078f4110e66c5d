"""An environment's metadata, asked once."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from openenv_grpc.engine.registry import RegisteredEnvironment
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.operations import Kind, Operation, Result, WritingCodec
from openenv_grpc.sessions import SessionPort, ask
from openenv_grpc.types import EnvironmentMetadata


class MetadataCodec(WritingCodec):
    """Writes metadata as JSON."""

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes an environment's metadata, of our class or the reference's."""
        metadata = EnvironmentMetadata.model_validate(result, from_attributes=True)
        return metadata.model_dump_json().encode()


_CODEC = MetadataCodec()


class Descriptions:
    """Metadata by environment. A failure is not kept."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Task[EnvironmentMetadata]] = {}

    def get(
        self,
        registered: RegisteredEnvironment,
        transient: AbstractAsyncContextManager[SessionPort],
    ) -> asyncio.Future[EnvironmentMetadata]:
        """Returns an environment's metadata; uses `transient` if it has to build one."""
        name = registered.spec.name
        task = self._asked.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(_ask(registered, transient))
            self._asked[name] = task
            task.add_done_callback(lambda done: self._forget_failure(name, done))
        return asyncio.shield(task)

    async def stop(self) -> None:
        """Asks no more."""
        for task in self._asked.values():
            task.cancel()
        if self._asked:
            await asyncio.wait(set(self._asked.values()))

    def _forget_failure(self, name: str, task: asyncio.Task[EnvironmentMetadata]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._asked.pop(name, None)


async def _ask(
    registered: RegisteredEnvironment, transient: AbstractAsyncContextManager[SessionPort]
) -> EnvironmentMetadata:
    if registered.cls is not None and registered.default_metadata:
        name = registered.cls.__name__
        return EnvironmentMetadata(name=name, description=f"{name} environment", version="1.0.0")
    async with transient as session:
        reply = await ask(session, Operation(kind=Kind.METADATA, codec=_CODEC))
    return EnvironmentMetadata.model_validate_json(reply.written())
