package waterclock

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"testing"
	"time"
)

// pipe is a connection whose other end the test holds. Nothing is buffered in
// between: a write blocks until the test reads.
func pipe(t *testing.T) (*respConnection, net.Conn) {
	client, server := net.Pipe()
	connection := newRESPConnection(client, time.Minute)
	t.Cleanup(func() {
		connection.fail(errClosed)
		server.Close()
	})
	return connection, server
}

// begin starts a call and returns when it is queued or sent.
func begin(ctx context.Context, c *respConnection, word string) <-chan error {
	c.mutex.Lock()
	before := len(c.queued) + len(c.unanswered)
	c.mutex.Unlock()
	result := make(chan error, 1)
	go func() {
		_, err := c.do(ctx, 0, []string{word})
		result <- err
	}()
	await(func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		return len(c.queued)+len(c.unanswered) > before
	})
	return result
}

func await(condition func() bool) {
	for !condition() {
		time.Sleep(time.Millisecond)
	}
}

// expectCommand reads one command of one word.
func expectCommand(t *testing.T, reader *bufio.Reader, word string) {
	t.Helper()
	reply, err := readReply(reader)
	if err != nil || len(reply.items) != 1 || string(reply.items[0].text) != word {
		t.Fatalf("got %v and the error %v, expected the command %s", reply.items, err, word)
	}
}

func TestACallThatIsCancelledInTheQueueIsNotSent(t *testing.T) {
	connection, server := pipe(t)
	first := begin(context.Background(), connection, "FIRST")
	// The writer blocks with the first command, so the second stays queued.
	await(func() bool {
		connection.mutex.Lock()
		defer connection.mutex.Unlock()
		return len(connection.unanswered) == 1
	})
	ctx, cancel := context.WithCancel(context.Background())
	second := begin(ctx, connection, "SECOND")
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Fatalf("got the error %v", err)
	}
	third := begin(context.Background(), connection, "THIRD")

	reader := bufio.NewReader(server)
	expectCommand(t, reader, "FIRST")
	expectCommand(t, reader, "THIRD")
	server.Write([]byte("+OK\r\n+OK\r\n"))
	for _, result := range []<-chan error{first, third} {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	if len(connection.room) != 0 {
		t.Errorf("%d places are still taken", len(connection.room))
	}
}

// A caller that gives up does not shift the replies of those behind it.
func TestTheReplyOfACallerThatLeftIsDiscarded(t *testing.T) {
	connection, server := pipe(t)
	ctx, cancel := context.WithCancel(context.Background())
	first := begin(ctx, connection, "FIRST")
	reader := bufio.NewReader(server)
	expectCommand(t, reader, "FIRST")
	cancel()
	<-first
	reply := make(chan respReply, 1)
	go func() {
		answer, _ := connection.do(context.Background(), 0, []string{"SECOND"})
		reply <- answer
	}()
	expectCommand(t, reader, "SECOND")
	server.Write([]byte(":1\r\n:2\r\n"))
	if got := <-reply; got.number != 2 {
		t.Errorf("the second call got the reply %d", got.number)
	}
}

func TestAFailedConnectionTellsWhatWasNotSent(t *testing.T) {
	connection, _ := pipe(t)
	sent := begin(context.Background(), connection, "FIRST")
	await(func() bool {
		connection.mutex.Lock()
		defer connection.mutex.Unlock()
		return len(connection.unanswered) == 1
	})
	queued := begin(context.Background(), connection, "SECOND")
	connection.fail(net.ErrClosed)
	if err := <-sent; errors.As(err, new(errNotSent)) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("the call that was being sent got the error %v", err)
	}
	if err := <-queued; !errors.As(err, new(errNotSent)) {
		t.Errorf("the call that was queued got the error %v", err)
	}
}

func TestAReplyThatNobodyAskedForEndsTheConnection(t *testing.T) {
	connection, server := pipe(t)
	server.Write([]byte("+OK\r\n"))
	<-connection.gone
	if err := connection.reason(); !errors.Is(err, errUnexpected) {
		t.Errorf("got the error %v", err)
	}
}

// A connection that the server closed while it was idle costs no call.
func TestAConnectionThatTheServerClosedIsReplaced(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connection.Read(make([]byte, 4096))
			connection.Write([]byte("+OK\r\n"))
			connection.Close()
		}
	}()
	s := defaults()
	s.deadline, s.maxConnections = time.Minute, 1
	transport, err := newRESPTransport(&url.URL{Scheme: "redis", Host: listener.Addr().String()}, s)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.close()
	for i := 0; i < 3; i++ {
		if err := transport.cancel(context.Background(), "order-17"); err != nil {
			t.Fatal(err)
		}
		<-transport.shared.slots[0].connection.gone
	}
}

// short is a deadline that passes soon. Its connection is a real one, which
// takes a command without anyone reading.
const short = 10 * time.Millisecond

func shortConnection(t *testing.T) (*respConnection, net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	connection := newRESPConnection(client, short)
	t.Cleanup(func() {
		connection.fail(errClosed)
		server.Close()
	})
	return connection, server
}

// Otherwise callers that leave would pile up on a connection that hangs.
func TestAConnectionThatDoesNotAnswerIsDropped(t *testing.T) {
	connection, _ := shortConnection(t)
	if _, err := connection.do(context.Background(), 0, []string{"CHECK"}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got the error %v", err)
	}
	<-connection.gone
}

func TestAWaitingCallMayTakeLongerThanTheDeadline(t *testing.T) {
	connection, server := shortConnection(t)
	go func() {
		readReply(bufio.NewReader(server))
		time.Sleep(3 * short)
		server.Write([]byte("+OK\r\n"))
	}()
	if _, err := connection.do(context.Background(), time.Minute, []string{"WAIT"}); err != nil {
		t.Error(err)
	}
}

func TestAnIdleConnectionIsReplaced(t *testing.T) {
	connection, _ := pipe(t)
	if !connection.usable() {
		t.Fatal("a new connection is not usable")
	}
	connection.mutex.Lock()
	connection.idleSince = time.Now().Add(-maxIdle)
	connection.mutex.Unlock()
	if connection.usable() {
		t.Error("a connection is usable although the server is about to close it")
	}
}
