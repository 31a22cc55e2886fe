package waterclock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
)

// work reserves 4 of 5, then does what a test wants.
func work(ctx context.Context, client *waterclock.Client, do func(*waterclock.Reservation) error) (err error) {
	reservation, err := client.Reserve(ctx, "burst", "alice", waterclock.Cost(4))
	if err != nil {
		return err
	}
	defer reservation.Settle(&err)
	return do(reservation)
}

func TestSettle(t *testing.T) {
	failure := errors.New("the work failed")
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		ctx := within(t, time.Minute)
		for _, one := range []struct {
			name string
			do   func(*waterclock.Reservation) error
			want error
			left int64
		}{
			{"without a commit, the estimate stays charged", func(*waterclock.Reservation) error { return nil }, nil, 1},
			{"a commit counts", func(r *waterclock.Reservation) error { return r.Commit(ctx, waterclock.Cost(2)) }, nil, 3},
			{"a cancel counts", func(r *waterclock.Reservation) error { return r.Cancel(ctx) }, nil, 5},
			{"an error cancels", func(*waterclock.Reservation) error { return failure }, failure, 5},
			{"a commit counts in spite of an error", func(r *waterclock.Reservation) error {
				if err := r.Commit(ctx, waterclock.Cost(2)); err != nil {
					return err
				}
				return failure
			}, failure, 3},
			{"a commit that failed is repeated", func(r *waterclock.Reservation) error {
				over, cancel := context.WithCancel(ctx)
				cancel()
				if err := r.Commit(over, waterclock.Cost(2)); err == nil {
					t.Error("a commit succeeded with a context that is over")
				}
				return failure
			}, failure, 3},
			{"a cancel that failed is repeated", func(r *waterclock.Reservation) error {
				over, cancel := context.WithCancel(ctx)
				cancel()
				if err := r.Cancel(over); err == nil {
					t.Error("a cancel succeeded with a context that is over")
				}
				return nil
			}, nil, 5},
		} {
			t.Run(one.name, func(t *testing.T) {
				if _, err := client.Reset(ctx, "burst", "alice"); err != nil {
					t.Fatal(err)
				}
				if err := work(ctx, client, one.do); err != one.want {
					t.Errorf("got the error %v", err)
				}
				expectLeft(t, client, one.left)
			})
		}
	})
}

func TestSettleIgnoresARefusedReservation(t *testing.T) {
	server := startServer(t)
	client := newClient(t, server.HTTP, waterclock.WithToken(adminToken),
		waterclock.WithErrorHandler(func(err error) { t.Errorf("reported: %v", err) }))
	reservation, err := client.Reserve(within(t, time.Minute), "burst", "alice", waterclock.Cost(6))
	if err != nil || reservation.OK() {
		t.Fatalf("OK %v, error %v", reservation.OK(), err)
	}
	reservation.Settle(&err)
	expectLeft(t, client, 5)
}

func TestUnitsMustNameOne(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		ctx := within(t, time.Minute)
		reservation, err := client.Reserve(ctx, "model", "alice", waterclock.Units{"tokens": 10})
		if err != nil {
			t.Fatal(err)
		}
		none := waterclock.Units{}
		failure := func(_ any, err error) error { return err }
		for call, err := range map[string]error{
			"check":     failure(client.Check(ctx, "model", "alice", none)),
			"nil check": failure(client.Check(ctx, "model", "alice", waterclock.Units(nil))),
			"peek":      failure(client.Peek(ctx, "model", "alice", none)),
			"wait":      failure(client.Wait(ctx, "model", "alice", time.Second, none)),
			"refund":    failure(client.Refund(ctx, "model", "alice", none)),
			"report":    failure(client.Report(ctx, "model", "alice", none)),
			"reserve":   failure(client.Reserve(ctx, "model", "alice", none)),
			"check all": failure(client.CheckAll(ctx, waterclock.NewCharge("model", "alice", none))),
			"commit":    reservation.Commit(ctx, none),
		} {
			if !errors.Is(err, waterclock.ErrInvalid) || !strings.Contains(err.Error(), "the cost names no unit") {
				t.Errorf("%s: %v", call, err)
			}
		}
		decision, err := client.Peek(ctx, "model", "alice")
		if err != nil || decision.Limits[0].Remaining != 9 || decision.Limits[1].Remaining != 990 {
			t.Errorf("left %+v, error %v", decision.Limits, err)
		}
	})
}

func TestSettleCancelsWhenTheFunctionPanics(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		func() {
			defer func() {
				if got := recover(); got != "broken" {
					t.Errorf("recovered %v", got)
				}
			}()
			work(within(t, time.Minute), client, func(*waterclock.Reservation) error { panic("broken") })
		}()
		expectLeft(t, client, 5)
	})
}

func TestARefusedReservationTellsTheDelay(t *testing.T) {
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		ctx := within(t, time.Minute)
		limiter := client.Limiter("burst", "alice")
		first := limiter.ReserveN(ctx, 5)
		if !first.OK() || first.Delay() != 0 {
			t.Fatal("the burst should be reserved")
		}
		second := limiter.Reserve(ctx)
		if second.OK() || second.Delay() < 10*time.Minute || second.Delay() > 12*time.Minute {
			t.Errorf("the second reservation: OK %v, delay %v", second.OK(), second.Delay())
		}
		if err := second.Cancel(ctx); err != nil {
			t.Errorf("cancelling what was not reserved: %v", err)
		}
		if err := second.Commit(ctx, waterclock.Cost(1)); !errors.Is(err, waterclock.ErrInvalid) {
			t.Errorf("committing what was not reserved: %v", err)
		}
		if never := limiter.ReserveN(ctx, 6); never.OK() || never.Delay() != waterclock.InfDuration {
			t.Errorf("more than the capacity: OK %v, delay %v", never.OK(), never.Delay())
		}
	})
}

func expectLeft(t *testing.T, client *waterclock.Client, want int64) {
	t.Helper()
	left, err := client.Keyed("burst").Remaining(within(t, time.Minute), "alice")
	if err != nil || left != want {
		t.Errorf("%d are left, expected %d; error %v", left, want, err)
	}
}
