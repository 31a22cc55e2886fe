package waterclock

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The largest replies that are read. A server that sends more is none of ours.
const (
	maxLine  = 16 << 10
	maxBulk  = 4 << 20
	maxItems = 1024
)

// respReply is one reply: a text (nil: null), a number, items or an error.
type respReply struct {
	text    []byte
	number  int64
	items   []respReply
	failure *Error
}

// readReply reads one reply of the Redis protocol, version 2.
func readReply(reader *bufio.Reader) (respReply, error) { return readNested(reader, true) }

func readNested(reader *bufio.Reader, mayNest bool) (respReply, error) {
	line, err := reader.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return respReply{}, err
	}
	if len(line) < 3 || !bytes.HasSuffix(line, []byte("\r\n")) {
		return respReply{}, errNotRESP
	}
	kind, rest := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return respReply{text: []byte(rest)}, nil
	case '-':
		return respReply{failure: readFailure(rest)}, nil
	}
	number, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return respReply{}, errNotRESP
	}
	switch {
	case kind == ':':
		return respReply{number: number}, nil
	case (kind == '$' || kind == '*') && number == -1:
		return respReply{}, nil
	case kind == '$' && number >= 0 && number <= maxBulk:
		text := make([]byte, number+2)
		if _, err := io.ReadFull(reader, text); err != nil {
			return respReply{}, err
		}
		return respReply{text: text[:number:number]}, nil
	case kind == '*' && number >= 0 && number <= maxItems && mayNest:
		items := make([]respReply, number)
		for i := range items {
			if items[i], err = readNested(reader, false); err != nil {
				return respReply{}, err
			}
			if items[i].failure != nil {
				return respReply{}, errNotRESP
			}
		}
		return respReply{items: items}, nil
	default:
		return respReply{}, errNotRESP
	}
}

var errNotRESP = errors.New("the answer is not the Redis protocol as Waterclock speaks it")

// readFailure turns an error reply into an error. Its first word is its kind.
func readFailure(text string) *Error {
	kind, message, _ := strings.Cut(text, " ")
	failure := &Error{Kind: ErrInvalid, Message: message}
	switch kind {
	case "ERR":
	case "NOAUTH", "WRONGPASS", "NOPERM":
		failure.Kind = ErrUnauthorized
	case "BUSY":
		failure.Kind = ErrUnavailable
	case "UNAVAILABLE":
		failure.Kind, failure.Denied = ErrUnavailable, true
	default:
		failure.Message = text
	}
	return failure
}

// appendCommand writes a command as an array of bulk strings.
func appendCommand(buffer []byte, arguments []string) []byte {
	buffer = append(buffer, fmt.Sprintf("*%d\r\n", len(arguments))...)
	for _, argument := range arguments {
		buffer = append(buffer, '$')
		buffer = strconv.AppendInt(buffer, int64(len(argument)), 10)
		buffer = append(buffer, '\r', '\n')
		buffer = append(buffer, argument...)
		buffer = append(buffer, '\r', '\n')
	}
	return buffer
}
