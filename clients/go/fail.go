package waterclock

import "errors"

// FailMode says what Check, CheckAll, Peek, Wait and Reserve do when the server
// cannot be asked, or not before the context's deadline. Calls that the server
// rejects ([ErrInvalid], [ErrUnauthorized]) and calls that the caller cancels
// fail in every mode.
type FailMode int

const (
	// FailWithError returns the error. Calls without an error, such as
	// [Limiter.Allow], refuse.
	FailWithError FailMode = iota
	// FailOpen admits, except where the policy itself denies while its store
	// fails (on_store_error = "deny").
	FailOpen
	// FailClosed refuses.
	FailClosed
)

// fallback is the decision that the fail mode puts in place of an error; false
// if the error stands.
func (m FailMode) fallback(q question, err error) (Decision, bool) {
	if m == FailWithError || !errors.Is(err, ErrUnavailable) {
		return Decision{}, false
	}
	decision := Decision{
		Policy:     q.policy,
		Key:        q.key,
		Cost:       1,
		Limit:      Unbounded,
		Remaining:  Unbounded,
		RetryAfter: Never,
		NextUnit:   Never,
		NextSame:   Never,
		Source:     SourceUnavailable,
	}
	switch cost := q.cost.(type) {
	case Cost:
		decision.Cost = int64(cost)
	case Units:
		decision.Cost, decision.CostUnits = cost[requests], cost
	}
	var failure *Error
	if m == FailOpen && errors.As(err, &failure) && !failure.Denied {
		decision.Allowed = true
		decision.Granted, decision.GrantedUnits = decision.Cost, decision.CostUnits
		decision.RetryAfter, decision.NextSame = 0, 0
	}
	return decision, true
}
