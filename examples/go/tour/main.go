// A tour: two sessions on one stream, an error that its session survives, a batch in one message,
// and the same error from a unary call.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"example.com/trainer/openenv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

type stream = grpc.BidiStreamingClient[openenv.ConnectRequest, openenv.ConnectResponse]

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	plaintext := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection := must(grpc.NewClient(os.Args[1], plaintext))
	defer connection.Close()
	overStream(must(openenv.NewSessionServiceClient(connection).Connect(ctx)))
	overUnaryCalls(ctx, openenv.NewEpisodeServiceClient(connection))
}

func overStream(stream stream) {
	check(stream.Send(&openenv.ConnectRequest{
		Client: &openenv.ClientHello{Name: "tour", MaxReceiveSizeBytes: 4 << 20},
	}))
	server := must(stream.Recv()).Server
	fmt.Println("server:", server.Name, strings.Join(server.Environments, " "))

	// Each operation is numbered within its session, so that it could be sent again.
	one(stream, open(1, 1))
	start := one(stream, reset(1, 2)).GetResetEpisode()
	fmt.Println("reset:", start.Observation.GetJson())
	result := one(stream, step(1, 3, `{"message": "hi"}`)).GetStep()
	fmt.Println("step:", result.Observation.GetJson(), result.GetReward())
	state := one(stream, getState(1, 4)).GetGetState()
	fmt.Println("state: step count", state.StepCount)

	// A refused action is an outcome like any other. The session lives.
	refusal := one(stream, step(1, 5, `{"nope": 1}`)).GetError()
	fmt.Println("refused:", refusal.Reason, refusal.Effect, refusal.SessionLost)

	// A message takes any number of operations, of any sessions.
	outcomes := perform(stream,
		step(1, 6, `{"message": "one"}`), step(1, 7, `{"message": "two"}`),
		open(2, 1), reset(2, 2), step(2, 3, `{"message": "three"}`),
	)
	for _, outcome := range outcomes {
		result := outcome.GetStep()
		if result != nil {
			fmt.Println("batch:", outcome.Session, outcome.RequestId, result.Observation.GetJson())
		}
	}

	fmt.Println("closed: steps", one(stream, closing(1, 8)).GetClose().StepCount)
	check(stream.CloseSend()) // which closes session 2
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		log.Fatal("the stream did not end: ", err)
	}
}

func overUnaryCalls(ctx context.Context, episodes openenv.EpisodeServiceClient) {
	session := must(episodes.Open(ctx, &openenv.OpenRequest{})).SessionId
	must(episodes.Reset(ctx, &openenv.ResetRequest{SessionId: session}))
	refused := &openenv.StepRequest{SessionId: session, Action: payload(`{"nope": 1}`)}
	_, err := episodes.Step(ctx, refused)
	refusal := status.Convert(err)
	detail, ok := refusal.Details()[0].(*openenv.Error)
	if !ok {
		log.Fatal("an error without a reason: ", err)
	}
	fmt.Println("unary refused:", refusal.Code(), detail.Reason)
	must(episodes.Close(ctx, &openenv.CloseRequest{SessionId: session}))
}

// one sends one operation and waits for its outcome.
func one(stream stream, operation *openenv.Operation) *openenv.Outcome {
	return perform(stream, operation)[0]
}

// perform sends operations in one message and returns their outcomes in the same order. They may
// come in several messages, and those of different sessions in any order.
func perform(stream stream, operations ...*openenv.Operation) []*openenv.Outcome {
	type key struct {
		session int32
		request int64
	}
	check(stream.Send(&openenv.ConnectRequest{Operations: operations}))
	received := map[key]*openenv.Outcome{}
	for len(received) < len(operations) {
		for _, outcome := range must(stream.Recv()).Outcomes {
			received[key{outcome.Session, outcome.RequestId}] = outcome
		}
	}
	ordered := make([]*openenv.Outcome, 0, len(operations))
	for _, operation := range operations {
		ordered = append(ordered, received[key{operation.Session, operation.RequestId}])
	}
	return ordered
}

func open(session int32, request int64) *openenv.Operation {
	kind := &openenv.Operation_Open{Open: &openenv.Open{}}
	return &openenv.Operation{Session: session, RequestId: request, Kind: kind}
}

func reset(session int32, request int64) *openenv.Operation {
	kind := &openenv.Operation_ResetEpisode{ResetEpisode: &openenv.ResetEpisode{Seed: proto.Int64(7)}}
	return &openenv.Operation{Session: session, RequestId: request, Kind: kind}
}

func step(session int32, request int64, action string) *openenv.Operation {
	kind := &openenv.Operation_Step{Step: &openenv.Step{Action: payload(action)}}
	return &openenv.Operation{Session: session, RequestId: request, Kind: kind}
}

func getState(session int32, request int64) *openenv.Operation {
	kind := &openenv.Operation_GetState{GetState: &openenv.GetState{}}
	return &openenv.Operation{Session: session, RequestId: request, Kind: kind}
}

func closing(session int32, request int64) *openenv.Operation {
	kind := &openenv.Operation_Close{Close: &openenv.Close{}}
	return &openenv.Operation{Session: session, RequestId: request, Kind: kind}
}

func payload(json string) *openenv.Payload {
	return &openenv.Payload{Content: &openenv.Payload_Json{Json: json}}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
