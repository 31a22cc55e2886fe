package waterclock

import (
	"errors"
	"fmt"
)

// The kinds of failure, for errors.Is.
var (
	// ErrInvalid means that the server rejected the call: bad input, an
	// unknown policy or an unknown reservation. Repeating it does not help.
	ErrInvalid = errors.New("waterclock: invalid call")
	// ErrUnauthorized means that the token is missing, wrong, or lacks a role.
	ErrUnauthorized = errors.New("waterclock: not authorized")
	// ErrUnavailable means that there is no decision: no connection, no answer
	// in time, an overloaded server, or a store that failed.
	ErrUnavailable = errors.New("waterclock: unavailable")
	// ErrRefused means that a limit refused; see [RefusedError]. Only calls
	// that do not return a Decision report a refusal as an error.
	ErrRefused = errors.New("waterclock: refused")
)

// Error is a call that failed. errors.Is tells its kind: [ErrInvalid],
// [ErrUnauthorized] or [ErrUnavailable].
type Error struct {
	// Kind is ErrInvalid, ErrUnauthorized or ErrUnavailable.
	Kind error
	// Op is what was asked, such as `check of "login"`.
	Op string
	// Message says what happened, in the server's words if it answered.
	Message string
	// Status is the HTTP status; 0 over the Redis protocol or without an answer.
	Status int
	// Field is the field of the call that the server rejected, if it names one.
	Field string
	// Denied means that the store failed and the policy has
	// on_store_error = "deny". FailOpen does not admit such a call.
	Denied bool
	// Err is the cause, such as a network error; may be nil.
	Err error
}

func (e *Error) Error() string {
	text := "waterclock: "
	if e.Op != "" {
		text += e.Op + ": "
	}
	text += e.Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is makes errors.Is recognize the kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// RefusedError is a refusal where a call returns only an error, such as
// [Limiter.Wait]. errors.Is(err, ErrRefused) recognizes it.
type RefusedError struct {
	Decision Decision
}

func (e *RefusedError) Error() string {
	d := e.Decision
	switch {
	case d.Source == SourceUnavailable:
		return fmt.Sprintf("waterclock: policy %q refused: the server cannot be asked, and the client fails closed", d.Policy)
	case d.RetryAfter == Never:
		return fmt.Sprintf("waterclock: policy %q refused, and no later call of this cost passes", d.Policy)
	default:
		return fmt.Sprintf("waterclock: policy %q refused; retry after %v", d.Policy, d.RetryAfter)
	}
}

// Is makes errors.Is recognize ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

func invalid(format string, arguments ...any) *Error {
	return &Error{Kind: ErrInvalid, Message: fmt.Sprintf(format, arguments...)}
}
