package waterclockgrpc_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
	waterclockgrpc "github.com/waterclock/waterclock/clients/go/grpc"
	"github.com/waterclock/waterclock/clients/go/internal/testserver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// newClient starts a Waterclock and returns a client of it.
func newClient(t *testing.T) *waterclock.Client {
	t.Helper()
	server, err := testserver.Start("testdata/waterclock.toml")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return clientOf(t, server.RESP)
}

func clientOf(t *testing.T, url string, options ...waterclock.Option) *waterclock.Client {
	t.Helper()
	options = append(options, waterclock.WithDeadline(30*time.Second))
	client, err := waterclock.New(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// serve starts a gRPC server with a health service and returns a client of it.
func serve(t *testing.T, server []grpc.ServerOption, client ...grpc.DialOption) grpc_health_v1.HealthClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := grpc.NewServer(server...)
	grpc_health_v1.RegisterHealthServer(service, health.NewServer())
	go service.Serve(listener)
	t.Cleanup(service.Stop)
	connection, err := grpc.Dial(listener.Addr().String(), append(client, grpc.WithInsecure())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return grpc_health_v1.NewHealthClient(connection)
}

func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func expectCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("got the error %v, expected %v", err, want)
	}
}

// watch opens a stream and returns the error of its first message.
func watch(ctx context.Context, service grpc_health_v1.HealthClient) error {
	stream, err := service.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func TestUnaryServer(t *testing.T) {
	limit := waterclockgrpc.UnaryServerInterceptor(newClient(t), "api", waterclockgrpc.KeyByMetadata("api-key"))
	service := serve(t, []grpc.ServerOption{grpc.UnaryInterceptor(limit)})
	ctx := within(t, time.Minute)
	alice := metadata.AppendToOutgoingContext(ctx, "api-key", "alice")
	var header, trailer metadata.MD
	call := func(ctx context.Context) error {
		_, err := service.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
		return err
	}
	for i := 0; i < 2; i++ {
		expectCode(t, call(alice), codes.OK)
		if got := header.Get("ratelimit"); len(got) != 1 || !strings.HasPrefix(got[0], `"api.burst";r=`) {
			t.Errorf("the header is %v", header)
		}
	}
	expectCode(t, call(alice), codes.ResourceExhausted)
	if got := append(header.Get("retry-after"), trailer.Get("retry-after")...); len(got) != 1 {
		t.Errorf("header %v, trailer %v", header, trailer)
	}
	wait, err := strconv.Atoi(strings.Join(trailer.Get("grpc-retry-pushback-ms"), ""))
	if err != nil || wait < 1_700_000 || wait > 1_800_000 {
		t.Errorf("a retry after %d ms, error %v", wait, err)
	}
	expectCode(t, call(ctx), codes.OK) // another key
}

func TestStreamServer(t *testing.T) {
	limit := waterclockgrpc.StreamServerInterceptor(newClient(t), "api", waterclockgrpc.KeyByPeer)
	service := serve(t, []grpc.ServerOption{grpc.StreamInterceptor(limit)})
	ctx := within(t, time.Minute)
	expectCode(t, watch(ctx, service), codes.OK)
	expectCode(t, watch(ctx, service), codes.OK)
	expectCode(t, watch(ctx, service), codes.ResourceExhausted)
}

func TestOptions(t *testing.T) {
	expensive := waterclockgrpc.ForCall(func(context.Context, string) []waterclock.CallOption {
		return []waterclock.CallOption{waterclock.Cost(3)}
	})
	skipWatch := waterclockgrpc.Skip(func(_ context.Context, method string) bool {
		return strings.HasSuffix(method, "/Watch")
	})
	client := newClient(t)
	service := serve(t, []grpc.ServerOption{
		grpc.UnaryInterceptor(waterclockgrpc.UnaryServerInterceptor(client, "api", waterclockgrpc.KeyByMethod, expensive, skipWatch)),
		grpc.StreamInterceptor(waterclockgrpc.StreamServerInterceptor(client, "api", waterclockgrpc.KeyByMethod, expensive, skipWatch)),
	})
	ctx := within(t, time.Minute)
	var trailer metadata.MD
	_, err := service.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Trailer(&trailer))
	expectCode(t, err, codes.ResourceExhausted)
	if got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ""); got != "-1" {
		t.Errorf("more than the capacity: a retry after %s ms", got)
	}
	expectCode(t, watch(ctx, service), codes.OK)
}

func TestClientsFail(t *testing.T) {
	client := newClient(t)
	service := serve(t, nil,
		grpc.WithUnaryInterceptor(waterclockgrpc.UnaryClientInterceptor(client, "api", waterclockgrpc.KeyByMethod, waterclockgrpc.Fail)),
		grpc.WithStreamInterceptor(waterclockgrpc.StreamClientInterceptor(client, "api", waterclockgrpc.KeyByMethod, waterclockgrpc.Fail)))
	ctx := within(t, time.Minute)
	for _, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		_, err := service.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		expectCode(t, err, want)
		expectCode(t, watch(ctx, service), want)
	}
	_, err := service.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	var refused *waterclock.RefusedError
	if !errors.As(err, &refused) || refused.Decision.RetryAfter < 25*time.Minute {
		t.Errorf("got the error %v", err)
	}
}

func TestClientsWait(t *testing.T) {
	client := newClient(t)
	service := serve(t, nil,
		grpc.WithUnaryInterceptor(waterclockgrpc.UnaryClientInterceptor(client, "quick", waterclockgrpc.KeyByMethod, waterclockgrpc.Wait)),
		grpc.WithStreamInterceptor(waterclockgrpc.StreamClientInterceptor(client, "api", waterclockgrpc.KeyByMethod, waterclockgrpc.Wait)))
	ctx := within(t, time.Minute)
	for i := 0; i < 4; i++ {
		_, err := service.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		expectCode(t, err, codes.OK)
	}
	// Half an hour is more than the deadline.
	for _, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		expectCode(t, watch(ctx, service), want)
	}
}

func TestWithoutADecision(t *testing.T) {
	nothing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nothing.Close()
	url := "http://" + nothing.Addr().String()
	for _, one := range []struct {
		name   string
		client *waterclock.Client
		policy string
		want   codes.Code
	}{
		{"an error", clientOf(t, url), "api", codes.Unavailable},
		{"fail closed", clientOf(t, url, waterclock.WithFailMode(waterclock.FailClosed)), "api", codes.Unavailable},
		{"fail open", clientOf(t, url, waterclock.WithFailMode(waterclock.FailOpen)), "api", codes.OK},
		{"an unknown policy", newClient(t), "nobody", codes.Internal},
	} {
		t.Run(one.name, func(t *testing.T) {
			limit := waterclockgrpc.UnaryServerInterceptor(one.client, one.policy, waterclockgrpc.KeyByPeer)
			wait := waterclockgrpc.UnaryClientInterceptor(one.client, one.policy, waterclockgrpc.KeyByMethod, waterclockgrpc.Wait)
			for _, service := range []grpc_health_v1.HealthClient{
				serve(t, []grpc.ServerOption{grpc.UnaryInterceptor(limit)}),
				serve(t, nil, grpc.WithUnaryInterceptor(wait)),
			} {
				var trailer metadata.MD
				_, err := service.Check(within(t, time.Minute), &grpc_health_v1.HealthCheckRequest{}, grpc.Trailer(&trailer))
				expectCode(t, err, one.want)
				if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 0 {
					t.Errorf("no limit refused, but a retry after %v ms", got)
				}
			}
		})
	}
}
