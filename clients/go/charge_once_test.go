package waterclock_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
)

// closing is a server that reads one request of each connection and closes it.
type closing struct {
	url      string
	requests atomic.Int64
}

func startClosing(t *testing.T, scheme string) *closing {
	listener := listen(t)
	server := &closing{url: scheme + "://" + listener.Addr().String()}
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
	if scheme == "http" {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		s.requests.Add(1)
		request.Body.Close()
		return
	}
	line, err := reader.ReadString('\n')
	if err == nil && strings.HasPrefix(line, "*") {
		s.requests.Add(1)
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
				server := startClosing(t, scheme)
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
