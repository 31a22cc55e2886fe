package waterclock

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// The server closes connections that are idle for 60 s.
const maxIdle = 50 * time.Second

// maxAnswer bounds what is read of an answer. 1,024 checks take about 1 MiB.
const maxAnswer = 16 << 20

// httpTransport asks over HTTP.
type httpTransport struct {
	base  string
	token string
	calls *http.Client
	// waits has connections of its own: waiting calls must not hold up others.
	waits *http.Client
}

func newHTTPTransport(u *url.URL, s settings) *httpTransport {
	waits := newHTTPClient(s, s.maxWaits)
	// One HTTP/2 connection has room for a few waiting calls only. An empty
	// map turns HTTP/2 off.
	waits.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	return &httpTransport{
		base:  strings.TrimSuffix(u.String(), "/"),
		token: s.token,
		calls: newHTTPClient(s, s.maxConnections),
		waits: waits,
	}
}

func newHTTPClient(s settings, connections int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     s.tls.Clone(),
			MaxConnsPerHost:     connections,
			MaxIdleConns:        connections,
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     maxIdle,
			ForceAttemptHTTP2:   true,
		},
		// Following a redirect would send a charge twice.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (t *httpTransport) close() {
	t.calls.CloseIdleConnections()
	t.waits.CloseIdleConnections()
}

// checkJSON is a question as the server's JSON has it.
type checkJSON struct {
	Policy   string  `json:"policy"`
	Key      string  `json:"key"`
	Cost     Amount  `json:"cost,omitempty"`
	Tier     string  `json:"tier,omitempty"`
	Factor   Factor  `json:"factor,omitempty"`
	Outcome  Outcome `json:"outcome,omitempty"`
	Within   string  `json:"within,omitempty"`
	TTL      string  `json:"ttl,omitempty"`
	ID       string  `json:"id,omitempty"`
	OnExpiry string  `json:"on_expiry,omitempty"`
}

func newCheckJSON(q question) (checkJSON, error) {
	if err := checkUTF8(q.key); err != nil {
		return checkJSON{}, err
	}
	check := checkJSON{
		Policy: q.policy, Key: q.key, Cost: q.cost, Tier: q.tier, Factor: q.factor, Outcome: q.outcome, ID: q.id,
	}
	if q.ttl != 0 {
		check.TTL = microseconds(q.ttl)
	}
	if q.release {
		check.OnExpiry = "release"
	}
	return check, nil
}

// checkUTF8 rejects what JSON would change: two keys must not become one.
func checkUTF8(key string) error {
	if utf8.ValidString(key) {
		return nil
	}
	return &Error{Kind: ErrInvalid, Field: "key", Message: "the key is not UTF-8; encode it, or use the Redis protocol"}
}

func (t *httpTransport) decide(ctx context.Context, verb verb, q question) (Decision, error) {
	check, err := newCheckJSON(q)
	if err != nil {
		return Decision{}, err
	}
	client := t.calls
	if verb == verbWait {
		client = t.waits
		check.Within = microseconds(q.within)
	}
	answer, err := t.post(ctx, client, "/v1/"+string(verb), check)
	if err != nil {
		return Decision{}, err
	}
	return answer.decision()
}

func (t *httpTransport) checkAll(ctx context.Context, questions []question) (Batch, error) {
	checks := make([]checkJSON, len(questions))
	for i, q := range questions {
		var err error
		if checks[i], err = newCheckJSON(q); err != nil {
			return Batch{}, err
		}
	}
	body := map[string]any{"checks": checks, "atomic": true}
	answer, err := t.post(ctx, t.calls, "/v1/check", body)
	if err != nil {
		return Batch{}, err
	}
	var read struct {
		Allowed   *bool             `json:"allowed"`
		Decisions []json.RawMessage `json:"decisions"`
	}
	if err := json.Unmarshal(answer.body, &read); err != nil {
		return Batch{}, err
	}
	if read.Allowed == nil || len(read.Decisions) != len(questions) {
		return Batch{}, errNoDecision
	}
	batch := Batch{Allowed: *read.Allowed, Headers: answer.headers}
	for _, text := range read.Decisions {
		decision, err := readDecision(text)
		if err != nil {
			return Batch{}, err
		}
		batch.Decisions = append(batch.Decisions, decision)
	}
	return batch, nil
}

func (t *httpTransport) commit(ctx context.Context, id string, cost Amount) error {
	_, err := t.post(ctx, t.calls, reservationPath(id)+"/commit", map[string]Amount{"cost": cost})
	return err
}

func (t *httpTransport) cancel(ctx context.Context, id string) error {
	_, err := t.request(ctx, t.calls, http.MethodDelete, reservationPath(id), nil)
	return err
}

func (t *httpTransport) setOverride(ctx context.Context, policy, key string, override []byte) error {
	_, err := t.keyRequest(ctx, http.MethodPut, policy, key, "/override", override)
	return err
}

// getOverride asks for the key: a 404 of its override may also mean that there
// is no such policy.
func (t *httpTransport) getOverride(ctx context.Context, policy, key string) ([]byte, error) {
	answer, err := t.keyRequest(ctx, http.MethodGet, policy, key, "", nil)
	if err != nil {
		return nil, err
	}
	var read struct {
		Override *json.RawMessage `json:"override"`
	}
	if err := json.Unmarshal(answer.body, &read); err != nil || read.Override == nil {
		return nil, err
	}
	return *read.Override, nil
}

