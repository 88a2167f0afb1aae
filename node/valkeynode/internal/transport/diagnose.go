package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// diagnosis is what is known of a connection whose server may close it without a word:
// because it wants TLS, or a client's certificate. Servers say so late or never, so
// the reason is looked for when that has happened.
type diagnosis struct {
	network, address string
	config           *tls.Config // nil without TLS
	asked            bool        // the server wants a client's certificate
}

const (
	probeTimeout = 500 * time.Millisecond
	// A server that says nothing to a handshake for so long is asked for the reason
	// on another connection. That is earlier than requests are given up.
	quietHandshake = 200 * time.Millisecond
)

var errPlain = errors.New("it says nothing to a handshake")

// dial connects, with TLS if there is a configuration.
func (d *diagnosis) dial(ctx context.Context, dialer *net.Dialer) (net.Conn, error) {
	if d.config == nil {
		conn, err := dialer.DialContext(ctx, d.network, d.address)
		return conn, resp.Plain(err)
	}
	config := d.config.Clone()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		d.asked = true
		if len(config.Certificates) > 0 {
			return &config.Certificates[0], nil
		}
		return new(tls.Certificate), nil
	}
	// A server without TLS takes a handshake for the beginning of a command, and waits
	// for its end.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(quietHandshake, func() {
		if speaksPlainly(ctx, d.network, d.address) {
			cancel(errPlain)
		}
	})
	defer quiet.Stop()
	conn, err := (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, d.network, d.address)
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), errPlain):
		err = noTLS(errPlain)
	default:
		err = d.explain(err)
	}
	return conn, err
}

// explain says why a server has not said a word, if that can be found out.
func (d *diagnosis) explain(err error) error {
	timedOut := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
	why := ""
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
	case d.asked && timedOut:
	case d.asked && len(d.config.Certificates) > 0:
		// Or it is a proxy whose server is down: that passes.
		return fmt.Errorf("the server closed the connection: it may refuse the client's certificate (%w)", err)
	case d.asked:
		why = "the server closed the connection: it asks for a client's certificate, and the URL's parameters cert and key name none"
	case d.config == nil && !timedOut && speaksTLS(d.network, d.address):
		why = wantsTLS
	}
	if why == "" {
		return resp.Plain(err)
	}
	return engine.Misconfiguredf("%s (%v)", why, err)
}

func noTLS(err error) error {
	return engine.Misconfiguredf(
		"the server does not speak TLS on this port: in the URL's scheme write valkey for valkeys, or redis for rediss (%v)", err)
}

// wantsTLS is for all schemes, those of sentinels and clusters too.
const wantsTLS = "the server wants TLS: in the URL's scheme write valkeys for valkey, or rediss for redis"

// speaksTLS reports whether a server answers a handshake.
func speaksTLS(network, address string) bool {
	conn, err := net.DialTimeout(network, address, probeTimeout)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(probeTimeout))
	// Nothing is sent to a server that is not verified but that there is a client.
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake()
	var alert tls.AlertError
	return err == nil || errors.As(err, &alert)
}

// speaksPlainly reports whether a server replies to a command without TLS.
func speaksPlainly(ctx context.Context, network, address string) bool {
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(probeTimeout))
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return false
	}
	first := make([]byte, 1)
	_, err = conn.Read(first)
	return err == nil && (first[0] == '+' || first[0] == '-')
}
