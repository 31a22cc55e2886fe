package waterclockgrpc_test

import (
	"fmt"
	"log"

	waterclock "github.com/waterclock/waterclock/clients/go"
	waterclockgrpc "github.com/waterclock/waterclock/clients/go/grpc"
	"google.golang.org/grpc"
)

func Example() {
	client, err := waterclock.New("redis://127.0.0.1:6380")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	server := grpc.NewServer(
		grpc.UnaryInterceptor(waterclockgrpc.UnaryServerInterceptor(client, "api", waterclockgrpc.KeyByPeer)),
		grpc.StreamInterceptor(waterclockgrpc.StreamServerInterceptor(client, "api", waterclockgrpc.KeyByPeer)))
	defer server.Stop()

	limit := grpc.WithUnaryInterceptor(waterclockgrpc.UnaryClientInterceptor(
		client, "upstream", waterclockgrpc.KeyByMethod, waterclockgrpc.Wait))
	connection, err := grpc.Dial("127.0.0.1:50051", grpc.WithInsecure(), limit)
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	fmt.Println("limits calls of servers and clients")
	// Output: limits calls of servers and clients
}
