package waterclock

import (
	"context"
	"time"
)

// A Limiter is one key of a policy, in the shape of a Limiter of
// golang.org/x/time/rate. The server has its state, so every method takes a
// context.
type Limiter struct {
	client      *Client
	policy, key string
	options     []CallOption
}

// Limiter returns the limiter of one key. The options apply to all its calls;
// methods with an n charge n in place of a cost among them.
func (c *Client) Limiter(policy, key string, options ...CallOption) *Limiter {
	return &Limiter{client: c, policy: policy, key: key, options: options}
}

// with adds an option to those of the limiter, which it may replace.
func (l *Limiter) with(option CallOption) *Limiter {
	options := append(append([]CallOption{}, l.options...), option)
	return &Limiter{client: l.client, policy: l.policy, key: l.key, options: options}
}

// Allow says whether one event may happen now, and charges it. When there is no
// decision, it refuses unless the client is [FailOpen].
func (l *Limiter) Allow(ctx context.Context) bool {
	decision, err := l.client.Check(ctx, l.policy, l.key, l.options...)
	if err != nil {
		l.client.settings.onError(err)
		return false
	}
	return decision.Allowed
}

// AllowN is Allow for n events.
func (l *Limiter) AllowN(ctx context.Context, n int) bool { return l.with(Cost(n)).Allow(ctx) }

// Reserve reserves one event; see [Client.Reserve]. Unlike a reservation of
// golang.org/x/time/rate, it does not borrow from the future: it is OK now, or
// tells the delay after which to try again. When there is no decision, it is not
// OK unless the client is [FailOpen].
func (l *Limiter) Reserve(ctx context.Context) *Reservation {
	options := make([]ReserveOption, len(l.options))
	for i, option := range l.options {
		options[i] = option
	}
	reservation, err := l.client.Reserve(ctx, l.policy, l.key, options...)
	if err != nil {
		l.client.settings.onError(err)
		refusal := Decision{Policy: l.policy, Key: l.key, Source: SourceUnavailable}
		refusal.Limit, refusal.Remaining, refusal.RetryAfter = Unbounded, Unbounded, Never
		return &Reservation{Decision: refusal, client: l.client}
	}
	return reservation
}

// ReserveN is Reserve for n events.
func (l *Limiter) ReserveN(ctx context.Context, n int) *Reservation {
	return l.with(Cost(n)).Reserve(ctx)
}

// Wait waits until one event may happen, and charges it. It returns a
// [RefusedError] at once if that would be after the context's deadline, or
// never. A context without a deadline waits for as long as it takes.
func (l *Limiter) Wait(ctx context.Context) error {
	for {
		decision, err := l.client.Wait(ctx, l.policy, l.key, waitable(ctx), l.options...)
		if err != nil {
			return err
		}
		if decision.Allowed {
			return nil
		}
		left, bounded := timeLeft(ctx)
		if decision.RetryAfter == Never || bounded && decision.RetryAfter >= left {
			return &RefusedError{Decision: decision}
		}
		if err := sleep(ctx, untilInReach(decision.RetryAfter)); err != nil {
			return err
		}
	}
}

// WaitN is Wait for n events.
func (l *Limiter) WaitN(ctx context.Context, n int) error { return l.with(Cost(n)).Wait(ctx) }

// Tokens is how many units the key has left, or [Unbounded].
func (l *Limiter) Tokens(ctx context.Context) (int64, error) {
	decision, err := l.client.Peek(ctx, l.policy, l.key, l.options...)
	return decision.Remaining, err
}

// Burst is how many units can pass at once, or [Unbounded].
func (l *Limiter) Burst(ctx context.Context) (int64, error) {
	decision, err := l.client.Peek(ctx, l.policy, l.key, l.options...)
	return decision.Limit, err
}

const (
	// maxWithin is the longest that the server lets a call wait.
	maxWithin = 60 * time.Second
	// answerMargin is what is left of a context's deadline for the answer.
	answerMargin = 50 * time.Millisecond
	// shortestPause keeps a call that the server turns away from spinning.
	shortestPause = 50 * time.Millisecond
)

// waitable is how long one call may wait: within the context's deadline, with
// time for the answer.
func waitable(ctx context.Context) time.Duration {
	left, bounded := timeLeft(ctx)
	switch {
	case !bounded || left > maxWithin+answerMargin:
		return maxWithin
	case left > 2*answerMargin:
		return left - answerMargin
	case left > 0:
		return left / 2
	default:
		return 0
	}
}

// untilInReach is how long to pause before a wait that was refused is within
// what the server lets a call wait; if it was in reach already, the line was
// full or slower than expected.
func untilInReach(retry time.Duration) time.Duration {
	pause := retry
	if retry > maxWithin {
		pause = retry - maxWithin
	}
	if pause < shortestPause {
		return shortestPause
	}
	return pause
}

// timeLeft is the time until the context's deadline; false if it has none.
func timeLeft(ctx context.Context) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	return time.Until(deadline), ok
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
