// The shortest client on the stream: one operation a message, so one outcome a message.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"example.com/trainer/openenv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	ctx, plaintext := context.Background(), grpc.WithTransportCredentials(insecure.NewCredentials())
	connection := must(grpc.NewClient(os.Args[1], plaintext))
	stream := must(openenv.NewSessionServiceClient(connection).Connect(ctx))
	perform := func(operation *openenv.Operation) *openenv.Outcome {
		_ = stream.Send(&openenv.ConnectRequest{Operations: []*openenv.Operation{operation}})
		outcome := must(stream.Recv()).Outcomes[0] // Recv also tells why Send failed
		if outcome.GetError() != nil {
			log.Fatal(outcome.GetError().Message)
		}
		return outcome
	}
	reset := &openenv.Operation_ResetEpisode{ResetEpisode: &openenv.ResetEpisode{}}
	first := perform(&openenv.Operation{Kind: reset}).GetResetEpisode()
	fmt.Println(first.Observation.GetJson())
	for _, action := range []string{`{"message": "one"}`, `{"message": "two"}`} {
		payload := &openenv.Payload{Content: &openenv.Payload_Json{Json: action}}
		step := &openenv.Operation_Step{Step: &openenv.Step{Action: payload}}
		result := perform(&openenv.Operation{Kind: step}).GetStep()
		fmt.Println(result.Observation.GetJson(), result.GetReward())
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
