package waterclockgrpc

import (
	"context"

	waterclock "github.com/waterclock/waterclock/clients/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// UnaryServerInterceptor checks each unary call before its handler. The header
// metadata of the answer has the policy's header fields; that of a refusal also
// has the trailer grpc-retry-pushback-ms, which retrying clients obey.
func UnaryServerInterceptor(client *waterclock.Client, policy string, key KeyFunc, options ...Option) grpc.UnaryServerInterceptor {
	l := newLimit(client, policy, key, options)
	return func(ctx context.Context, request interface{}, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (interface{}, error) {
		err := l.admit(ctx, info.FullMethod, unaryAnswer{ctx})
		if err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}
}

// StreamServerInterceptor checks each stream once, before its handler.
func StreamServerInterceptor(client *waterclock.Client, policy string, key KeyFunc, options ...Option) grpc.StreamServerInterceptor {
	l := newLimit(client, policy, key, options)
	return func(server interface{}, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if err := l.admit(stream.Context(), info.FullMethod, streamAnswer{stream}); err != nil {
			return err
		}
		return handler(server, stream)
	}
}

// answer is where metadata of the response goes.
type answer interface {
	setHeader(metadata.MD)
	setTrailer(metadata.MD)
}

type unaryAnswer struct{ ctx context.Context }

// Errors would mean that the header was sent already, which is not so here.
func (a unaryAnswer) setHeader(fields metadata.MD)  { _ = grpc.SetHeader(a.ctx, fields) }
func (a unaryAnswer) setTrailer(fields metadata.MD) { _ = grpc.SetTrailer(a.ctx, fields) }

type streamAnswer struct{ stream grpc.ServerStream }

func (a streamAnswer) setHeader(fields metadata.MD)  { _ = a.stream.SetHeader(fields) }
func (a streamAnswer) setTrailer(fields metadata.MD) { a.stream.SetTrailer(fields) }

func (l *limit) admit(ctx context.Context, method string, answer answer) error {
	if l.skip(ctx, method) {
		return nil
	}
	decision, err := l.check(ctx, method)
	if err != nil {
		return withStatus(err)
	}
	answer.setHeader(metadata.New(decision.Headers))
	if decision.Allowed {
		return nil
	}
	if decision.Source != waterclock.SourceUnavailable {
		answer.setTrailer(pushback(decision))
	}
	return refusal(decision)
}
