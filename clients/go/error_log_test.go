package waterclock

import (
	"errors"
	"strconv"
	"testing"
	"time"
)

func TestTheErrorLogLogsAnErrorOnceAMinute(t *testing.T) {
	var errorLog errorLog
	start := time.Now()
	for _, step := range []struct {
		text  string
		after time.Duration
		due   bool
	}{
		{"a", 0, true},
		{"a", time.Second, false},
		{"b", 30 * time.Second, true},
		{"a", 59 * time.Second, false},
		{"a", time.Minute, true},
		{"b", time.Minute, false},
		{"b", 90 * time.Second, true},
	} {
		if due := errorLog.isDue(step.text, start.Add(step.after)); due != step.due {
			t.Errorf("%q after %v: due is %v", step.text, step.after, due)
		}
	}
}

func TestTheErrorLogIsBounded(t *testing.T) {
	var errorLog errorLog
	now := time.Now()
	due := 0
	for i := 0; i < 2*errorLogSize; i++ {
		if errorLog.isDue(strconv.Itoa(i), now) {
			due++
		}
	}
	if due != errorLogSize || len(errorLog.logged) != errorLogSize {
		t.Errorf("%d errors were logged, %d are remembered", due, len(errorLog.logged))
	}
	if !errorLog.isDue("another", now.Add(errorLogPause)) {
		t.Error("a full log should have room again after a minute")
	}
}

func TestErrorsWithOtherPortsAreTheSame(t *testing.T) {
	failure := func(cause string) error {
		return &Error{Kind: ErrUnavailable, Op: `check of "login"`, Message: "the server cannot be asked", Err: errors.New(cause)}
	}
	if sameness(failure("read 127.0.0.1:1->127.0.0.1:3")) != sameness(failure("read 127.0.0.1:2->127.0.0.1:3")) {
		t.Error("both are the same failure")
	}
}
