// Plays a countdown by three clients of the TypeScript SDK at once: `node play.js URL`.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

async function play(url, by) {
  const client = new Client({ name: "tests", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  const { tools } = await client.listTools();
  const left = [];
  for (let step = 0; step < 3; step++) {
    const result = await client.callTool({ name: "act", arguments: { by } });
    left.push(result.structuredContent.left);
  }
  const refused = await client.callTool({ name: "act", arguments: { by: "many" } });
  const instructions = client.getInstructions();
  await transport.terminateSession();
  await client.close();
  return {
    tools: tools.map((tool) => tool.name),
    left,
    refused: refused.isError,
    began: instructions.includes("observation"),
  };
}

console.log(JSON.stringify(await Promise.all([1, 2, 3].map((by) => play(process.argv[2], by)))));
