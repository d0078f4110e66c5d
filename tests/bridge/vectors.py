"""The recorded exchanges: their steps, and the rules by which answers are compared."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

VECTORS_FILE = Path(__file__).with_name("wire-vectors.json")

ANSWER_TIMEOUT_S = 10.0
QUIET_S = 0.25
"""How long a connection is listened to before anything is sent, where frames are expected."""

ANY = re.compile(r"<any(?::(\w+))?>")


def load() -> list[dict[str, Any]]:
    """Reads the vectors."""
    vectors: list[dict[str, Any]] = json.loads(VECTORS_FILE.read_text("utf-8"))["vectors"]
    return vectors


class MismatchError(AssertionError):
    """An answer differs from what was recorded."""


@dataclass(slots=True)
class Names:
    """What `<any:NAME>` has stored."""

    stored: dict[str, Any] = field(default_factory=dict)

    def fill(self, value: Any) -> Any:
        """Puts what was stored in the place of `${NAME}`."""
        match value:
            case str():
                return re.sub(r"\$\{(\w+)\}", lambda found: str(self.stored[found[1]]), value)
            case list():
                return [self.fill(part) for part in value]
            case dict():
                return {name: self.fill(part) for name, part in value.items()}
            case _:
                return value

    def check(self, expected: Any, actual: Any, path: str = "$") -> None:
        """Compares by the rules of the file. Raises `MismatchError`."""
        match expected:
            case str():
                self._check_text(expected, actual, path)
            case dict():
                self._check_object(expected, actual, path)
            case list():
                if not isinstance(actual, list) or len(actual) != len(expected):
                    raise MismatchError(f"{path}: expected {expected!r}, got {actual!r}")
                for number, (wanted, got) in enumerate(zip(expected, actual, strict=True)):
                    self.check(wanted, got, f"{path}[{number}]")
            case _:
                if isinstance(expected, bool) != isinstance(actual, bool) or expected != actual:
                    raise MismatchError(f"{path}: expected {expected!r}, got {actual!r}")

    def _check_text(self, expected: str, actual: Any, path: str) -> None:
        whole = ANY.fullmatch(expected)
        if whole is not None:
            if whole[1] is not None:
                self.stored[whole[1]] = actual
            return
        expected = self.fill(expected)
        pattern = ".*".join(re.escape(part) for part in expected.split("<any>"))
        if not isinstance(actual, str) or re.fullmatch(pattern, actual, re.DOTALL) is None:
            raise MismatchError(f"{path}: expected {expected!r}, got {actual!r}")

    def _check_object(self, expected: dict[str, Any], actual: Any, path: str) -> None:
        names = expected.keys() - {"<rest>"}
        if not isinstance(actual, dict):
            raise MismatchError(f"{path}: expected an object, got {actual!r}")
        if names - actual.keys() or (actual.keys() - names and "<rest>" not in expected):
            raise MismatchError(f"{path}: expected keys {sorted(expected)}, got {actual!r}")
        for name in names:
            self.check(expected[name], actual[name], f"{path}.{name}")


class Replay:
    """Replays vectors against one server."""

    def __init__(self, http: aiohttp.ClientSession, base_url: str) -> None:
        self._http = http
        self._base_url = base_url
        self._sockets: dict[str, tuple[str, aiohttp.ClientWebSocketResponse]] = {}
        self._names = Names()

    async def run(self, vector: dict[str, Any]) -> None:
        """Replays one vector. Raises `MismatchError`."""
        try:
            for number, (step, expected) in enumerate(
                zip(vector["send"], vector["expect"], strict=True)
            ):
                actual = await self._do(step, expected)
                self._names.check(expected, without_mode_tools(actual), f"step {number}")
        finally:
            await self._hang_up()

    async def _do(self, step: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
        match step["do"]:
            case "http":
                return await self._request(step)
            case "connect":
                return await self._connect(step, expected)
            case "send_many":
                socket = self._sockets[step["conn"]][1]
                for message in step["json"]:
                    await socket.send_str(json.dumps(self._names.fill(message)))
                return await self._frames(socket, expected)
            case _:
                socket = self._sockets[step["conn"]][1]
                await self._send(socket, step)
                return await self._frames(socket, expected)

    async def _request(self, step: dict[str, Any]) -> dict[str, Any]:
        headers = dict(step.get("headers", {}))
        body: bytes | None = None
        if "json" in step:
            body = json.dumps(self._names.fill(step["json"])).encode()
            headers.setdefault("Content-Type", "application/json")
        elif "raw" in step:
            body = step["raw"].encode()
        skipped = [] if "Content-Type" in headers else ["Content-Type"]
        async with self._http.request(
            step["method"],
            self._base_url + step["path"],
            data=body,
            headers=headers,
            skip_auto_headers=skipped,
        ) as response:
            text = await response.text()
            if response.content_type == "application/json":
                return {"status": response.status, "json": json.loads(text)}
            return {"status": response.status, "text": text}

    async def _connect(self, step: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
        path = self._names.fill(step["path"])
        try:
            socket = await self._http.ws_connect(
                self._base_url + path, autoclose=True, max_msg_size=0
            )
        except aiohttp.WSServerHandshakeError as error:
            return {"accepted": False, "status": error.status}
        self._sockets[step["conn"]] = (path, socket)
        if not expected.get("frames") and "close" not in expected:
            return {"accepted": True, "frames": []}  # what comes unasked is found by the next step
        return {"accepted": True, **await self._frames(socket, expected)}

    async def _send(self, socket: aiohttp.ClientWebSocketResponse, step: dict[str, Any]) -> None:
        if "json" in step:
            await socket.send_str(json.dumps(self._names.fill(step["json"])))
        elif "text" in step:
            await socket.send_str(step["text"])
        elif "bytes" in step:
            await socket.send_bytes(bytes.fromhex(step["bytes"]))
        else:
            big = step["big"]
            await socket.send_str(big["prefix"] + big["fill"] * big["count"] + big["suffix"])

    async def _frames(
        self, socket: aiohttp.ClientWebSocketResponse, expected: dict[str, Any]
    ) -> dict[str, Any]:
        """Reads as many frames as are expected, and the close if one is."""
        frames: list[dict[str, Any]] = []
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while len(frames) < len(expected["frames"]) or "close" in expected:
                message = await socket.receive()
                if message.type is not aiohttp.WSMsgType.TEXT:
                    return {"frames": frames, "close": {"code": socket.close_code}}
                frames.append({"json": json.loads(message.data)})
        return {"frames": frames}

    async def _hang_up(self) -> None:
        for path, socket in self._sockets.values():
            if socket.closed:
                continue
            if path.startswith("/ws"):
                await socket.send_str('{"type":"close"}')
            await socket.close()


def without_mode_tools(value: Any) -> Any:
    """Leaves the tools of one mode out of lists: the reference never shows them."""
    match value:
        case {"tools": list(tools)}:
            kept = [tool for tool in tools if tool["name"] not in ("sim_only", "prod_only")]
            return {**value, "tools": kept}
        case dict():
            return {name: without_mode_tools(part) for name, part in value.items()}
        case list():
            return [without_mode_tools(part) for part in value]
        case _:
            return value
