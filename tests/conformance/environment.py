"""The environment that the conformance tool of MCP acts on: its names and texts are the tool's."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any, ClassVar

from pydantic import Field

from openenv_grpc import MCPEnvironment, Observation, prompt, report_log, report_progress, resource
from openenv_grpc.tools import Media, tool

PNG = Media(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJg"
        "gg=="
    ),
    "image/png",
)
WAV = Media(
    base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="), "audio/wav"
)


class Fixtures(MCPEnvironment):
    """Has what the conformance tool asks for."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        return Observation()

    @tool
    def test_simple_text(self) -> str:
        """Answers with text."""
        return "This is a simple text response for testing."

    @tool
    def test_image_content(self) -> Media:
        """Answers with an image."""
        return PNG

    @tool
    def test_audio_content(self) -> Media:
        """Answers with a sound."""
        return WAV

    @tool
    def test_embedded_resource(self) -> Media:
        """Answers with a resource."""
        text = b"This is an embedded resource content."
        return Media(text, "text/plain", uri="test://embedded-resource")

    @tool
    def test_multiple_content_types(self) -> list[Any]:
        """Answers with a text, an image and a resource."""
        resource = b'{"test":"data","value":123}'
        return [
            "Multiple content types test:",
            PNG,
            Media(resource, "application/json", uri="test://mixed-content-resource"),
        ]

    @tool
    async def test_tool_with_logging(self) -> str:
        """Logs while it runs."""
        for told in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            report_log(told)
            await asyncio.sleep(0.02)  # so that each is a message of its own
        return "logged"

    @tool
    def test_logging_tool(self) -> str:
        """Logs, for those who asked for it."""
        report_log("told")
        return "logged"

    @tool
    async def test_tool_with_progress(self) -> str:
        """Tells how far it is."""
        for done in (0, 50, 100):
            report_progress(done, 100)
            await asyncio.sleep(0.02)
        return "done"

    @tool
    def test_custom_header(
        self, region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]
    ) -> str:
        """Has an argument that a header repeats."""
        return region

    @tool
    def test_error_handling(self) -> str:
        """Fails."""
        raise ValueError("This tool intentionally returns an error for testing")

    @resource(
        "test://static-text",
        name="Static Text Resource",
        description="A static text resource for testing",
        mime_type="text/plain",
    )
    def static_text(self) -> str:
        return "This is the content of the static text resource."

    @resource(
        "test://static-binary",
        name="Static Binary Resource",
        description="A static binary resource (image) for testing",
        mime_type="image/png",
    )
    def static_binary(self) -> bytes:
        return PNG.data

    @resource(
        "test://template/{id}/data",
        name="Resource Template",
        description="A resource template with parameter substitution",
        mime_type="application/json",
    )
    def template(self, id: str) -> dict[str, Any]:  # noqa: A002  # the tool's name for it
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}

    @resource(
        "test://watched-resource",
        name="Watched Resource",
        description="A resource that can be subscribed to",
        mime_type="text/plain",
    )
    def watched(self) -> str:
        return "Watched resource content"

    @prompt
    def test_simple_prompt(self) -> str:
        """A prompt."""
        return "This is a simple prompt for testing."

    @prompt
    def test_prompt_with_arguments(
        self,
        arg1: Annotated[str, Field(description="First test argument")],
        arg2: Annotated[str, Field(description="Second test argument")],
    ) -> str:
        """A prompt with required arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @prompt
    def test_prompt_with_embedded_resource(
        self,
        resourceUri: Annotated[str, Field(description="URI of the resource")],  # noqa: N803
    ) -> list[Any]:
        """A prompt with a resource."""
        resource = {
            "uri": resourceUri,
            "mimeType": "text/plain",
            "text": "Embedded resource content for testing.",
        }
        return [
            {"role": "user", "content": {"type": "resource", "resource": resource}},
            "Please process the embedded resource above.",
        ]

    @prompt
    def test_prompt_with_image(self) -> list[Any]:
        """A prompt with an image."""
        return [PNG, "Please analyze the image above."]
