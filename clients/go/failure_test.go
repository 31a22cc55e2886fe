package waterclock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
)

// deadEnds are servers that cannot be asked.
func deadEnds(t *testing.T) map[string]string {
	nothing := listen(t)
	nothing.Close()
	silent := listen(t)
	go func() {
		for {
			connection, err := silent.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { connection.Close() })
			go io.Copy(io.Discard, connection)
		}
	}()
	return map[string]string{
		"http, nothing listens": "http://" + nothing.Addr().String(),
		"resp, nothing listens": "redis://" + nothing.Addr().String(),
		"http, never answers":   "http://" + silent.Addr().String(),
		"resp, never answers":   "redis://" + silent.Addr().String(),
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// verdict is what a call says when the server cannot be asked.
type verdict struct {
	allowed bool
	source  string
	err     error
}

// askAll makes every call that the fail mode applies to.
func askAll(ctx context.Context, client *waterclock.Client) map[string]verdict {
	of := func(d waterclock.Decision, err error) verdict { return verdict{d.Allowed, d.Source, err} }
	all := map[string]verdict{
		"check": of(client.Check(ctx, "burst", "alice")),
		"peek":  of(client.Peek(ctx, "burst", "alice")),
		"wait":  of(client.Wait(ctx, "burst", "alice", time.Millisecond)),
	}
	batch, err := client.CheckAll(ctx, waterclock.NewCharge("burst", "alice"), waterclock.NewCharge("both", "alice"))
	all["check all"] = verdict{batch.Allowed, waterclock.SourceUnavailable, err}
	if err == nil && len(batch.Decisions) != 2 {
		all["check all"] = verdict{err: errors.New("not every charge has a decision")}
	}
	reservation, err := client.Reserve(ctx, "burst", "alice", waterclock.Cost(2))
	all["reserve"] = verdict{err: err}
	if err == nil {
		err = reservation.Commit(ctx, waterclock.Cost(1))
		if !reservation.OK() && errors.Is(err, waterclock.ErrInvalid) {
			err = nil // what was refused cannot be committed
		}
		all["reserve"] = verdict{reservation.OK(), reservation.Decision.Source, err}
	}
	return all
}

func TestFailModes(t *testing.T) {
	for name, url := range deadEnds(t) {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, time.Minute)
			for _, mode := range []waterclock.FailMode{waterclock.FailOpen, waterclock.FailClosed} {
				var reported error
				client := newClient(t, url, waterclock.WithDeadline(50*time.Millisecond), waterclock.WithFailMode(mode),
					waterclock.WithErrorHandler(func(err error) { reported = err }))
				for call, got := range askAll(ctx, client) {
					if got.err != nil || got.source != waterclock.SourceUnavailable {
						t.Errorf("%s: source %q, error %v", call, got.source, got.err)
					}
					if got.allowed != (mode == waterclock.FailOpen) {
						t.Errorf("%s: allowed is %v in mode %v", call, got.allowed, mode)
					}
				}
				if !errors.Is(reported, waterclock.ErrUnavailable) {
					t.Errorf("the error handler was told %v", reported)
				}
				if got := client.Limiter("burst", "alice").Allow(ctx); got != (mode == waterclock.FailOpen) {
					t.Errorf("Allow is %v in mode %v", got, mode)
				}
				if _, err := client.Refund(ctx, "burst", "alice"); !errors.Is(err, waterclock.ErrUnavailable) {
					t.Errorf("a refund has no fail mode, but got the error %v", err)
				}
			}
		})
	}
}

