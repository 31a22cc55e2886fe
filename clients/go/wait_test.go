package waterclock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestTheTimeInTheClientsQueueCountsAsWaited(t *testing.T) {
	client := &Client{waits: make(chan struct{}, 1)}
	client.waits <- struct{}{}
	go func() {
		time.Sleep(time.Millisecond)
		<-client.waits
	}()
	q := question{within: time.Hour}
	leave, err := client.enterWait(context.Background(), &q)
	if err != nil {
		t.Fatal(err)
	}
	if q.within <= 0 || q.within >= time.Hour {
		t.Errorf("the server may let the call wait for %v", q.within)
	}
	q.within = time.Millisecond
	if _, err := client.enterWait(context.Background(), &q); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a place: got the error %v", err)
	}
	leave()
	if len(client.waits) != 0 {
		t.Error("the place is still taken")
	}
}

func TestWhenAWaitIsInReach(t *testing.T) {
	for retry, want := range map[time.Duration]time.Duration{
		0:                           shortestPause,
		5 * time.Second:             5 * time.Second,
		maxWithin + time.Nanosecond: shortestPause,
		maxWithin + 10*time.Minute:  10 * time.Minute,
	} {
		if got := untilInReach(retry); got != want {
			t.Errorf("after a refusal for %v: a pause of %v, expected %v", retry, got, want)
		}
	}
}

func TestAWaitLeavesTimeForTheAnswer(t *testing.T) {
	if got := waitable(context.Background()); got != maxWithin {
		t.Errorf("without a deadline: %v", got)
	}
	for _, left := range []time.Duration{time.Hour, 30 * time.Second, 80 * time.Millisecond, -time.Second} {
		ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(left))
		if got := waitable(ctx); got > maxWithin || got < 0 || left > 0 && got >= left {
			t.Errorf("with %v left: %v", left, got)
		}
		cancel()
	}
}
