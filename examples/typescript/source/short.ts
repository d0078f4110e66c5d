// The shortest client: one unary call for each thing to be done.
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { EpisodeService } from "./generated/openenv_grpc/v1/episode_pb.js";

const transport = createGrpcTransport({ baseUrl: `http://${process.argv[2]}` });
const episodes = createClient(EpisodeService, transport);
const { sessionId } = await episodes.open({});
const first = await episodes.reset({ sessionId });
console.log(first.observation?.content.value);
const action = { content: { case: "json" as const, value: '{"message": "hi"}' } };
const step = await episodes.step({ sessionId, action });
console.log(step.observation?.content.value, step.reward);
await episodes.close({ sessionId });
