// The shortest client: one unary call for each thing to be done.
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
	episodes := openenv.NewEpisodeServiceClient(must(grpc.NewClient(os.Args[1], plaintext)))
	session := must(episodes.Open(ctx, &openenv.OpenRequest{})).SessionId
	first := must(episodes.Reset(ctx, &openenv.ResetRequest{SessionId: session}))
	fmt.Println(first.Observation.GetJson())
	action := &openenv.Payload{Content: &openenv.Payload_Json{Json: `{"message": "hi"}`}}
	step := must(episodes.Step(ctx, &openenv.StepRequest{SessionId: session, Action: action}))
	fmt.Println(step.Observation.GetJson(), step.GetReward())
	must(episodes.Close(ctx, &openenv.CloseRequest{SessionId: session}))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
