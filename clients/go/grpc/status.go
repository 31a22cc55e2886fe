package waterclockgrpc

import (
	"context"
	"errors"
	"strconv"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// statusError is an error of the client with the status that gRPC reports for it.
type statusError struct {
	error
	status *status.Status
}

func (e statusError) GRPCStatus() *status.Status { return e.status }

func (e statusError) Unwrap() error { return e.error }

// refusal is the error of a refused call.
func refusal(decision waterclock.Decision) error {
	return withStatus(&waterclock.RefusedError{Decision: decision})
}

// withStatus gives an error its status. What a caller is told names no key.
func withStatus(err error) error {
	var refused *waterclock.RefusedError
	switch {
	case errors.Is(err, context.Canceled):
		return statusError{err, status.New(codes.Canceled, "the call was cancelled")}
	case errors.As(err, &refused) && refused.Decision.Source != waterclock.SourceUnavailable:
		return statusError{err, status.New(codes.ResourceExhausted, "the call exceeds a rate limit")}
	case refused != nil, errors.Is(err, waterclock.ErrUnavailable):
		return statusError{err, status.New(codes.Unavailable, "the rate limiter cannot be asked")}
	case errors.Is(err, context.DeadlineExceeded):
		return statusError{err, status.New(codes.DeadlineExceeded, "the call's deadline passed while it waited for a rate limit")}
	default:
		return statusError{err, status.New(codes.Internal, "the rate limit of this call cannot be checked")}
	}
}

// pushback tells clients with a retry policy when to retry, in milliseconds;
// a negative number is never.
func pushback(decision waterclock.Decision) metadata.MD {
	wait := int64(-1)
	if decision.RetryAfter != waterclock.Never {
		wait = int64((decision.RetryAfter + time.Millisecond - 1) / time.Millisecond)
	}
	return metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(wait, 10))
}
