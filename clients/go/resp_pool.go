package waterclock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// maxShared bounds the connections that calls share. Pipelining makes more of
// them pointless.
const maxShared = 4

var errClosed = errors.New("the client is closed")

// respShared spreads calls over a few connections.
type respShared struct {
	dialer respDialer
	slots  []respSlot
	next   atomic.Uint32
}

// respSlot is the place of one connection.
type respSlot struct {
	mutex      sync.Mutex
	connection *respConnection
	dialing    *respDial // nil: nobody dials
	closed     bool
}

// respDial is a connection that is being opened for all who need it.
type respDial struct {
	done       chan struct{}
	connection *respConnection
	err        error
}

func newRESPShared(dialer respDialer, connections int) *respShared {
	if connections > maxShared {
		connections = maxShared
	}
	return &respShared{dialer: dialer, slots: make([]respSlot, connections)}
}

// do sends a command. A connection that failed before a byte of the command was
// sent is replaced once.
func (s *respShared) do(ctx context.Context, command []string) (respReply, error) {
	slot := &s.slots[s.next.Add(1)%uint32(len(s.slots))]
	reply, err := s.try(ctx, slot, command)
	if errors.As(err, new(errNotSent)) {
		reply, err = s.try(ctx, slot, command)
	}
	return reply, err
}

func (s *respShared) try(ctx context.Context, slot *respSlot, command []string) (respReply, error) {
	connection, err := slot.get(ctx, s.dialer)
	if err != nil {
		return respReply{}, err
	}
	return orFailure(connection.do(ctx, 0, command))
}

// orFailure makes an error reply an error.
func orFailure(reply respReply, err error) (respReply, error) {
	if err == nil && reply.failure != nil {
		return respReply{}, reply.failure
	}
	return reply, err
}

// get returns the slot's connection, or waits until a new one is open.
func (s *respSlot) get(ctx context.Context, dialer respDialer) (*respConnection, error) {
	s.mutex.Lock()
	if s.closed {
		s.mutex.Unlock()
		return nil, errClosed
	}
	if s.connection != nil && s.connection.usable() {
		defer s.mutex.Unlock()
		return s.connection, nil
	}
	dial := s.dialing
	if dial == nil {
		dial = &respDial{done: make(chan struct{})}
		s.dialing = dial
		go s.open(dialer, dial)
	}
	s.mutex.Unlock()
	select {
	case <-dial.done:
		return dial.connection, dial.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open dials for all callers, so no caller's context ends it.
func (s *respSlot) open(dialer respDialer, dial *respDial) {
	ctx, cancel := context.WithTimeout(context.Background(), dialer.deadline)
	defer cancel()
	dial.connection, dial.err = dialer.dial(ctx)
	s.mutex.Lock()
	if dial.err == nil && s.closed {
		dial.connection.fail(errClosed)
	}
	if s.connection != nil {
		s.connection.retire()
	}
	s.connection, s.dialing = dial.connection, nil
	s.mutex.Unlock()
	close(dial.done)
}

func (s *respShared) close() {
	for i := range s.slots {
		slot := &s.slots[i]
		slot.mutex.Lock()
		slot.closed = true
		if slot.connection != nil {
			slot.connection.fail(errClosed)
		}
		slot.mutex.Unlock()
	}
}

// respWaits keeps connections for waiting calls, each for one call at a time.
// The client bounds how many calls there are.
type respWaits struct {
	dialer respDialer
	mutex  sync.Mutex
	free   []*respConnection
	closed bool
}

func (w *respWaits) do(ctx context.Context, within time.Duration, command []string) (respReply, error) {
	for connection := w.take(); connection != nil; connection = w.take() {
		reply, err := w.use(ctx, connection, within, command)
		if !errors.As(err, new(errNotSent)) {
			return reply, err
		}
	}
	connecting, cancel := context.WithTimeout(ctx, w.dialer.deadline)
	defer cancel()
	connection, err := w.dialer.dial(connecting)
	if err != nil {
		return respReply{}, err
	}
	return w.use(ctx, connection, within, command)
}

// use makes one call. A caller that gives up closes the connection, which is how
// it leaves the line.
func (w *respWaits) use(ctx context.Context, connection *respConnection, within time.Duration, command []string) (respReply, error) {
	reply, err := connection.do(ctx, within, command)
	if err != nil {
		connection.fail(err)
		return respReply{}, err
	}
	w.put(connection)
	return orFailure(reply, nil)
}

// take returns a connection that is free; nil if there is none.
func (w *respWaits) take() *respConnection {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for len(w.free) > 0 {
		last := len(w.free) - 1
		connection := w.free[last]
		w.free = w.free[:last]
		if connection.usable() {
			return connection
		}
		connection.retire()
	}
	return nil
}

func (w *respWaits) put(connection *respConnection) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.closed {
		connection.fail(errClosed)
		return
	}
	w.free = append(w.free, connection)
}

func (w *respWaits) close() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.closed = true
	for _, connection := range w.free {
		connection.fail(errClosed)
	}
	w.free = nil
}
