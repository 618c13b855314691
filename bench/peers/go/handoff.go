// handoff.go - Go's front of the hand-off experiment: a goroutine for each connection, which asks the
// back end over a connection of its own. It reads and writes as much of HTTP as bench/handoff/http.c.
package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
)

const messageMax = 4096

var (
	errMessage       = errors.New("not a message")
	lineEnd          = []byte("\r\n")
	headEnd          = []byte("\r\n\r\n")
	colon, space     = []byte(":"), []byte(" ")
	version          = []byte("HTTP/1.")
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
	connection       = []byte("connection")
	closes, keeps    = []byte("close"), []byte("keep-alive")
)

type message struct {
	first      []byte // its first line
	head, body int    // bytes
	close      bool
}

func number(text []byte) (int, error) {
	value := 0
	for _, digit := range text {
		if digit < '0' || digit > '9' || value > messageMax {
			return 0, errMessage
		}
		value = value*10 + int(digit-'0')
	}
	if len(text) == 0 {
		return 0, errMessage
	}
	return value, nil
}

func (m *message) field(line []byte) (err error) {
	name, value, found := bytes.Cut(line, colon)
	if !found || len(name) == 0 {
		return errMessage
	}
	value = bytes.Trim(value, " \t")
	switch {
	case bytes.EqualFold(name, contentLength):
		m.body, err = number(value)
	case bytes.EqualFold(name, transferEncoding):
		err = errMessage
	case bytes.EqualFold(name, connection):
		m.close = bytes.EqualFold(value, closes) || (m.close && !bytes.EqualFold(value, keeps))
	}
	return
}

// parse says whether the message has come in whole. The version ends the first line of a request and
// begins that of a reply.
func (m *message) parse(data []byte, isReply bool) (bool, error) {
	end := bytes.Index(data, headEnd)
	if end < 0 {
		if len(data) == messageMax {
			return false, errMessage
		}
		return false, nil
	}
	line, rest, _ := bytes.Cut(data[:end+len(lineEnd)], lineEnd)
	*m = message{first: line, head: end + len(headEnd)}
	if len(line) < 8 {
		return false, errMessage
	}
	at := line
	if !isReply {
		at = line[len(line)-8:]
	}
	if !bytes.HasPrefix(at, version) {
		return false, errMessage
	}
	m.close = at[7] == '0'
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, lineEnd)
		if err := m.field(line); err != nil {
			return false, err
		}
	}
	if m.head+m.body > messageMax {
		return false, errMessage
	}
	return len(data) >= m.head+m.body, nil
}

func (m *message) target() ([]byte, error) {
	method, rest, _ := bytes.Cut(m.first, space)
	target, last, found := bytes.Cut(rest, space)
	if !found || len(method) == 0 || len(target) == 0 || len(last) != 8 {
		return nil, errMessage
	}
	return target, nil
}

func (m *message) status() (int, error) {
	_, rest, found := bytes.Cut(m.first, space)
	if !found || len(rest) < 3 {
		return 0, errMessage
	}
	return number(rest[:3])
}

type stream struct {
	conn net.Conn
	used int
	data [messageMax]byte
}

func (s *stream) read(m *message, isReply bool) error {
	for {
		whole, err := m.parse(s.data[:s.used], isReply)
		if whole || err != nil {
			return err
		}
		n, err := s.conn.Read(s.data[s.used:])
		if err != nil {
			return err
		}
		s.used += n
	}
}

func (s *stream) consume(m *message) {
	s.used = copy(s.data[:], s.data[m.head+m.body:s.used])
}

func (s *stream) close() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.conn, s.used = nil, 0
}

var reasons = map[int]string{200: "OK", 400: "Bad Request", 502: "Bad Gateway"}

func appendReply(out []byte, status int, close bool, body []byte) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(status), 10)
	out = append(append(out, ' '), reasons[status]...)
	out = append(out, "\r\nContent-Type: text/plain\r\n"...)
	if close {
		out = append(out, "Connection: close\r\n"...)
	}
	out = append(out, "Content-Length: "...)
	out = strconv.AppendInt(out, int64(len(body)), 10)
	return append(append(out, headEnd...), body...)
}

// ask is the ordinary blocking call: connect if need be, ask, wait for the reply. It appends the
// front's own to `out`.
func ask(backend *stream, address string, target, out []byte, close bool) ([]byte, error) {
	var err error
	if backend.conn == nil {
		if backend.conn, err = net.Dial("tcp", address); err != nil {
			backend.conn = nil
			return out, err
		}
	}
	request := append(append(out, "GET "...), target...)
	request = append(request, " HTTP/1.1\r\nHost: backend\r\n\r\n"...)
	if _, err = backend.conn.Write(request); err != nil {
		return out, err
	}
	var reply message
	if err = backend.read(&reply, true); err != nil {
		return out, err
	}
	status, err := reply.status()
	if err != nil {
		return out, err
	}
	out = appendReply(out, status, close, backend.data[reply.head:reply.head+reply.body])
	backend.consume(&reply)
	if reply.close {
		backend.close()
	}
	return out, nil
}

func front(conn net.Conn, address string) {
	client, backend := &stream{conn: conn}, &stream{}
	defer backend.close()
	defer client.close()
	buffer := make([]byte, 0, messageMax)
	for {
		var request message
		err := client.read(&request, false)
		target, wrong := []byte(nil), err
		if err == nil {
			target, wrong = request.target()
		}
		if wrong == errMessage {
			conn.Write(appendReply(buffer, 400, true, nil))
		}
		if wrong != nil {
			return
		}
		out, err := ask(backend, address, target, buffer, request.close)
		if err != nil {
			backend.close()
			out = appendReply(buffer, 502, request.close, nil)
		}
		client.consume(&request)
		if _, err = conn.Write(out); err != nil || request.close {
			return
		}
	}
}

func backendAddress() (string, error) {
	network, address, found := strings.Cut(os.Getenv("WEFT_BENCH_BACKEND"), "://")
	if !found || network != "tcp" {
		return "", errors.New("no back end")
	}
	return address, nil
}
