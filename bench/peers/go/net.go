// net.go - Go's servers, by the protocol described in bench/serve.h.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

const (
	block      = 65536
	echoBuffer = 4096
)

func echo(conn net.Conn) {
	buffer := make([]byte, echoBuffer)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if _, err = conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func streamLength(conn net.Conn) (uint64, error) {
	var bytes [8]byte
	_, err := io.ReadFull(conn, bytes[:])
	return binary.LittleEndian.Uint64(bytes[:]), err
}

func atMost(left uint64) uint64 {
	if left > block {
		return block
	}
	return left
}

func source(conn net.Conn) {
	buffer := make([]byte, block)
	for {
		left, err := streamLength(conn)
		for err == nil && left > 0 {
			var n int
			n, err = conn.Write(buffer[:atMost(left)])
			left -= uint64(n)
		}
		if err != nil {
			return
		}
	}
}

func sink(conn net.Conn) {
	buffer := make([]byte, block)
	for {
		left, err := streamLength(conn)
		for err == nil && left > 0 {
			var n int
			n, err = conn.Read(buffer[:atMost(left)])
			left -= uint64(n)
		}
		if err == nil {
			_, err = conn.Write(buffer[:1])
		}
		if err != nil {
			return
		}
	}
}

var modes = map[string]func(net.Conn){
	"echo":   echo,
	"close":  nil,
	"source": source,
	"sink":   sink,
}

func listen(address string) (net.Listener, error) {
	network, at, found := strings.Cut(address, "://")
	if !found {
		return nil, errors.New("not an address")
	}
	// Keep-alive would be three more system calls for each connection, which the others do not make.
	config := net.ListenConfig{KeepAlive: -1}
	return config.Listen(context.Background(), network, at)
}

func serve(mode, address string) error {
	handle, found := modes[mode]
	if mode == "http" {
		backend, err := backendAddress()
		if err != nil {
			return err
		}
		handle, found = func(conn net.Conn) { front(conn, backend) }, true
	}
	if !found {
		return errors.New("no such mode")
	}
	listener, err := listen(address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		if handle == nil {
			conn.Close()
			continue
		}
		go func() {
			handle(conn)
			conn.Close()
		}()
	}
}
