package waterclock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Client asks one Waterclock server. It is safe for concurrent use and keeps
// connections open: make one per program.
type Client struct {
	transport transport
	settings  settings
	// waits has a place for each call of Wait that is with the server.
	waits  chan struct{}
	closed atomic.Bool
}

// New returns a client of the server at this URL: http://host:8080,
// https://host, redis://host:6380 or rediss://host, with a token as
// redis://:TOKEN@host:6380 or [WithToken]. It does not connect yet.
func New(url string, options ...Option) (*Client, error) {
	s := defaults()
	for _, option := range options {
		option(&s)
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	transport, err := newTransport(url, s)
	if err != nil {
		return nil, err
	}
	return &Client{transport: transport, settings: s, waits: make(chan struct{}, s.maxWaits)}, nil
}

// Close closes the connections. Later calls fail.
func (c *Client) Close() {
	if !c.closed.Swap(true) {
		c.transport.close()
	}
}

// Check charges the key if the policy admits the cost. A refusal is a Decision,
// not an error.
func (c *Client) Check(ctx context.Context, policy, key string, options ...CallOption) (Decision, error) {
	return c.decideOrFallBack(ctx, verbCheck, ask(policy, key, options))
}

// Peek is a check that charges nothing.
func (c *Client) Peek(ctx context.Context, policy, key string, options ...CallOption) (Decision, error) {
	return c.decideOrFallBack(ctx, verbPeek, ask(policy, key, options))
}

// Wait waits until the policy admits the cost, in line with other callers, for
// at most within (60 s) and the context's deadline. If it would take longer, it
// is refused at once. Cancelling the context leaves the line.
func (c *Client) Wait(ctx context.Context, policy, key string, within time.Duration, options ...CallOption) (Decision, error) {
	q := ask(policy, key, options)
	q.within = within
	if left, bounded := timeLeft(ctx); bounded && left < within && within <= maxWithin {
		q.within = waitable(ctx)
	}
	return c.decideOrFallBack(ctx, verbWait, q)
}

// Refund gives units back to the key and answers like a peek right after it.
func (c *Client) Refund(ctx context.Context, policy, key string, options ...CallOption) (Decision, error) {
	return c.decide(ctx, verbRefund, ask(policy, key, options))
}

// Reset clears what the key has used and answers like a peek right after it.
func (c *Client) Reset(ctx context.Context, policy, key string) (Decision, error) {
	return c.decide(ctx, verbReset, ask(policy, key, nil))
}

// Report tells an error-rate limit an [Outcome], or charges a [Cost] or [Units]
// that are known only afterwards, into debt if there is no room. It answers
// like a peek right after it.
func (c *Client) Report(ctx context.Context, policy, key string, what Reportable, options ...CallOption) (Decision, error) {
	q := ask(policy, key, options)
	what.report(&q)
	if outcome, ok := what.(Outcome); ok && outcome != Succeeded && outcome != Failed {
		return Decision{}, invalid("the outcome is %q; report Succeeded or Failed", string(outcome))
	}
	return c.decide(ctx, verbReport, q)
}

// CheckAll charges all of the charges, or none. Over the Redis protocol they
// must have the same tier and factor.
func (c *Client) CheckAll(ctx context.Context, charges ...Charge) (Batch, error) {
	questions := make([]question, len(charges))
	for i, charge := range charges {
		questions[i] = charge.question
	}
	op := fmt.Sprintf("check of %d charges", len(charges))
	var batch Batch
	err := c.call(ctx, op, 0, func(ctx context.Context) (err error) {
		for _, q := range questions {
			if err := checkAmount(q.cost); err != nil {
				return err
			}
		}
		batch, err = c.transport.checkAll(ctx, questions)
		return err
	})
	if err == nil {
		return batch, nil
	}
	fallback := Batch{Allowed: true}
	for _, q := range questions {
		decision, ok := c.settings.failMode.fallback(q, err)
		if !ok {
			return Batch{}, err
		}
		fallback.Allowed = fallback.Allowed && decision.Allowed
		fallback.Decisions = append(fallback.Decisions, decision)
	}
	c.settings.onError(err)
	return fallback, nil
}

// decideOrFallBack asks, and applies the fail mode if the server cannot be asked.
func (c *Client) decideOrFallBack(ctx context.Context, verb verb, q question) (Decision, error) {
	decision, err := c.decide(ctx, verb, q)
	if err != nil {
		if fallback, ok := c.settings.failMode.fallback(q, err); ok {
			c.settings.onError(err)
			return fallback, nil
		}
	}
	return decision, err
}

func (c *Client) decide(ctx context.Context, verb verb, q question) (decision Decision, err error) {
	op := fmt.Sprintf("%s of %q", verb, q.policy)
	err = c.call(ctx, op, q.within, func(ctx context.Context) (err error) {
		if err := checkAmount(q.cost); err != nil {
			return err
		}
		if verb == verbWait {
			leave, err := c.enterWait(ctx, &q)
			if err != nil {
				return err
			}
			defer leave()
		}
		decision, err = c.transport.decide(ctx, verb, q)
		return err
	})
	return decision, err
}

// enterWait takes one of the places for waiting calls. The time that this takes
// counts as waited.
func (c *Client) enterWait(ctx context.Context, q *question) (leave func(), err error) {
	leave = func() { <-c.waits }
	select {
	case c.waits <- struct{}{}:
		return leave, nil
	default:
	}
	began := time.Now()
	timer := time.NewTimer(q.within)
	defer timer.Stop()
	select {
	case c.waits <- struct{}{}:
		q.within -= time.Since(began)
		if q.within < 0 {
			q.within = 0
		}
		return leave, nil
	case <-timer.C:
		return nil, &Error{
			Kind:    ErrUnavailable,
			Message: fmt.Sprintf("all %d places for waiting calls were taken; raise WithMaxWaits", cap(c.waits)),
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// call runs one call within the deadline, and more that the server may take.
// Its errors are *Error, or the caller's own cancellation.
func (c *Client) call(ctx context.Context, op string, more time.Duration, do func(context.Context) error) error {
	if c.closed.Load() {
		return &Error{Kind: ErrInvalid, Op: op, Message: "the client is closed"}
	}
	if more < 0 {
		return &Error{Kind: ErrInvalid, Op: op, Message: fmt.Sprintf("cannot wait for %v; wait for 0 or longer", more)}
	}
	bounded, cancel := context.WithTimeout(ctx, c.settings.deadline+more)
	defer cancel()
	// A context that is over asks nothing.
	err := bounded.Err()
	if err == nil {
		err = do(bounded)
	}
	if err == nil {
		return nil
	}
	var failure *Error
	if errors.As(err, &failure) {
		named := *failure
		named.Op = op
		return &named
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("waterclock: %s: %w", op, context.Canceled)
	}
	message := "the server cannot be asked; check its address and that it runs"
	if bounded.Err() != nil {
		err = context.DeadlineExceeded
		message = "the server did not answer in time; check its address and that it runs"
	}
	return &Error{Kind: ErrUnavailable, Op: op, Message: message, Err: err}
}