func (t *httpTransport) clearOverride(ctx context.Context, policy, key string) error {
	_, err := t.keyRequest(ctx, http.MethodDelete, policy, key, "/override", nil)
	return err
}

func (t *httpTransport) putPolicy(ctx context.Context, name string, definition []byte) error {
	_, err := t.policyRequest(ctx, http.MethodPut, name, definition)
	return err
}

func (t *httpTransport) getPolicy(ctx context.Context, name string) ([]byte, error) {
	answer, err := t.policyRequest(ctx, http.MethodGet, name, nil)
	if isNotFound(err) {
		return nil, nil
	}
	return answer.body, err
}

func (t *httpTransport) deletePolicy(ctx context.Context, name string) (bool, error) {
	_, err := t.policyRequest(ctx, http.MethodDelete, name, nil)
	if isNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func policyPath(name string) string { return "/v1/policies/" + pathSegment(name) }

func reservationPath(id string) string { return "/v1/reservations/" + pathSegment(id) }

// pathSegment escapes a name for a path. Proxies resolve "." and "..".
func pathSegment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// checkSegment rejects an empty name. A proxy that drops the slash behind it
// would make the path that of all keys, or of another key.
func checkSegment(field, name string) error {
	if name != "" {
		return nil
	}
	return &Error{Kind: ErrInvalid, Field: field, Message: "the " + field + " is empty, which a path cannot express; use the Redis protocol"}
}

func isNotFound(err error) bool {
	var failure *Error
	return errors.As(err, &failure) && failure.Status == http.StatusNotFound
}

// policyRequest asks about the policy in the path.
func (t *httpTransport) policyRequest(ctx context.Context, method, policy string, body []byte) (httpAnswer, error) {
	if err := checkSegment("policy", policy); err != nil {
		return httpAnswer{}, err
	}
	return t.request(ctx, t.calls, method, policyPath(policy), body)
}

// keyRequest asks about the key in the path.
func (t *httpTransport) keyRequest(ctx context.Context, method, policy, key, rest string, body []byte) (httpAnswer, error) {
	if err := checkUTF8(key); err != nil {
		return httpAnswer{}, err
	}
	if err := checkSegment("key", key); err != nil {
		return httpAnswer{}, err
	}
	if err := checkSegment("policy", policy); err != nil {
		return httpAnswer{}, err
	}
	return t.request(ctx, t.calls, method, policyPath(policy)+"/keys/"+pathSegment(key)+rest, body)
}

func (t *httpTransport) post(ctx context.Context, client *http.Client, path string, body any) (httpAnswer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return httpAnswer{}, err
	}
	return t.request(ctx, client, http.MethodPost, path, text)
}

// request sends one request. net/http repeats only a GET, and what it has not
// begun to send.
func (t *httpTransport) request(ctx context.Context, client *http.Client, method, path string, body []byte) (httpAnswer, error) {
	request, err := http.NewRequestWithContext(ctx, method, t.base+path, bytes.NewReader(body))
	if err != nil {
		return httpAnswer{}, err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	response, err := client.Do(request)
	if err != nil {
		return httpAnswer{}, cause(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return httpAnswer{}, err
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case kind != "application/json":
		return httpAnswer{}, readProblem(response.StatusCode, kind, text)
	case response.StatusCode/100 != 2 && response.StatusCode != http.StatusTooManyRequests:
		return httpAnswer{}, readProblem(response.StatusCode, kind, text)
	}
	return httpAnswer{body: text, headers: limitHeaders(response.Header)}, nil
}

// cause is the error without the request's URL, which contains keys.
func cause(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// httpAnswer is an answer that is no error.
type httpAnswer struct {
	body    []byte
	headers map[string]string
}

func (a httpAnswer) decision() (Decision, error) {
	decision, err := readDecision(a.body)
	decision.Headers = a.headers
	return decision, err
}

// limitHeaders are the fields of the policy's style.
func limitHeaders(all http.Header) map[string]string {
	fields := map[string]string{}
	for name, values := range all {
		name = strings.ToLower(name)
		if name == "retry-after" || strings.HasPrefix(name, "ratelimit") || strings.HasPrefix(name, "x-ratelimit") {
			fields[name] = strings.Join(values, ", ")
		}
	}
	return fields
}

// readProblem turns an answer that is no decision into an error.
func readProblem(status int, kind string, text []byte) *Error {
	problem := struct {
		Detail  string          `json:"detail"`
		Field   string          `json:"field"`
		Failure json.RawMessage `json:"failure"`
	}{}
	if kind != "application/problem+json" || json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		problem.Detail = fmt.Sprintf("the server answered %d %s", status, http.StatusText(status))
		if kind != "application/problem+json" {
			problem.Detail += ", not as Waterclock does; check the URL"
		}
	}
	failure := &Error{Kind: ErrUnavailable, Status: status, Message: problem.Detail, Field: problem.Field}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		failure.Kind = ErrUnauthorized
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge,
		http.StatusUnprocessableEntity, http.StatusInsufficientStorage:
		failure.Kind = ErrInvalid
	}
	failure.Denied = status == http.StatusServiceUnavailable && problem.Failure != nil
	return failure
}