func TestWithoutAFailModeTheErrorIsReturned(t *testing.T) {
	for name, url := range deadEnds(t) {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, time.Minute)
			client := newClient(t, url, waterclock.WithDeadline(50*time.Millisecond))
			for call, got := range askAll(ctx, client) {
				var failure *waterclock.Error
				if !errors.Is(got.err, waterclock.ErrUnavailable) || !errors.As(got.err, &failure) {
					t.Errorf("%s: got the error %v", call, got.err)
				}
			}
			if client.Keyed("burst").Allow(ctx, "alice") {
				t.Error("Allow admits although the server cannot be asked")
			}
			if client.Limiter("burst", "alice").Reserve(ctx).OK() {
				t.Error("Reserve is OK although the server cannot be asked")
			}
		})
	}
}

// What the server rejects is an error in every mode.
func TestFailOpenAdmitsNothingThatTheServerRejects(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			url := transport.url(startServer(t))
			ctx := within(t, time.Minute)
			open := waterclock.WithFailMode(waterclock.FailOpen)
			known := newClient(t, url, open, waterclock.WithToken(adminToken))
			if _, err := known.Check(ctx, "nobody", "alice"); !errors.Is(err, waterclock.ErrInvalid) {
				t.Errorf("an unknown policy: got the error %v", err)
			}
			if known.Keyed("nobody").Allow(ctx, "alice") {
				t.Error("Allow admits under an unknown policy")
			}
			stranger := newClient(t, url, open, waterclock.WithToken("wrong"))
			if _, err := stranger.Check(ctx, "burst", "alice"); !errors.Is(err, waterclock.ErrUnauthorized) {
				t.Errorf("a wrong token: got the error %v", err)
			}
			checker := newClient(t, url, open, waterclock.WithToken("vectors-check"))
			if err := checker.ClearOverride(ctx, "burst", "alice"); !errors.Is(err, waterclock.ErrUnauthorized) {
				t.Errorf("a token without the role: got the error %v", err)
			}
		})
	}
}

// answers are what a server says that has no decision, over either protocol.
var answers = []struct {
	name   string
	status int
	kind   string
	body   string
	resp   string
	want   error
	denied bool
}{
	{"the policy denies while its store fails", 503, "application/problem+json", `{"detail":"the store failed","failure":"timeout"}`,
		"-UNAVAILABLE the store failed\r\n", waterclock.ErrUnavailable, true},
	{"overloaded", 503, "application/problem+json", `{"detail":"too many requests in flight"}`,
		"-BUSY too many requests in flight\r\n", waterclock.ErrUnavailable, false},
	{"a 429 that is no decision", 429, "application/problem+json", `{"detail":"too many unknown tokens"}`,
		"", waterclock.ErrUnavailable, false},
	{"a page of something else", 200, "text/html", `<html>`, "HTTP/1.1 400 Bad Request\r\n", waterclock.ErrUnavailable, false},
	{"JSON of something else", 200, "application/json", `{"hello":"world"}`, "$2\r\n{}\r\n", waterclock.ErrUnavailable, false},
	{"a redirect", 307, "text/html", ``, "", waterclock.ErrUnavailable, false},
	{"a conflict", 409, "application/problem+json", `{"detail":"the file wins"}`, "-ERR the file wins\r\n", waterclock.ErrInvalid, false},
	{"no room", 507, "application/problem+json", `{"detail":"no room"}`, "", waterclock.ErrInvalid, false},
	{"no permission", 403, "application/problem+json", `{"detail":"no"}`, "-NOPERM no\r\n", waterclock.ErrUnauthorized, false},
	{"a reply without end", 0, "", "", "+" + strings.Repeat("x", 1<<20), waterclock.ErrUnavailable, false},
	{"a reply that is too long", 0, "", "", "$999999999\r\n", waterclock.ErrUnavailable, false},
}

func TestAnswersWithoutADecision(t *testing.T) {
	for _, answer := range answers {
		t.Run(answer.name, func(t *testing.T) {
			if answer.status != 0 {
				var requests atomic.Int64
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					w.Header().Set("Content-Type", answer.kind)
					w.Header().Set("Location", "/elsewhere")
					w.WriteHeader(answer.status)
					io.WriteString(w, answer.body)
				}))
				defer server.Close()
				checkAnswer(t, server.URL, answer.want, answer.denied)
				if requests.Load() != 1 {
					t.Errorf("the server got %d requests, expected 1", requests.Load())
				}
			}
			if answer.resp != "" {
				listener := listen(t)
				go answerOnce(listener, answer.resp)
				checkAnswer(t, "redis://"+listener.Addr().String(), answer.want, answer.denied)
			}
		})
	}
}

