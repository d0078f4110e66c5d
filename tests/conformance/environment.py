"""The environment that the conformance tool of MCP acts on: its names and texts are the tool's."""

from __future__ import annotations

import asyncio
import base64
import enum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from openenv_grpc import (
    ClientCapabilityError,
    MCPEnvironment,
    Observation,
    elicit,
    prompt,
    report_log,
    report_progress,
    resource,
    roots,
    sample,
)
from openenv_grpc.tools import Elicited, Media, tool
from openenv_grpc.types import JsonValue

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


class Account(BaseModel):
    """What `test_elicitation` asks for."""

    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Status(enum.StrEnum):
    """A choice with a default."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    PENDING = "pending"


class Defaults(BaseModel):
    """A field of each kind."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Status = Status.ACTIVE
    verified: bool = True


def _titled(*titles: str) -> list[JsonValue]:
    return [{"const": f"value{n}", "title": title} for n, title in enumerate(titles, 1)]


class Choices(BaseModel):
    """A choice of each kind. `enumNames` is how titles were written before 2025-11-25."""

    untitledSingle: Literal["option1", "option2", "option3"]  # noqa: N815  # the tool's names
    titledSingle: str = Field(  # noqa: N815
        json_schema_extra={"oneOf": _titled("First Option", "Second Option", "Third Option")}
    )
    legacyEnum: str = Field(  # noqa: N815
        json_schema_extra={
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        }
    )
    untitledMulti: list[Literal["option1", "option2", "option3"]]  # noqa: N815
    titledMulti: list[str] = Field(  # noqa: N815
        json_schema_extra={
            "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")}
        }
    )


class Named(BaseModel):
    """Asks for a name."""

    name: str


class Colored(BaseModel):
    """Asks for a colour."""

    color: str


class Confirmed(BaseModel):
    """Asks for a confirmation."""

    ok: bool


class Context(BaseModel):
    """What the prompt asks for."""

    context: str


def _told(what: str, answer: Elicited[Any]) -> str:
    content = None if answer.content is None else answer.content.model_dump_json()
    return f"{what}: action={answer.action}, content={content}"


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

    # Tools that ask the client

    @tool
    async def test_sampling(self, prompt: str) -> str:
        """Asks the agent's model."""
        said = await sample(prompt, max_tokens=100)
        return f"LLM response: {said.text}"

    @tool
    async def test_elicitation(self, message: str) -> str:
        """Asks the agent's user."""
        return _told("User response", await elicit(message, Account))

    @tool
    async def test_elicitation_sep1034_defaults(self) -> str:
        """Asks by a form whose fields have defaults."""
        return _told("Elicitation completed", await elicit("Please review", Defaults))

    @tool
    def test_elicitation_sep1330_enums(self) -> str:
        """Asks by a form of choices, as a tool that blocks."""
        return _told("Elicitation completed", elicit("Please choose", Choices).wait())

    @tool
    async def test_streaming_elicitation(self) -> str:
        """Asks after it has told something."""
        report_progress(0, 1)
        return _told("User response", await elicit("What is your name?", Named))

    @tool
    async def test_missing_capability(self) -> str:
        """Asks for what a client may not offer."""
        return (await sample("Hello", max_tokens=10)).text

    @tool
    async def test_input_required_result_elicitation(self) -> str:
        """Asks for a name."""
        answer = await elicit("What is your name?", Named, key="user_name")
        return f"Hello, {answer.content.name if answer.content else 'stranger'}!"

    @tool
    def test_input_required_result_sampling(self) -> str:
        """Asks the agent's model, as a tool that blocks."""
        asked = sample("What is the capital of France?", max_tokens=100, key="capital_question")
        return asked.wait().text

    @tool
    async def test_input_required_result_list_roots(self) -> str:
        """Asks for the client's roots."""
        return ", ".join(root.uri for root in await roots(key="client_roots"))

    @tool
    async def test_input_required_result_request_state(self) -> str:
        """Asks for a confirmation, and tells that the call has gone on from there."""
        answer = await elicit("Please confirm", Confirmed, key="confirm")
        return f"state-ok: {answer.action}"

    @tool
    async def test_input_required_result_tampered_state(self) -> str:
        """Asks for a confirmation."""
        return (await elicit("Please confirm", Confirmed, key="confirm")).action

    @tool
    async def test_input_required_result_multiple_inputs(self) -> str:
        """Asks for three things at once."""
        name = elicit("What is your name?", Named, key="user_name")
        greeting = sample("Generate a greeting", max_tokens=50, key="greeting")
        found = roots(key="client_roots")
        return f"{(await greeting).text} {(await name).action} {len(await found)}"

    @tool
    async def test_input_required_result_multi_round(self) -> str:
        """Asks twice."""
        name = await elicit("Step 1: What is your name?", Named, key="step1")
        color = await elicit("Step 2: What is your favorite color?", Colored, key="step2")
        return f"{name.content} {color.content}"

    @tool
    async def test_input_required_result_capabilities(self) -> str:
        """Asks the user, or where that is not offered the model."""
        try:
            return (await elicit("What is your name?", Named)).action
        except ClientCapabilityError:
            return (await sample("Make up a name", max_tokens=10)).text

    @prompt
    async def test_input_required_result_prompt(self) -> str:
        """A prompt that asks for its context."""
        answer = await elicit("What context should the prompt use?", Context, key="user_context")
        return f"Context: {answer.content.context if answer.content else 'none'}"

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
