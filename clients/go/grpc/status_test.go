package waterclockgrpc

import (
	"context"
	"fmt"
	"testing"

	waterclock "github.com/waterclock/waterclock/clients/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestDeadlines(t *testing.T) {
	late := &waterclock.Error{Kind: waterclock.ErrUnavailable, Err: context.DeadlineExceeded}
	for err, want := range map[error]codes.Code{
		context.DeadlineExceeded:      codes.DeadlineExceeded, // of the call, between two attempts to wait
		fmt.Errorf("asked: %w", late): codes.Unavailable,      // of the question to the server
	} {
		if got := status.Code(withStatus(err)); got != want {
			t.Errorf("%v: got %v, expected %v", err, got, want)
		}
	}
}
