package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// A server without TLS says nothing to a handshake: it waits for a line's end. Why it does is known
// before a caller has given up.
func TestNoTLSIsNoticedDuringTheHandshake(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for commands := bufio.NewReader(conn); ; {
					line, err := commands.ReadString('\n')
					if err != nil {
						return
					}
					if line == "PING\r\n" {
						fmt.Fprint(conn, "+PONG\r\n")
					}
				}
			}()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d := &diagnosis{network: "tcp", address: listener.Addr().String(), config: &tls.Config{ServerName: "127.0.0.1"}}
	_, err = d.dial(ctx, new(net.Dialer))
	if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "does not speak TLS") || ctx.Err() != nil {
		t.Errorf("%v; the context: %v", err, ctx.Err())
	}
}
