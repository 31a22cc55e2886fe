package waterclockgrpc

import (
	"context"

	waterclock "github.com/waterclock/waterclock/clients/go"
	"google.golang.org/grpc"
)

// Mode is what a client interceptor does when a limit is reached.
type Mode int

const (
	// Fail fails the call at once, with codes.ResourceExhausted.
	Fail Mode = iota
	// Wait waits until the call may be made, within its context's deadline. A
	// call that would have to wait for longer fails at once.
	Wait
)

// UnaryClientInterceptor limits the unary calls that a client makes.
func UnaryClientInterceptor(client *waterclock.Client, policy string, key KeyFunc, mode Mode, options ...Option) grpc.UnaryClientInterceptor {
	l := newLimit(client, policy, key, options)
	return func(ctx context.Context, method string, request, reply interface{}, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, callOptions ...grpc.CallOption) error {
		if err := l.acquire(ctx, method, mode); err != nil {
			return err
		}
		return invoke(ctx, method, request, reply, connection, callOptions...)
	}
}

// StreamClientInterceptor limits the streams that a client opens.
func StreamClientInterceptor(client *waterclock.Client, policy string, key KeyFunc, mode Mode, options ...Option) grpc.StreamClientInterceptor {
	l := newLimit(client, policy, key, options)
	return func(ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string, open grpc.Streamer, callOptions ...grpc.CallOption) (grpc.ClientStream, error) {
		if err := l.acquire(ctx, method, mode); err != nil {
			return nil, err
		}
		return open(ctx, description, connection, method, callOptions...)
	}
}

func (l *limit) acquire(ctx context.Context, method string, mode Mode) error {
	if l.skip(ctx, method) {
		return nil
	}
	if mode == Wait {
		limiter := l.client.Limiter(l.policy, l.key(ctx, method), l.options(ctx, method)...)
		if err := limiter.Wait(ctx); err != nil {
			return withStatus(err)
		}
		return nil
	}
	decision, err := l.check(ctx, method)
	if err != nil {
		return withStatus(err)
	}
	if !decision.Allowed {
		return refusal(decision)
	}
	return nil
}