func checkAnswer(t *testing.T, url string, want error, denied bool) {
	t.Helper()
	_, err := newClient(t, url).Check(within(t, time.Minute), "burst", "alice")
	var failure *waterclock.Error
	if !errors.Is(err, want) || !errors.As(err, &failure) || failure.Denied != denied {
		t.Errorf("%s: got the error %v", url, err)
	}
}

// answerOnce reads some bytes from one connection and answers.
func answerOnce(listener net.Listener, answer string) {
	connection, err := listener.Accept()
	if err != nil {
		return
	}
	defer connection.Close()
	connection.Read(make([]byte, 4096))
	io.WriteString(connection, answer)
	io.Copy(io.Discard, connection)
}

// The operator chose to deny: FailOpen does not overrule that.
func TestFailOpenKeepsThePolicysOwnDenial(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", answers[0].kind)
		w.WriteHeader(answers[0].status)
		io.WriteString(w, answers[0].body)
	}))
	defer server.Close()
	listener := listen(t)
	go answerOnce(listener, answers[0].resp)
	for _, url := range []string{server.URL, "redis://" + listener.Addr().String()} {
		client := newClient(t, url, waterclock.WithFailMode(waterclock.FailOpen))
		decision, err := client.Check(within(t, time.Minute), "burst", "alice")
		if err != nil || decision.Allowed || decision.Source != waterclock.SourceUnavailable {
			t.Errorf("%s: allowed %v, source %q, error %v", url, decision.Allowed, decision.Source, err)
		}
	}
}

func TestACancelledCallIsTheCallersError(t *testing.T) {
	for name, url := range deadEnds(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			client := newClient(t, url, waterclock.WithFailMode(waterclock.FailOpen))
			if _, err := client.Check(ctx, "burst", "alice"); !errors.Is(err, context.Canceled) {
				t.Errorf("got the error %v", err)
			}
		})
	}
}

// A context's deadline is a reason not to have a decision.
func TestACallThatIsTooLateForItsContextIsUnavailable(t *testing.T) {
	for name, url := range deadEnds(t) {
		if !strings.HasSuffix(name, "never answers") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			ctx := within(t, 10*time.Millisecond)
			_, err := newClient(t, url).Check(ctx, "burst", "alice")
			if !errors.Is(err, waterclock.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got the error %v", err)
			}
		})
	}
}

// No override and no such policy are different answers.
func TestOverridesOfAnUnknownPolicy(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		ctx := within(t, time.Minute)
		if override, err := client.GetOverride(ctx, "burst", "alice"); override != nil || err != nil {
			t.Errorf("no override: got %+v and the error %v", override, err)
		}
		if override, err := client.GetOverride(ctx, "nobody", "alice"); !errors.Is(err, waterclock.ErrInvalid) {
			t.Errorf("no such policy: got %+v and the error %v", override, err)
		}
		want := waterclock.Override{Factor: "0.5", ExpiresIn: time.Hour}
		if err := client.SetOverride(ctx, "burst", "alice", want); err != nil {
			t.Fatal(err)
		}
		got, err := client.GetOverride(ctx, "burst", "alice")
		if err != nil || got == nil || got.Factor != want.Factor || got.ExpiresIn <= 0 || got.ExpiresIn > time.Hour {
			t.Errorf("got %+v and the error %v", got, err)
		}
	})
}

