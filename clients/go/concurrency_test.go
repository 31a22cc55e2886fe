package waterclock_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
)

func TestManyCallsAtOnceAdmitExactlyTheCapacity(t *testing.T) {
	const calls, capacity = 1000, 5
	overBoth(t, func(t *testing.T, client *waterclock.Client) {
		var admitted atomic.Int64
		var group sync.WaitGroup
		for i := 0; i < calls; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				decision, err := client.Check(within(t, time.Minute), "burst", "crowd")
				if err != nil {
					t.Error(err)
				}
				if decision.Allowed {
					admitted.Add(1)
				}
			}()
		}
		group.Wait()
		if admitted.Load() != capacity {
			t.Errorf("%d calls were admitted, expected %d", admitted.Load(), capacity)
		}
	})
}

// More waiting calls than places: the others queue in the client.
func TestWaitingCallsQueueForAPlace(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			url := transport.url(startServer(t))
			client := newClient(t, url, waterclock.WithToken(adminToken), waterclock.WithMaxWaits(2))
			var group sync.WaitGroup
			for i := 0; i < 8; i++ {
				group.Add(1)
				go func() {
					defer group.Done()
					decision, err := client.Wait(within(t, time.Minute), "quick", "crowd", 30*time.Second)
					if err != nil || !decision.Allowed {
						t.Errorf("got %v and the error %v, expected to be admitted", decision.Allowed, err)
					}
				}()
			}
			group.Wait()
		})
	}
}

// A call that waits does not hold up others.
func TestAWaitingCallHasAConnectionOfItsOwn(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			url := transport.url(startServer(t))
			client := newClient(t, url, waterclock.WithToken(adminToken), waterclock.WithMaxConnections(1))
			ctx := within(t, time.Minute)
			if err := client.PutPolicy(ctx, "slow", map[string]any{"limits": []string{"1/20s"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Check(ctx, "slow", "alice"); err != nil {
				t.Fatal(err)
			}
			waited := make(chan error, 1)
			go func() {
				_, err := client.Wait(ctx, "slow", "alice", time.Minute)
				waited <- err
			}()
			awaitLine(t, client, "slow", "alice")
			select {
			case err := <-waited:
				t.Fatalf("the wait ended before the check, with the error %v", err)
			default:
			}
			// Resetting the key admits the caller in line.
			if _, err := client.Reset(ctx, "slow", "alice"); err != nil {
				t.Fatal(err)
			}
			if err := <-waited; err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitLine returns when a caller waits in line for a key that is exhausted:
// then the server refuses a check without naming a limit.
func awaitLine(t *testing.T, client *waterclock.Client, policy, key string) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	for {
		decision, err := client.Check(ctx, policy, key)
		if err != nil {
			t.Fatal(err)
		}
		if decision.Allowed {
			t.Fatal("the key is not exhausted")
		}
		if len(decision.RefusedBy) == 0 {
			return
		}
	}
}
