package waterclockgrpc

import (
	"context"

	waterclock "github.com/waterclock/waterclock/clients/go"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// KeyFunc tells the key of a call. The method is written /package.Service/Method.
type KeyFunc func(ctx context.Context, method string) string

// KeyByPeer is the [waterclock.AddressKey] of the connection. Behind a proxy that
// is the proxy.
func KeyByPeer(ctx context.Context, _ string) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return waterclock.AddressKey(from.Addr.String())
}

// KeyByMetadata is the first value of a field of the incoming metadata, such as
// an API key. Calls without the field share the key "".
func KeyByMetadata(name string) KeyFunc {
	return func(ctx context.Context, _ string) string {
		incoming, _ := metadata.FromIncomingContext(ctx)
		if values := incoming.Get(name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// KeyByMethod is the method: all callers share its limit.
func KeyByMethod(_ context.Context, method string) string { return method }

// An Option configures an interceptor.
type Option func(*limit)

// ForCall adds options to the check of a call: what it costs, its tier.
func ForCall(options func(ctx context.Context, method string) []waterclock.CallOption) Option {
	return func(l *limit) { l.options = options }
}

// Skip lets calls pass without a check.
func Skip(skip func(ctx context.Context, method string) bool) Option {
	return func(l *limit) { l.skip = skip }
}

// limit is what all interceptors have in common.
type limit struct {
	client  *waterclock.Client
	policy  string
	key     KeyFunc
	options func(context.Context, string) []waterclock.CallOption
	skip    func(context.Context, string) bool
}

func newLimit(client *waterclock.Client, policy string, key KeyFunc, options []Option) *limit {
	l := &limit{
		client:  client,
		policy:  policy,
		key:     key,
		options: func(context.Context, string) []waterclock.CallOption { return nil },
		skip:    func(context.Context, string) bool { return false },
	}
	for _, option := range options {
		option(l)
	}
	return l
}

func (l *limit) check(ctx context.Context, method string) (waterclock.Decision, error) {
	return l.client.Check(ctx, l.policy, l.key(ctx, method), l.options(ctx, method)...)
}
