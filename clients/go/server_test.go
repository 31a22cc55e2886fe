package waterclock_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
	"github.com/waterclock/waterclock/clients/go/internal/testserver"
)

const adminToken = "vectors-admin"

// transports are both ways to ask a server.
var transports = []struct {
	name string
	url  func(*testserver.Server) string
}{
	{"http", func(s *testserver.Server) string { return s.HTTP }},
	{"resp", func(s *testserver.Server) string { return s.RESP }},
}

// startServer starts a server with the configuration of the vectors.
func startServer(t testing.TB) *testserver.Server {
	t.Helper()
	server, err := testserver.Start(testserver.InRepository("clients/vectors.toml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// newClient makes a client that may take long: the machine may be busy.
func newClient(t testing.TB, url string, options ...waterclock.Option) *waterclock.Client {
	t.Helper()
	options = append([]waterclock.Option{waterclock.WithDeadline(30 * time.Second)}, options...)
	client, err := waterclock.New(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// overBoth runs a test over each transport, with a server and a client of its own.
func overBoth(t *testing.T, test func(t *testing.T, client *waterclock.Client)) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			server := startServer(t)
			test(t, newClient(t, transport.url(server), waterclock.WithToken(adminToken)))
		})
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// within is a context that ends a test that hangs.
func within(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func mustDecode(t testing.TB, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