// Where a path would mean something else without the empty name, nothing is sent.
func TestEmptyNamesInPaths(t *testing.T) {
	client := newClient(t, startServer(t).HTTP, waterclock.WithToken(adminToken))
	ctx := within(t, time.Minute)
	_, get := client.GetPolicy(ctx, "")
	for name, err := range map[string]error{
		"get policy":   get,
		"set override": client.SetOverride(ctx, "burst", "", waterclock.Override{Block: true}),
		"clear":        client.ClearOverride(ctx, "", "alice"),
	} {
		var failure *waterclock.Error
		if !errors.As(err, &failure) || failure.Kind != waterclock.ErrInvalid || failure.Status != 0 {
			t.Errorf("%s: got the error %v", name, err)
		}
	}
}

func TestOverTheRedisProtocolChargesShareTheirTier(t *testing.T) {
	server := startServer(t)
	ctx := within(t, time.Minute)
	charges := []waterclock.Charge{
		waterclock.NewCharge("tiered", "alice", waterclock.Tier("pro")),
		waterclock.NewCharge("tiered", "bob"),
	}
	resp := newClient(t, server.RESP, waterclock.WithToken(adminToken))
	if _, err := resp.CheckAll(ctx, charges...); !errors.Is(err, waterclock.ErrInvalid) {
		t.Errorf("got the error %v", err)
	}
	http := newClient(t, server.HTTP, waterclock.WithToken(adminToken))
	batch, err := http.CheckAll(ctx, charges...)
	if err != nil || !batch.Allowed || batch.Decisions[0].Limit != 8 || batch.Decisions[1].Limit != 2 {
		t.Errorf("got %+v and the error %v", batch, err)
	}
}

func TestAClosedClientFails(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		ctx := within(t, time.Minute)
		if _, err := client.Check(ctx, "burst", "alice"); err != nil {
			t.Fatal(err)
		}
		client.Close()
		if _, err := client.Check(ctx, "burst", "alice"); !errors.Is(err, waterclock.ErrInvalid) {
			t.Errorf("got the error %v", err)
		}
	})
}

// A token that no header field can have must not look like a server that cannot
// be asked: FailOpen would admit everything.
func TestTokensThatAreWrong(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1:8080", "redis://127.0.0.1:6380"} {
		_, err := waterclock.New(url, waterclock.WithToken("secret\n"))
		if !errors.Is(err, waterclock.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got the error %v", url, err)
		}
	}
}

func TestOutcomesThatAreWrong(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		for _, outcome := range []waterclock.Outcome{"", "5", "OK"} {
			if _, err := client.Report(within(t, time.Minute), "burst", "alice", outcome); !errors.Is(err, waterclock.ErrInvalid) {
				t.Errorf("%q: got the error %v", outcome, err)
			}
		}
		expectLeft(t, client, 5)
	})
}

func TestOverTheRedisProtocolOneOutcomeIsReported(t *testing.T) {
	client := newClient(t, startServer(t).RESP, waterclock.WithToken(adminToken))
	_, err := client.Report(within(t, time.Minute), "burst", "alice", waterclock.Failed, waterclock.Cost(3))
	if !errors.Is(err, waterclock.ErrInvalid) || !strings.Contains(err.Error(), "http://") {
		t.Errorf("got the error %v", err)
	}
}

func TestURLsThatAreWrong(t *testing.T) {
	for _, url := range []string{
		"", "127.0.0.1:8080", "ftp://127.0.0.1", "http://", "http://127.0.0.1:8080?x=1", "redis://127.0.0.1/3",
		"redis://token@127.0.0.1", "redis://127.0.0.1:secret",
	} {
		_, err := waterclock.New(url)
		if !errors.Is(err, waterclock.ErrInvalid) {
			t.Errorf("%q: got the error %v", url, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows a secret: %v", url, err)
		}
	}
	if _, err := waterclock.New(""); err == nil || !strings.Contains(err.Error(), `"" is no URL`) {
		t.Errorf("the error does not name the empty URL: %v", err)
	}
}
