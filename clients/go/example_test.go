package waterclock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
)

// The server of testdata/readme.toml answers the examples; see TestMain.
var ctx = context.Background()

func dial(options ...waterclock.Option) *waterclock.Client {
	options = append(options, waterclock.WithToken(os.Getenv("WATERCLOCK_TOKEN")), waterclock.WithDeadline(30*time.Second))
	client, err := waterclock.New(os.Getenv("WATERCLOCK_URL"), options...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func ExampleClient_Check() {
	client := dial()
	defer client.Close()

	decision, err := client.Check(ctx, "login", "bob", waterclock.Cost(6))
	if err != nil {
		log.Fatal(err) // there is no decision
	}
	if !decision.Allowed {
		fmt.Println("refused by", decision.RefusedBy, "with", decision.Remaining, "left")
	}
	// Output: refused by [login] with 5 left
}

func ExampleClient_CheckAll() {
	client := dial()
	defer client.Close()

	batch, err := client.CheckAll(ctx,
		waterclock.NewCharge("login", "address:192.0.2.1"),
		waterclock.NewCharge("login", "account:carol", waterclock.Cost(2)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(batch.Allowed, batch.Decisions[1].Remaining)
	// Output: true 3
}

func ExampleClient_Wait() {
	client := dial()
	defer client.Close()

	decision, err := client.Wait(ctx, "crawl", "example.org", 5*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	if decision.Allowed {
		fmt.Println("fetch the next page")
	}
	// Output: fetch the next page
}

func ExampleClient_Report() {
	client := dial()
	defer client.Close()

	for i := 0; i < 2; i++ {
		if _, err := client.Report(ctx, "breaker", "billing", waterclock.Failed); err != nil {
			log.Fatal(err)
		}
	}
	decision, err := client.Check(ctx, "breaker", "billing")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("may call billing:", decision.Allowed)
	// Output: may call billing: false
}

func ExampleClient_Limiter() {
	client := dial()
	defer client.Close()

	limiter := client.Limiter("crawl", "example.com")
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for page := 1; page <= 3; page++ {
		if err := limiter.Wait(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println("fetch page", page)
	}
	// Output:
	// fetch page 1
	// fetch page 2
	// fetch page 3
}

func ExampleClient_Keyed() {
	client := dial()
	defer client.Close()

	logins := client.Keyed("login")
	if logins.Allow(ctx, "dave") {
		left, err := logins.Remaining(ctx, "dave")
		fmt.Println("welcome;", left, "tries left; error:", err)
	}
	// Output: welcome; 4 tries left; error: <nil>
}

// answer is what a model says.
type answer struct{ tokens int64 }

func askModel(context.Context, string) (answer, error) { return answer{tokens: 812}, nil }

func complete(ctx context.Context, client *waterclock.Client, user, prompt string) (err error) {
	reservation, err := client.Reserve(ctx, "llm", user, waterclock.Units{"tokens": 4000})
	if err != nil {
		return err
	}
	switch {
	case reservation.OK():
	case reservation.Decision.RetryAfter == waterclock.Never:
		return errors.New("too many tokens for this limit")
	default:
		return fmt.Errorf("too many tokens; retry in %v", reservation.Delay())
	}
	defer reservation.Settle(&err) // unless committed below: cancels on an error

	answer, err := askModel(ctx, prompt)
	if err != nil {
		return err
	}
	return reservation.Commit(ctx, waterclock.Units{"tokens": answer.tokens})
}

func ExampleReservation_Settle() {
	client := dial()
	defer client.Close()
	if err := complete(ctx, client, "erin", "Tell me a story."); err != nil {
		log.Fatal(err)
	}
	decision, err := client.Peek(ctx, "llm", "erin")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(decision.Limits[1].Name, decision.Limits[1].Remaining >= 100000-812)
	// Output: tokens true
}

func ExampleMiddleware() {
	client := dial()
	defer client.Close()
	mux := http.NewServeMux()

	limit := waterclock.Middleware(client, "login", waterclock.KeyByRemoteAddr)
	mux.Handle("/login", limit(http.HandlerFunc(logIn)))

	request := httptest.NewRequest(http.MethodPost, "/login", nil)
	for i := 0; i < 6; i++ {
		response := httptest.NewRecorder()
		mux.ServeHTTP(response, request)
		fmt.Println(response.Code)
	}
	// Output:
	// 204
	// 204
	// 204
	// 204
	// 204
	// 429
}

func logIn(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }

func ExampleMiddleware_options() {
	client := dial()
	defer client.Close()
	limit := waterclock.Middleware(client, "login", waterclock.KeyByHeader("X-Api-Key"),
		waterclock.Skip(func(r *http.Request) bool { return r.URL.Path == "/health" }),
		waterclock.ForRequest(func(r *http.Request) []waterclock.CallOption {
			if r.Method == http.MethodPost {
				return []waterclock.CallOption{waterclock.Cost(5)}
			}
			return nil
		}),
		waterclock.OnRefused(func(w http.ResponseWriter, r *http.Request, d waterclock.Decision) {
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}))

	request := httptest.NewRequest(http.MethodPost, "/", nil)
	request.Header.Set("X-Api-Key", "frank")
	for i := 0; i < 2; i++ {
		response := httptest.NewRecorder()
		limit(http.HandlerFunc(logIn)).ServeHTTP(response, request)
		fmt.Println(response.Code)
	}
	// Output:
	// 204
	// 429
}

func ExampleWithFailMode() {
	client, err := waterclock.New("http://127.0.0.1:1", // nothing listens there
		waterclock.WithFailMode(waterclock.FailOpen),
		waterclock.WithErrorHandler(func(err error) { fmt.Println("unavailable:", errors.Is(err, waterclock.ErrUnavailable)) }))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	decision, err := client.Check(ctx, "login", "alice")
	fmt.Println(decision.Allowed, decision.Source, err)
	// Output:
	// unavailable: true
	// true unavailable <nil>
}

func ExampleError() {
	client := dial()
	defer client.Close()

	_, err := client.Check(ctx, "logn", "alice")
	switch {
	case errors.Is(err, waterclock.ErrInvalid): // bad input, an unknown policy: fix the call
		fmt.Println("invalid")
	case errors.Is(err, waterclock.ErrUnauthorized): // missing or wrong token, missing role
	case errors.Is(err, waterclock.ErrUnavailable): // no decision
	}
	// Output: invalid
}

func ExampleClient_SetOverride() {
	client := dial()
	defer client.Close()

	err := client.SetOverride(ctx, "login", "alice", waterclock.Override{
		Limits:    []any{"100/m"},
		ExpiresIn: 48 * time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	decision, err := client.Check(ctx, "login", "alice")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(decision.Limit)
	if err := client.ClearOverride(ctx, "login", "alice"); err != nil {
		log.Fatal(err)
	}
	// Output: 100
}

func ExampleClient_PutPolicy() {
	client := dial()
	defer client.Close()

	err := client.PutPolicy(ctx, "signup", map[string]any{
		"limits": []any{"5/m", map[string]any{"algorithm": "rolling-window", "limit": 50, "per": "1d"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	decision, err := client.Check(ctx, "signup", "192.0.2.1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(decision.Remaining)
	// Output: 4
}
