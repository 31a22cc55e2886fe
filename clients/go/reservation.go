package waterclock

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// A Reservation holds an estimate until it is settled: committed with what was
// really used, or cancelled. It is not safe for concurrent use.
type Reservation struct {
	// Decision is the answer to the reservation.
	Decision Decision
	// ID is the reservation's id; "" if it was refused or made up by the fail mode.
	ID string
	// ExpiresIn is how long after the call the reservation expires.
	ExpiresIn time.Duration

	client *Client
	// estimate is what Settle commits unless the caller decides otherwise.
	estimate Amount
	// begun is the caller's own Commit or Cancel, which Settle repeats if it
	// failed.
	begun func(context.Context) error
	// settled means that the last Commit or Cancel succeeded.
	settled bool
}

// Reserve charges an estimate that is settled later. Options are [Cost] or
// [Units], [Tier], [Factor], [TTL], [ID] and [Release]. A refusal is a
// Reservation that is not OK. Settle it with:
//
//	defer reservation.Settle(&err)
func (c *Client) Reserve(ctx context.Context, policy, key string, options ...ReserveOption) (*Reservation, error) {
	q := question{policy: policy, key: key}
	for _, option := range options {
		option.apply(&q)
	}
	decision, err := c.decideOrFallBack(ctx, verbReserve, q)
	if err != nil {
		return nil, err
	}
	reservation := &Reservation{Decision: decision, client: c}
	if !decision.Allowed || decision.Source == SourceUnavailable {
		return reservation, nil
	}
	var read struct {
		Reservation struct {
			ID        string `json:"id"`
			ExpiresIn micros `json:"expires_in_us"`
		} `json:"reservation"`
	}
	if err := json.Unmarshal(decision.Raw, &read); err != nil || read.Reservation.ID == "" {
		return nil, &Error{
			Kind: ErrUnavailable, Op: fmt.Sprintf("reserve of %q", policy),
			Message: "the answer has no reservation; check the server's version", Err: err,
		}
	}
	reservation.ID = read.Reservation.ID
	reservation.ExpiresIn = time.Duration(read.Reservation.ExpiresIn)
	reservation.estimate = Cost(decision.Cost)
	if decision.CostUnits != nil {
		reservation.estimate = decision.CostUnits
	}
	return reservation, nil
}

// OK says whether the estimate was reserved.
func (r *Reservation) OK() bool { return r.Decision.Allowed }

// Delay is how long to wait before reserving again: 0 if the reservation is OK,
// [InfDuration] if the estimate can never be reserved. Unlike a reservation of
// golang.org/x/time/rate, one that is OK needs no delay.
func (r *Reservation) Delay() time.Duration {
	switch {
	case r.OK():
		return 0
	case r.Decision.RetryAfter == Never:
		return InfDuration
	default:
		return r.Decision.RetryAfter
	}
}

// InfDuration is the delay of a reservation that can never be made.
const InfDuration = time.Duration(math.MaxInt64)

// Commit settles the reservation with what was really used. The rest is given
// back; what is missing is charged, into debt if necessary. It can be repeated.
// A reservation that is not OK cannot be committed: the error is [ErrInvalid].
func (r *Reservation) Commit(ctx context.Context, used Amount) error {
	if !r.OK() {
		return &Error{Kind: ErrInvalid, Op: r.op("commit"), Message: "the reservation was refused; check OK first"}
	}
	return r.settle(ctx, "commit", func(ctx context.Context) error {
		if err := checkAmount(used); err != nil {
			return err
		}
		return r.client.transport.commit(ctx, r.ID, used)
	})
}

// Cancel gives everything back; if the reservation was refused, there is nothing
// to give back. It can be repeated.
func (r *Reservation) Cancel(ctx context.Context) error {
	return r.settle(ctx, "cancel", func(ctx context.Context) error {
		return r.client.transport.cancel(ctx, r.ID)
	})
}

// Settle settles the reservation when a function ends, unless Commit or Cancel
// did. It is made for defer, with the function's named error:
//
//	defer reservation.Settle(&err)
//
// It cancels if *err is an error or the function panics, and otherwise commits
// the estimate. A Commit or Cancel that failed is repeated. Settle works after
// the function's context has ended, within the client's deadline. If it fails, the
// error handler is told, and the reservation expires.
func (r *Reservation) Settle(err *error) {
	panicked := recover()
	if !r.settled && r.ID != "" {
		ctx := context.Background()
		var failure error
		switch {
		case r.begun != nil:
			failure = r.begun(ctx)
		case panicked != nil || *err != nil:
			failure = r.Cancel(ctx)
		default:
			failure = r.Commit(ctx, r.estimate)
		}
		if failure != nil {
			r.client.settings.onError(failure)
		}
	}
	if panicked != nil {
		panic(panicked)
	}
}

func (r *Reservation) settle(ctx context.Context, verb string, do func(context.Context) error) error {
	if r.ID == "" {
		return nil // refused or made up: the server holds nothing
	}
	r.begun = func(ctx context.Context) error {
		return r.client.call(ctx, r.op(verb), 0, do)
	}
	err := r.begun(ctx)
	r.settled = err == nil
	return err
}

// op is what was asked, for an error.
func (r *Reservation) op(verb string) string {
	return fmt.Sprintf("%s of a reservation of %q", verb, r.Decision.Policy)
}
