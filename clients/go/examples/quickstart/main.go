package main

import (
	"context"
	"fmt"
	"log"
	"os"

	waterclock "github.com/waterclock/waterclock/clients/go"
)

func main() {
	client, err := waterclock.New("http://127.0.0.1:8080", waterclock.WithToken(os.Getenv("WATERCLOCK_TOKEN")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	for i := 0; i < 6; i++ {
		decision, err := client.Check(context.Background(), "login", "alice")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(decision.Allowed, decision.Remaining)
	}
}
