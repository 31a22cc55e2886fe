package waterclock

import (
	"context"
	"errors"
	"log"
	"sync"
	"time"
)

const (
	// errorLogPause is how long the same error is not logged again.
	errorLogPause = time.Minute
	// errorLogSize bounds the errors that are logged within errorLogPause.
	errorLogSize = 64
)

// errorLog is the error handler of a client that has no other: it writes to the
// standard log.
type errorLog struct {
	mutex  sync.Mutex
	logged map[string]time.Time
}

// handle logs an error, unless the caller cancelled the call.
func (l *errorLog) handle(err error) {
	if !errors.Is(err, context.Canceled) && l.isDue(sameness(err), time.Now()) {
		log.Print(err)
	}
}

// isDue says whether to log an error, and remembers that it was logged.
func (l *errorLog) isDue(text string, now time.Time) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for old, at := range l.logged {
		if now.Sub(at) >= errorLogPause {
			delete(l.logged, old)
		}
	}
	if _, known := l.logged[text]; known || len(l.logged) == errorLogSize {
		return false
	}
	if l.logged == nil {
		l.logged = map[string]time.Time{}
	}
	l.logged[text] = now
	return true
}

// sameness is equal for errors that are logged once. The cause is not part of
// it: a network error names another local port each time.
func sameness(err error) string {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Op + ": " + failure.Message
	}
	return err.Error()
}
