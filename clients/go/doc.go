// Package waterclock is the Go client of Waterclock, an exact rate limiter.
//
// A [Client] asks a Waterclock server, over HTTP or the Redis protocol, whether
// a key may do something under a policy:
//
//	client, err := waterclock.New("http://127.0.0.1:8080")
//	decision, err := client.Check(ctx, "login", "alice")
//	if decision.Allowed { … }
//
// The limits are the server's: a policy is a name in its configuration. The
// same client offers a [Limiter] in the shape of golang.org/x/time/rate, a
// [Keyed] limiter, and [Middleware] for net/http.
//
// The client never repeats a call that may have been charged: once a byte of it
// was sent, a failure is an error. [FailOpen] and [FailClosed] turn such an
// error into a decision.
package waterclock
