package waterclock_test

import (
	"bytes"
	"context"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	waterclock "github.com/waterclock/waterclock/clients/go"
)

// visit sends one request through the middleware.
func visit(handler func(http.Handler) http.Handler, edit func(*http.Request)) *httptest.ResponseRecorder {
	final := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if decision, ok := waterclock.FromContext(r.Context()); ok {
			w.Header().Set("X-Policy", decision.Policy)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	edit(request)
	recorder := httptest.NewRecorder()
	handler(final).ServeHTTP(recorder, request)
	return recorder
}

func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

func TestMiddleware(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		limit := waterclock.Middleware(client, "burst", waterclock.KeyByRemoteAddr)
		for i := 0; i < 5; i++ {
			response := visit(limit, from("192.0.2.1:1234"))
			if response.Code != http.StatusNoContent || response.Header().Get("X-Policy") != "burst" {
				t.Fatalf("request %d: status %d, headers %v", i, response.Code, response.Header())
			}
			if !strings.HasPrefix(response.Header().Get("RateLimit"), `"burst.burst";r=`) {
				t.Fatalf("request %d: headers %v", i, response.Header())
			}
		}
		refused := visit(limit, from("192.0.2.1:4321"))
		if refused.Code != http.StatusTooManyRequests || refused.Header().Get("Retry-After") == "" {
			t.Errorf("status %d, headers %v", refused.Code, refused.Header())
		}
		if kind := refused.Header().Get("Content-Type"); kind != "application/problem+json" {
			t.Errorf("the refusal is %s", kind)
		}
		var body struct {
			Status   int
			Violated []string `json:"violated-policies"`
		}
		mustDecode(t, refused.Body.Bytes(), &body)
		if body.Status != 429 || len(body.Violated) != 1 || body.Violated[0] != "burst.burst" {
			t.Errorf("the refusal says %+v", body)
		}
		if other := visit(limit, from("192.0.2.2:1234")); other.Code != http.StatusNoContent {
			t.Errorf("another address: status %d", other.Code)
		}
	})
}

func TestMiddlewareOptions(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		limit := waterclock.Middleware(client, "tiered", waterclock.KeyByHeader("X-Api-Key"),
			waterclock.ForRequest(func(r *http.Request) []waterclock.CallOption {
				return []waterclock.CallOption{waterclock.Cost(2), waterclock.Tier(r.Header.Get("X-Tier"))}
			}),
			waterclock.Skip(func(r *http.Request) bool { return r.URL.Path == "/health" }),
			waterclock.OnRefused(func(w http.ResponseWriter, r *http.Request, d waterclock.Decision) {
				http.Error(w, d.Key, http.StatusTeapot)
			}))
		tiered := func(tier string) func(*http.Request) {
			return func(r *http.Request) {
				r.Header.Set("X-Api-Key", "alice")
				r.Header.Set("X-Tier", tier)
			}
		}
		if got := visit(limit, tiered("")); got.Code != http.StatusNoContent {
			t.Errorf("the first: status %d", got.Code)
		}
		if got := visit(limit, tiered("")); got.Code != http.StatusTeapot || strings.TrimSpace(got.Body.String()) != "alice" {
			t.Errorf("the second: status %d, body %q", got.Code, got.Body)
		}
		if got := visit(limit, tiered("pro")); got.Code != http.StatusNoContent {
			t.Errorf("with a better tier: status %d", got.Code)
		}
		if got := visit(limit, func(r *http.Request) { r.URL.Path = "/health" }); got.Code != http.StatusNoContent {
			t.Errorf("skipped: status %d", got.Code)
		}
	})
}

func TestMiddlewareWithoutADecision(t *testing.T) {
	url := deadEnds(t)["http, nothing listens"]
	for _, one := range []struct {
		name string
		mode waterclock.FailMode
		want int
	}{
		{"an error", waterclock.FailWithError, http.StatusServiceUnavailable},
		{"fail closed", waterclock.FailClosed, http.StatusServiceUnavailable},
		{"fail open", waterclock.FailOpen, http.StatusNoContent},
	} {
		t.Run(one.name, func(t *testing.T) {
			reported := 0
			client := newClient(t, url, waterclock.WithFailMode(one.mode), waterclock.WithErrorHandler(func(error) { reported++ }))
			response := visit(waterclock.Middleware(client, "burst", waterclock.KeyByRemoteAddr), from("192.0.2.1:1"))
			if response.Code != one.want || reported != 1 {
				t.Errorf("status %d, %d errors reported", response.Code, reported)
			}
		})
	}
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		limit := waterclock.Middleware(client, "nobody", waterclock.KeyByRemoteAddr)
		if got := visit(limit, from("192.0.2.1:1")); got.Code != http.StatusInternalServerError {
			t.Errorf("an unknown policy: status %d", got.Code)
		}
		limit = waterclock.Middleware(client, "nobody", waterclock.KeyByRemoteAddr,
			waterclock.OnFailure(func(w http.ResponseWriter, r *http.Request, err error) { w.WriteHeader(http.StatusTeapot) }))
		if got := visit(limit, from("192.0.2.1:1")); got.Code != http.StatusTeapot {
			t.Errorf("with a handler of its own: status %d", got.Code)
		}
	})
}

// A mistake in the configuration is logged, but does not flood the log.
func TestMiddlewareLogsWhyItFails(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		logged.Reset()
		for _, policy := range []string{"nobody", "nobody", "nothing"} {
			visit(waterclock.Middleware(client, policy, waterclock.KeyByRemoteAddr), from("192.0.2.1:1"))
		}
		if text := logged.String(); strings.Count(text, "\n") != 2 || strings.Count(text, `check of "nobody"`) != 1 {
			t.Errorf("logged:\n%s", text)
		}
	})
	for _, transport := range transports {
		logged.Reset()
		client := newClient(t, transport.url(startServer(t)), waterclock.WithToken("wrong"))
		got := visit(waterclock.Middleware(client, "burst", waterclock.KeyByRemoteAddr), from("192.0.2.1:1"))
		if got.Code != http.StatusInternalServerError || strings.Count(logged.String(), "\n") != 1 {
			t.Errorf("%s, a wrong token: status %d, logged:\n%s", transport.name, got.Code, logged.String())
		}
	}
}

func TestKeyByRemoteAddr(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:1234":              "192.0.2.1",
		"[::ffff:192.0.2.1]:1234":     "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:1234": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1234":         "fe80::/64",
		"192.0.2.1":                   "192.0.2.1",
		"@":                           "@",
	} {
		if got := waterclock.KeyByRemoteAddr(&http.Request{RemoteAddr: address}); got != want {
			t.Errorf("%s: got %q, expected %q", address, got, want)
		}
	}
}

// A request whose client is gone is no failure to report.
func TestMiddlewareDoesNotReportClientsThatLeave(t *testing.T) {
	client := newClient(t, deadEnds(t)["http, never answers"], waterclock.WithErrorHandler(func(err error) { t.Error(err) }))
	limit := waterclock.Middleware(client, "burst", waterclock.KeyByRemoteAddr)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	visit(limit, func(r *http.Request) { *r = *r.WithContext(ctx) })
}
