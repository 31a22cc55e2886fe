package waterclock

import (
	"crypto/tls"
	"time"
)

// An Option configures a [Client].
type Option func(*settings)

type settings struct {
	token          string
	deadline       time.Duration
	failMode       FailMode
	onError        func(error)
	tls            *tls.Config
	maxConnections int
	maxWaits       int
}

func defaults() settings {
	return settings{deadline: time.Second, maxConnections: 64, maxWaits: 64, onError: new(errorLog).handle}
}

func (s settings) validate() error {
	switch {
	case s.deadline <= 0:
		return invalid("the deadline is %v; it must be above 0", s.deadline)
	case s.maxConnections < 1:
		return invalid("the most connections are %d; at least 1 is needed", s.maxConnections)
	case s.maxWaits < 1:
		return invalid("the most waiting calls are %d; at least 1 is needed", s.maxWaits)
	}
	return nil
}

// WithToken authenticates every call. It takes precedence over a token in the URL.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithDeadline bounds every call: how long to connect, send and read the
// answer. [Client.Wait] may take this much longer than it waits. The default is
// one second. A context may end a call sooner.
func WithDeadline(deadline time.Duration) Option {
	return func(s *settings) { s.deadline = deadline }
}

// WithFailMode says what happens when the server cannot be asked. The default
// is [FailWithError].
func WithFailMode(mode FailMode) Option { return func(s *settings) { s.failMode = mode } }

// WithErrorHandler is told every error that the caller does not get: those that
// the fail mode turned into a decision, those behind a plain false of
// [Limiter.Allow] and [Keyed.Allow], those that [Middleware] answers with 500 or
// 503, and those of [Reservation.Settle]. It must not block.
//
// Without it, the standard package log gets them: the same error once a minute,
// at most 64 different ones. Calls that the caller cancels are not logged.
func WithErrorHandler(handler func(error)) Option {
	return func(s *settings) {
		if handler != nil {
			s.onError = handler
		}
	}
}

// WithTLSConfig is for https:// and rediss:// servers with a private
// certificate authority, or that require client certificates.
func WithTLSConfig(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

// WithMaxConnections bounds the connections to the server, those of waiting
// calls aside. The default is 64. The Redis protocol uses at most 4 of them,
// because calls share a connection.
func WithMaxConnections(n int) Option { return func(s *settings) { s.maxConnections = n } }

// WithMaxWaits bounds how many calls of [Client.Wait] are with the server at a
// time; each has a connection of its own. The default is 64. Further calls
// queue in the client, as long as they may wait.
func WithMaxWaits(n int) Option { return func(s *settings) { s.maxWaits = n } }
