package waterclock

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// maxInFlight bounds the calls that are queued or unanswered on one connection.
	maxInFlight = 1024
	// A batch of commands is written once it has this many bytes.
	batchBytes = 64 << 10
)

// errNotSent wraps the failure of a connection for calls of which no byte was
// sent: they can be made on another one.
type errNotSent struct{ error }

func (e errNotSent) Unwrap() error { return e.error }

// respCall is a command on its way. The connection's mutex guards it until done
// is closed.
type respCall struct {
	command   []string
	within    time.Duration // how long the server may take to answer
	sent      time.Time
	abandoned bool
	reply     respReply
	err       error
	done      chan struct{}
}

// respConnection pipelines calls: replies come in the order of the commands. A
// connection is dropped when the server does not answer the oldest call in time.
type respConnection struct {
	socket   net.Conn
	deadline time.Duration
	// room has an element for each call that is queued or unanswered.
	room chan struct{}
	// wake tells the writer that calls are queued.
	wake chan struct{}
	// gone is closed when the connection has failed.
	gone chan struct{}

	mutex      sync.Mutex
	queued     []*respCall
	unanswered []*respCall
	failure    error
	idleSince  time.Time
}

// respDialer opens connections.
type respDialer struct {
	address  string
	token    string
	tls      *tls.Config // nil: no TLS
	deadline time.Duration
}

func (d respDialer) dial(ctx context.Context) (*respConnection, error) {
	var socket net.Conn
	var err error
	if d.tls == nil {
		socket, err = new(net.Dialer).DialContext(ctx, "tcp", d.address)
	} else {
		socket, err = (&tls.Dialer{Config: d.tls}).DialContext(ctx, "tcp", d.address)
	}
	if err != nil {
		return nil, err
	}
	connection := newRESPConnection(socket, d.deadline)
	if d.token == "" {
		return connection, nil
	}
	reply, err := connection.do(ctx, 0, []string{"AUTH", d.token})
	if err == nil && reply.failure != nil {
		err = reply.failure
	}
	if err != nil {
		connection.fail(err)
		return nil, err
	}
	return connection, nil
}

func newRESPConnection(socket net.Conn, deadline time.Duration) *respConnection {
	connection := &respConnection{
		socket:    socket,
		deadline:  deadline,
		room:      make(chan struct{}, maxInFlight),
		wake:      make(chan struct{}, 1),
		gone:      make(chan struct{}),
		idleSince: time.Now(),
	}
	go connection.write()
	go connection.read()
	return connection
}

// do sends a command and returns its reply, which may be an error reply. The
// server may take more than the deadline by within. When the context ends, a
// command that is still queued is not sent.
func (c *respConnection) do(ctx context.Context, within time.Duration, command []string) (respReply, error) {
	select {
	case c.room <- struct{}{}:
	case <-c.gone:
		return respReply{}, errNotSent{c.reason()}
	case <-ctx.Done():
		return respReply{}, ctx.Err()
	}
	call := &respCall{command: command, within: within, done: make(chan struct{})}
	if !c.enqueue(call) {
		return respReply{}, errNotSent{c.reason()}
	}
	select {
	case <-call.done:
		return call.reply, call.err
	case <-ctx.Done():
		c.mutex.Lock()
		call.abandoned = true
		c.mutex.Unlock()
		return respReply{}, ctx.Err()
	}
}

func (c *respConnection) enqueue(call *respCall) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.failure != nil {
		return false
	}
	c.queued = append(c.queued, call)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// usable says whether new calls may use the connection.
func (c *respConnection) usable() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	busy := len(c.queued)+len(c.unanswered) > 0
	return c.failure == nil && (busy || time.Since(c.idleSince) < maxIdle)
}

// retire closes a connection that was idle for too long. If a call has just
// begun to use it, the server closes it after that.
func (c *respConnection) retire() {
	c.mutex.Lock()
	busy := len(c.queued)+len(c.unanswered) > 0
	c.mutex.Unlock()
	if !busy {
		c.fail(errIdle)
	}
}

func (c *respConnection) reason() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.failure
}

// fail closes the connection and ends its calls. Only the first failure counts.
func (c *respConnection) fail(failure error) {
	c.mutex.Lock()
	if c.failure != nil {
		c.mutex.Unlock()
		return
	}
	c.failure = failure
	queued, unanswered := c.queued, c.unanswered
	c.queued, c.unanswered = nil, nil
	c.mutex.Unlock()

	close(c.gone)
	c.socket.Close()
	for _, call := range queued {
		call.err = errNotSent{failure}
		close(call.done)
	}
	for _, call := range unanswered {
		call.err = failure
		close(call.done)
	}
}

// write sends what is queued, in batches.
func (c *respConnection) write() {
	for {
		select {
		case <-c.wake:
		case <-c.gone:
			return
		}
		for {
			batch := c.nextBatch()
			if len(batch) == 0 {
				break
			}
			c.socket.SetWriteDeadline(time.Now().Add(c.deadline))
			if _, err := c.socket.Write(batch); err != nil {
				c.fail(err)
				return
			}
		}
	}
}

// nextBatch moves queued calls to the unanswered ones and returns their bytes.
func (c *respConnection) nextBatch() []byte {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var batch []byte
	for len(c.queued) > 0 && len(batch) < batchBytes {
		call := c.queued[0]
		c.queued = c.queued[1:]
		if call.abandoned {
			<-c.room
			continue
		}
		batch = appendCommand(batch, call.command)
		call.sent = time.Now()
		c.unanswered = append(c.unanswered, call)
		if len(c.unanswered) == 1 {
			c.expectAnswer()
		}
	}
	return batch
}

// expectAnswer bounds how long the oldest call may take. The mutex is held.
func (c *respConnection) expectAnswer() {
	var limit time.Time // none: nothing is expected
	if len(c.unanswered) > 0 {
		oldest := c.unanswered[0]
		limit = oldest.sent.Add(oldest.within + c.deadline)
	}
	c.socket.SetReadDeadline(limit)
}

// read hands replies to their calls. It reads all the time, so that a
// connection that the server closes while it is idle is not used again.
func (c *respConnection) read() {
	reader := bufio.NewReaderSize(c.socket, maxLine)
	for {
		reply, err := readReply(reader)
		if err != nil {
			c.fail(err)
			return
		}
		call := c.answered()
		if call == nil {
			c.fail(errUnexpected)
			return
		}
		call.reply = reply
		close(call.done)
	}
}

// answered takes the oldest call off the unanswered ones; nil if there is none.
func (c *respConnection) answered() *respCall {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.unanswered) == 0 {
		return nil
	}
	oldest := c.unanswered[0]
	c.unanswered = c.unanswered[1:]
	c.idleSince = time.Now()
	c.expectAnswer()
	<-c.room
	return oldest
}

var errIdle = errors.New("the connection was idle for too long")

var errUnexpected = errors.New("the server sent a reply that nobody asked for")
