package waterclock

import (
	"context"
	"net/url"
)

// verb is a call about one key. Both protocols name it alike.
type verb string

const (
	verbCheck   verb = "check"
	verbPeek    verb = "peek"
	verbWait    verb = "wait"
	verbRefund  verb = "refund"
	verbReport  verb = "report"
	verbReserve verb = "reserve"
	verbReset   verb = "reset"
)

// A transport asks the server. Its errors are *Error where the server answered;
// any other error means that it could not be asked.
type transport interface {
	decide(ctx context.Context, verb verb, q question) (Decision, error)
	checkAll(ctx context.Context, questions []question) (Batch, error)
	commit(ctx context.Context, id string, cost Amount) error
	cancel(ctx context.Context, id string) error
	setOverride(ctx context.Context, policy, key string, override []byte) error
	// getOverride returns nil if the key has no override.
	getOverride(ctx context.Context, policy, key string) ([]byte, error)
	clearOverride(ctx context.Context, policy, key string) error
	putPolicy(ctx context.Context, name string, definition []byte) error
	// getPolicy returns nil if there is no policy of the name.
	getPolicy(ctx context.Context, name string) ([]byte, error)
	deletePolicy(ctx context.Context, name string) (bool, error)
	close()
}

func newTransport(address string, s settings) (transport, error) {
	if address == "" {
		return nil, invalid(`"" is no URL of a server; write http://127.0.0.1:8080 or redis://127.0.0.1:6380`)
	}
	u, err := url.Parse(address)
	if err != nil {
		// The error of url.Parse contains the address, and so maybe a token.
		return nil, invalid("the server's URL cannot be read; it looks like http://127.0.0.1:8080 or redis://127.0.0.1:6380")
	}
	if u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, invalid("the server's URL needs a host, and no query or fragment: http://127.0.0.1:8080 or redis://127.0.0.1:6380")
	}
	if token, ok := u.User.Password(); ok && s.token == "" {
		s.token = token
	} else if u.User.Username() != "" {
		return nil, invalid("the server's URL has a user name; a token is written redis://:TOKEN@host:6380")
	}
	if !isToken(s.token) {
		return nil, invalid("the token has characters other than printable ASCII; was it read with its newline?")
	}
	u.User = nil
	switch u.Scheme {
	case "http", "https":
		return newHTTPTransport(u, s), nil
	case "redis", "rediss":
		return newRESPTransport(u, s)
	default:
		return nil, invalid("the server's URL begins with %q; http, https, redis and rediss are known", u.Scheme)
	}
}

// isToken says whether a token can be sent in a header field.
func isToken(token string) bool {
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
