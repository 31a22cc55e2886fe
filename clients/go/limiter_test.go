package waterclock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
)

func TestLimiterAllowsTheBurst(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		ctx := within(t, time.Minute)
		limiter := client.Limiter("burst", "alice")
		if burst, err := limiter.Burst(ctx); err != nil || burst != 5 {
			t.Fatalf("the burst is %d, error %v", burst, err)
		}
		if !limiter.AllowN(ctx, 4) || limiter.AllowN(ctx, 2) {
			t.Fatal("4 of 5 should pass, and then not 2")
		}
		if tokens, err := limiter.Tokens(ctx); err != nil || tokens != 1 {
			t.Fatalf("%d are left, error %v", tokens, err)
		}
		if !limiter.Allow(ctx) || limiter.Allow(ctx) {
			t.Fatal("the fifth should pass, and not the sixth")
		}
	})
}

func TestLimiterWaits(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		limiter := client.Limiter("quick", "alice")
		for i := 0; i < 3; i++ {
			if err := limiter.Wait(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		if err := limiter.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLimiterDoesNotWaitForWhatComesTooLate(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		limiter := client.Limiter("burst", "alice")
		if !limiter.AllowN(within(t, time.Minute), 5) {
			t.Fatal("the burst should pass")
		}
		var refusal *waterclock.RefusedError
		err := limiter.Wait(within(t, time.Minute))
		if !errors.Is(err, waterclock.ErrRefused) || !errors.As(err, &refusal) || refusal.Decision.RetryAfter < time.Minute {
			t.Errorf("a wait of 12 minutes: got the error %v", err)
		}
		err = limiter.WaitN(context.Background(), 6)
		if !errors.As(err, &refusal) || refusal.Decision.RetryAfter != waterclock.Never {
			t.Errorf("a wait for more than the capacity: got the error %v", err)
		}
	})
}

// A server refuses waits of more than 60 s: the limiter asks again later.
func TestLimiterWaitsLongerThanTheServer(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Within string }
		json.NewDecoder(r.Body).Decode(&body)
		asked = append(asked, body.Within)
		w.Header().Set("Content-Type", "application/json")
		if len(asked) == 1 {
			fmt.Fprint(w, `{"allowed":false,"retry_after_us":60010000}`)
			return
		}
		fmt.Fprint(w, `{"allowed":true,"retry_after_us":0}`)
	}))
	defer server.Close()
	client := newClient(t, server.URL)
	if err := client.Limiter("slow", "alice").Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(asked) != "[60000000us 60000000us]" {
		t.Errorf("the server was asked to wait %v", asked)
	}
}

func TestACancelledWaitLeavesTheLine(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		ctx := within(t, time.Minute)
		if err := client.PutPolicy(ctx, "slow", map[string]any{"limits": []string{"1/50s"}}); err != nil {
			t.Fatal(err)
		}
		limiter := client.Limiter("slow", "alice")
		if !limiter.Allow(ctx) {
			t.Fatal("the first should pass")
		}
		waiting, cancel := context.WithCancel(ctx)
		result := make(chan error, 1)
		go func() { result <- limiter.Wait(waiting) }()
		awaitLine(t, client, "slow", "alice")
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Fatalf("got the error %v", err)
		}
		// With nobody in line, a refusal names the limit again.
		for {
			decision, err := client.Check(ctx, "slow", "alice")
			if err != nil {
				t.Fatal(err)
			}
			if len(decision.RefusedBy) > 0 {
				return
			}
		}
	})
}

// A caller that has no more time is refused, not admitted as if the server
// could not be asked.
func TestAWaitThatIsTooLongForItsContextIsRefused(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			client := newClient(t, transport.url(startServer(t)), waterclock.WithToken(adminToken),
				waterclock.WithFailMode(waterclock.FailOpen))
			ctx := within(t, 30*time.Second)
			if err := client.PutPolicy(ctx, "slow", map[string]any{"limits": []string{"1/50s"}}); err != nil {
				t.Fatal(err)
			}
			if !client.Keyed("slow").Allow(ctx, "alice") {
				t.Fatal("the first should pass")
			}
			decision, err := client.Wait(ctx, "slow", "alice", time.Minute)
			if err != nil || decision.Allowed || decision.Source != "authoritative" {
				t.Errorf("allowed %v, source %q, error %v", decision.Allowed, decision.Source, err)
			}
		})
	}
}

func TestKeyed(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		ctx := within(t, time.Minute)
		limiter := client.Keyed("burst")
		for i := 0; i < 5; i++ {
			if !limiter.Allow(ctx, "alice") {
				t.Fatal("the burst should pass")
			}
		}
		if limiter.Allow(ctx, "alice") || !limiter.Allow(ctx, "bob") {
			t.Fatal("alice should be refused, and bob not")
		}
		if left, err := limiter.Remaining(ctx, "bob"); err != nil || left != 4 {
			t.Errorf("bob has %d left, error %v", left, err)
		}
		before := time.Now()
		if at, err := limiter.RetryAt(ctx, "alice"); err != nil || at.Before(before.Add(10*time.Minute)) {
			t.Errorf("alice may retry at %v, error %v", at, err)
		}
		if at, err := limiter.RetryAt(ctx, "bob"); err != nil || at.After(time.Now()) {
			t.Errorf("bob may retry at %v, error %v", at, err)
		}
		_, err := client.Keyed("burst", waterclock.Cost(6)).RetryAt(ctx, "carol")
		if !errors.Is(err, waterclock.ErrRefused) {
			t.Errorf("more than the capacity: got the error %v", err)
		}
	})
}
