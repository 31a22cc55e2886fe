package waterclock_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/waterclock/waterclock/clients/go/internal/testserver"
)

// TestMain starts the server of the examples.
func TestMain(m *testing.M) {
	os.Setenv("WATERCLOCK_TOKEN", "example")
	server, err := testserver.Start("testdata/readme.toml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("WATERCLOCK_URL", server.HTTP)
	code := m.Run()
	server.Stop()
	os.Exit(code)
}
