package waterclock

import (
	"context"
	"time"
)

// Keyed is a policy for any number of keys.
type Keyed struct {
	client  *Client
	policy  string
	options []CallOption
}

// Keyed returns the limiter of all keys of a policy. The options apply to all
// its calls.
func (c *Client) Keyed(policy string, options ...CallOption) *Keyed {
	return &Keyed{client: c, policy: policy, options: options}
}

// Allow says whether the key may do one thing now, and charges it. When there
// is no decision, it refuses unless the client is [FailOpen].
func (k *Keyed) Allow(ctx context.Context, key string) bool { return k.Limiter(key).Allow(ctx) }

// Remaining is how many units the key has left, or [Unbounded].
func (k *Keyed) Remaining(ctx context.Context, key string) (int64, error) {
	return k.Limiter(key).Tokens(ctx)
}

// RetryAt is when the key is admitted again: now if it is already. If it never
// is, the error is a [RefusedError].
func (k *Keyed) RetryAt(ctx context.Context, key string) (time.Time, error) {
	decision, err := k.client.Peek(ctx, k.policy, key, k.options...)
	if err != nil {
		return time.Time{}, err
	}
	if decision.RetryAfter == Never {
		return time.Time{}, &RefusedError{Decision: decision}
	}
	return time.Now().Add(decision.RetryAfter), nil
}

// Limiter returns the limiter of one key.
func (k *Keyed) Limiter(key string) *Limiter {
	return k.client.Limiter(k.policy, key, k.options...)
}
