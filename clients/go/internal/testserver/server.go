// Package testserver runs a real Waterclock server for tests.
package testserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// A Server is a running server on ports of its own.
type Server struct {
	// HTTP and RESP are its URLs, without a token.
	HTTP, RESP string
	process    *exec.Cmd
}

// Start starts a server with this configuration file and returns when it listens.
func Start(configuration string) (*Server, error) {
	binary, err := binary()
	if err != nil {
		return nil, err
	}
	process := exec.Command(binary, "serve", "-c", configuration, "--log", "json")
	process.Env = append(os.Environ(),
		"WATERCLOCK_HTTP=127.0.0.1:0", "WATERCLOCK_RESP=127.0.0.1:0", "WATERCLOCK_GRPC=",
		"WATERCLOCK_STORE_URL=memory:", "WATERCLOCK_LOG=info")
	output, input := io.Pipe()
	process.Stdout, process.Stderr = input, input
	if err := process.Start(); err != nil {
		return nil, err
	}
	go func() {
		process.Wait()
		input.Close()
	}()
	server := &Server{process: process}
	if err := server.readAddresses(output); err != nil {
		server.Stop()
		return nil, err
	}
	return server, nil
}

// Stop ends the server.
func (s *Server) Stop() { s.process.Process.Kill() }

// readAddresses reads the log until it has told where the server listens, and
// discards the rest.
func (s *Server) readAddresses(log io.Reader) error {
	lines := bufio.NewReader(log)
	var seen string
	for s.HTTP == "" || s.RESP == "" {
		line, err := lines.ReadString('\n')
		seen += line
		if err != nil {
			return fmt.Errorf("the server ended before it listened; it wrote:\n%s", seen)
		}
		var event struct {
			Fields struct{ Message, Protocol, Address string }
		}
		if json.Unmarshal([]byte(line), &event) != nil || event.Fields.Message != "listening" {
			continue
		}
		switch event.Fields.Protocol {
		case "http":
			s.HTTP = "http://" + event.Fields.Address
		case "resp":
			s.RESP = "redis://" + event.Fields.Address
		}
	}
	go io.Copy(io.Discard, lines)
	return nil
}

// binary finds the server to test.
func binary() (string, error) {
	path := os.Getenv("WATERCLOCK_BIN")
	if path == "" {
		path = InRepository("target/debug/waterclock")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no server at %s; build it with `cargo build` or set WATERCLOCK_BIN", path)
	}
	return path, nil
}

// InRepository is the path of a file of the repository.
func InRepository(path string) string {
	_, here, _, _ := runtime.Caller(0)
	if real, err := filepath.EvalSymlinks(here); err == nil {
		here = real
	}
	return filepath.Join(filepath.Dir(here), "../../../..", path)
}
