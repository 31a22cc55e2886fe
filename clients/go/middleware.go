package waterclock

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
)

// KeyFunc tells the key of a request.
type KeyFunc func(*http.Request) string

// KeyByRemoteAddr is the [AddressKey] of the connection. Behind a proxy that is
// the proxy: use a middleware that sets RemoteAddr from a header field that only
// your proxy sets.
func KeyByRemoteAddr(r *http.Request) string { return AddressKey(r.RemoteAddr) }

// AddressKey is the key for a network address: the address without its port, and
// of IPv6 the /64 network, as the server counts it. A text that is no address is
// its own key.
func AddressKey(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return address
	}
	ip = ip.Unmap()
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return network.String()
}

// KeyByHeader is the value of a header field, such as an API key. Requests
// without the field share the key "".
func KeyByHeader(name string) KeyFunc {
	return func(r *http.Request) string { return r.Header.Get(name) }
}

// A MiddlewareOption configures [Middleware].
type MiddlewareOption func(*middleware)

// ForRequest adds call options for each request: what it costs, its tier.
func ForRequest(options func(*http.Request) []CallOption) MiddlewareOption {
	return func(m *middleware) { m.options = options }
}

// Skip passes requests on without a check.
func Skip(skip func(*http.Request) bool) MiddlewareOption {
	return func(m *middleware) { m.skip = skip }
}

// OnRefused answers refused requests in place of 429 with problem+json. The
// policy's header fields are set already.
func OnRefused(handler func(http.ResponseWriter, *http.Request, Decision)) MiddlewareOption {
	return func(m *middleware) { m.onRefused = handler }
}

// OnFailure answers requests for which there is no decision, in place of a
// problem+json with 503 if the server cannot be asked and 500 otherwise.
func OnFailure(handler func(http.ResponseWriter, *http.Request, error)) MiddlewareOption {
	return func(m *middleware) { m.onFailure = handler }
}

type middleware struct {
	client    *Client
	policy    string
	key       KeyFunc
	options   func(*http.Request) []CallOption
	skip      func(*http.Request) bool
	onRefused func(http.ResponseWriter, *http.Request, Decision)
	onFailure func(http.ResponseWriter, *http.Request, error)
}

// Middleware checks each request under a policy before the handler sees it. It
// sets the policy's header fields on every response. Handlers find the decision
// with [FromContext].
//
// A refusal is 429. If the server cannot be asked, the answer is 503, unless the
// client is [FailOpen]. If the call is invalid or unauthorized, such as that of an
// unknown policy, it is 500, and the error handler is told; see [WithErrorHandler].
func Middleware(client *Client, policy string, key KeyFunc, options ...MiddlewareOption) func(http.Handler) http.Handler {
	m := &middleware{
		client:    client,
		policy:    policy,
		key:       key,
		options:   func(*http.Request) []CallOption { return nil },
		skip:      func(*http.Request) bool { return false },
		onRefused: writeRefusal,
		onFailure: client.writeFailure,
	}
	for _, option := range options {
		option(m)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	decision, err := m.client.Check(r.Context(), m.policy, m.key(r), m.options(r)...)
	if err != nil {
		m.onFailure(w, r, err)
		return
	}
	for name, value := range decision.Headers {
		w.Header().Set(name, value)
	}
	r = r.WithContext(context.WithValue(r.Context(), decisionKey{}, decision))
	if decision.Allowed {
		next.ServeHTTP(w, r)
		return
	}
	m.onRefused(w, r, decision)
}

type decisionKey struct{}

// FromContext returns the decision that [Middleware] made about a request.
func FromContext(ctx context.Context) (Decision, bool) {
	decision, ok := ctx.Value(decisionKey{}).(Decision)
	return decision, ok
}

// problem is a body of application/problem+json.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

func writeRefusal(w http.ResponseWriter, _ *http.Request, decision Decision) {
	if decision.Source == SourceUnavailable {
		writeProblem(w, unavailable)
		return
	}
	refusal := problem{
		Type:   "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:  "Too Many Requests",
		Status: http.StatusTooManyRequests,
		Detail: "The request exceeds a rate limit.",
	}
	for _, limit := range decision.RefusedBy {
		refusal.Violated = append(refusal.Violated, decision.Policy+"."+limit)
	}
	writeProblem(w, refusal)
}

var unavailable = problem{
	Type:   "about:blank",
	Title:  "Service Unavailable",
	Status: http.StatusServiceUnavailable,
	Detail: "The rate limiter cannot be asked.",
}

func (c *Client) writeFailure(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		writeProblem(w, unavailable) // the client is gone: nobody reads this
		return
	}
	c.settings.onError(err)
	if errors.Is(err, ErrUnavailable) {
		writeProblem(w, unavailable)
		return
	}
	writeProblem(w, problem{
		Type:   "about:blank",
		Title:  "Internal Server Error",
		Status: http.StatusInternalServerError,
		Detail: "The rate limit of this request cannot be checked.",
	})
}

func writeProblem(w http.ResponseWriter, problem problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(problem.Status)
	json.NewEncoder(w).Encode(problem)
}
