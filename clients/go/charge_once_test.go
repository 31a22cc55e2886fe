package waterclock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
)

// closing is a server that answers so many requests of each connection, reads
// one more and closes the connection.
type closing struct {
	url      string
	answers  int
	requests atomic.Int64
}

func startClosing(t *testing.T, scheme string, answers int) *closing {
	listener := listen(t)
	server := &closing{url: scheme + "://" + listener.Addr().String(), answers: answers}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go server.serve(connection, scheme)
		}
	}()
	return server
}

func (s *closing) serve(connection net.Conn, scheme string) {
	defer connection.Close()
	reader := bufio.NewReader(connection)
	for answered := 0; ; answered++ {
		read, answer := readRESP, "$16\r\n{\"allowed\":true}\r\n"
		if scheme == "http" {
			read = readHTTP
			answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"allowed\":true}"
		}
		if read(reader) != nil {
			return
		}
		s.requests.Add(1)
		if answered == s.answers {
			return
		}
		io.WriteString(connection, answer)
	}
}

func readHTTP(reader *bufio.Reader) error {
	request, err := http.ReadRequest(reader)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, request.Body)
	return err
}

func readRESP(reader *bufio.Reader) error {
	var arguments int
	if _, err := fmt.Fscanf(reader, "*%d\r\n", &arguments); err != nil {
		return err
	}
	for i := 0; i < 2*arguments; i++ { // each has a line for its length
		if _, err := reader.ReadString('\n'); err != nil {
			return err
		}
	}
	return nil
}

// The same on a connection that was used before: there, HTTP clients like to
// try again.
func TestACallOnAReusedConnectionIsNotRepeated(t *testing.T) {
	for _, scheme := range []string{"http", "redis"} {
		t.Run(scheme, func(t *testing.T) {
			server := startClosing(t, scheme, 1)
			client := newClient(t, server.url, waterclock.WithMaxConnections(1))
			ctx := within(t, time.Minute)
			if _, err := client.Check(ctx, "burst", "alice"); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Check(ctx, "burst", "alice"); !errors.Is(err, waterclock.ErrUnavailable) {
				t.Errorf("got the error %v", err)
			}
			if n := server.requests.Load(); n != 2 {
				t.Errorf("the server got %d requests, expected 2", n)
			}
		})
	}
}

func TestACallThatWasSentIsNotRepeated(t *testing.T) {
	calls := map[string]func(context.Context, *waterclock.Client) error{
		"check": func(ctx context.Context, c *waterclock.Client) error {
			_, err := c.Check(ctx, "burst", "alice")
			return err
		},
		"check all": func(ctx context.Context, c *waterclock.Client) error {
			_, err := c.CheckAll(ctx, waterclock.NewCharge("burst", "alice"))
			return err
		},
		"wait": func(ctx context.Context, c *waterclock.Client) error {
			_, err := c.Wait(ctx, "burst", "alice", time.Second)
			return err
		},
		"refund": func(ctx context.Context, c *waterclock.Client) error {
			_, err := c.Refund(ctx, "burst", "alice")
			return err
		},
		"report": func(ctx context.Context, c *waterclock.Client) error {
			_, err := c.Report(ctx, "burst", "alice", waterclock.Cost(3))
			return err
		},
		"reserve": func(ctx context.Context, c *waterclock.Client) error {
			_, err := c.Reserve(ctx, "burst", "alice")
			return err
		},
		"limiter wait": func(ctx context.Context, c *waterclock.Client) error {
			return c.Limiter("burst", "alice").Wait(ctx)
		},
	}
	for _, scheme := range []string{"http", "redis"} {
		for name, call := range calls {
			t.Run(scheme+"/"+name, func(t *testing.T) {
				server := startClosing(t, scheme, 0)
				err := call(within(t, time.Minute), newClient(t, server.url))
				if !errors.Is(err, waterclock.ErrUnavailable) {
					t.Errorf("got the error %v", err)
				}
				if n := server.requests.Load(); n != 1 {
					t.Errorf("the server got %d requests, expected 1", n)
				}
			})
		}
	}
}
