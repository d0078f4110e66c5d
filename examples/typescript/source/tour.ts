// A tour: two sessions on one stream, an error that its session survives, a batch in one message,
// and the same error from a unary call.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createWritableIterable } from "@connectrpc/connect/protocol";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { EpisodeService } from "./generated/openenv_grpc/v1/episode_pb.js";
import { Effect, ErrorSchema, Reason } from "./generated/openenv_grpc/v1/error_pb.js";
import type { Payload } from "./generated/openenv_grpc/v1/payload_pb.js";
import { SessionService } from "./generated/openenv_grpc/v1/session_pb.js";
import type {
  ConnectRequestSchema,
  ConnectResponse,
  OperationSchema,
  Outcome,
} from "./generated/openenv_grpc/v1/session_pb.js";

type Request = MessageInitShape<typeof ConnectRequestSchema>;
type Operation = MessageInitShape<typeof OperationSchema> & { session: number; requestId: bigint };
type Kind = Outcome["kind"];
type Result<Case> = Extract<Kind, { case: Case }> extends { value: infer Value } ? Value : never;

/** A stream, used by one caller at a time. */
class Stream {
  readonly #requests = createWritableIterable<Request>();
  readonly #responses: AsyncIterator<ConnectResponse>;

  constructor(connect: (requests: AsyncIterable<Request>) => AsyncIterable<ConnectResponse>) {
    this.#responses = connect(this.#requests)[Symbol.asyncIterator]();
  }

  async exchange(request: Request): Promise<ConnectResponse> {
    void this.#requests.write(request);
    return await this.#receive();
  }

  /** Sends one operation and waits for its outcome. */
  async one<Case extends Kind["case"]>(
    expected: Case,
    operation: Operation,
  ): Promise<Result<Case>> {
    const [outcome] = await this.perform([operation]);
    if (outcome?.kind.case !== expected) {
      throw new Error(`not ${expected} but ${outcome?.kind.case}`);
    }
    return outcome.kind.value as Result<Case>;
  }

  /**
   * Sends operations in one message and returns their outcomes in the same order. They may come in
   * several messages, and those of different sessions in any order.
   */
  async perform(operations: Operation[]): Promise<Outcome[]> {
    const received = new Map<string, Outcome>();
    let response = await this.exchange({ operations });
    for (;;) {
      for (const outcome of response.outcomes) received.set(name(outcome), outcome);
      if (received.size >= operations.length) break;
      response = await this.#receive();
    }
    return operations.map((operation) => received.get(name(operation))!);
  }

  /** Ends the stream, which closes its sessions, and sees that the server ends it too. */
  async end(): Promise<void> {
    this.#requests.close();
    if (!(await this.#responses.next()).done) throw new Error("the stream did not end");
  }

  async #receive(): Promise<ConnectResponse> {
    const { value, done } = await this.#responses.next();
    if (done) throw new Error("the stream ended too early");
    return value;
  }
}

async function overStream(stream: Stream): Promise<void> {
  const { server } = await stream.exchange({
    client: { name: "tour", maxReceiveSizeBytes: 4n << 20n },
  });
  console.log("server:", server?.name, server?.environments.join(" "));

  // Each operation is numbered within its session, so that it could be sent again.
  await stream.one("open", open(1, 1n));
  const start = await stream.one("resetEpisode", reset(1, 2n));
  console.log("reset:", json(start.observation));
  const result = await stream.one("step", step(1, 3n, { message: "hi" }));
  console.log("step:", json(result.observation), result.reward);
  const state = await stream.one("getState", getState(1, 4n));
  console.log("state: step count", String(state.stepCount));

  // A refused action is an outcome like any other. The session lives.
  const refusal = await stream.one("error", step(1, 5n, { nope: 1 }));
  console.log("refused:", Reason[refusal.reason], Effect[refusal.effect], refusal.sessionLost);

  // A message takes any number of operations, of any sessions.
  const outcomes = await stream.perform([
    step(1, 6n, { message: "one" }),
    step(1, 7n, { message: "two" }),
    open(2, 1n),
    reset(2, 2n),
    step(2, 3n, { message: "three" }),
  ]);
  for (const { session, requestId, kind } of outcomes) {
    if (kind.case === "step") {
      console.log("batch:", session, String(requestId), json(kind.value.observation));
    }
  }

  console.log("closed: steps", String((await stream.one("close", close(1, 8n))).stepCount));
  await stream.end(); // which closes session 2
}

async function overUnaryCalls(transport: ReturnType<typeof createGrpcTransport>): Promise<void> {
  const episodes = createClient(EpisodeService, transport);
  const { sessionId } = await episodes.open({});
  await episodes.reset({ sessionId });
  try {
    await episodes.step({ sessionId, action: payload({ nope: 1 }) });
    throw new Error("an invalid action was taken");
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    const [detail] = error.findDetails(ErrorSchema);
    if (detail === undefined) throw new Error("an error without a reason", { cause: error });
    console.log("unary refused:", Code[error.code], Reason[detail.reason]);
  }
  await episodes.close({ sessionId });
}

function open(session: number, requestId: bigint): Operation {
  return { session, requestId, kind: { case: "open", value: {} } };
}

function reset(session: number, requestId: bigint): Operation {
  return { session, requestId, kind: { case: "resetEpisode", value: { seed: 7n } } };
}

function step(session: number, requestId: bigint, action: object): Operation {
  return { session, requestId, kind: { case: "step", value: { action: payload(action) } } };
}

function getState(session: number, requestId: bigint): Operation {
  return { session, requestId, kind: { case: "getState", value: {} } };
}

function close(session: number, requestId: bigint): Operation {
  return { session, requestId, kind: { case: "close", value: {} } };
}

function payload(value: object): { content: { case: "json"; value: string } } {
  return { content: { case: "json", value: JSON.stringify(value) } };
}

function json(payload: Payload | undefined): string {
  if (payload?.content.case !== "json") throw new Error("not JSON");
  return payload.content.value;
}

function name({ session, requestId }: { session: number; requestId: bigint }): string {
  return `${session}/${requestId}`;
}

const transport = createGrpcTransport({ baseUrl: `http://${process.argv[2]}` });
const client = createClient(SessionService, transport);
await overStream(new Stream((requests) => client.connect(requests, { timeoutMs: 30_000 })));
await overUnaryCalls(transport);
