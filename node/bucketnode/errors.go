package bucketnode

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/minio/minio-go/v7"

	"github.com/fenlock/fenlock/node/engine"
)

// rights are what the user of the keys needs.
const rights = "the keys need s3:GetObject, s3:PutObject and s3:DeleteObject on the prefix, and s3:ListBucket on the bucket, without which a missing object looks forbidden"

// notConnected reports whether an error is of a connection that was never made.
func notConnected(err error) bool {
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &certificate) || errors.As(err, &record)
}

// advice says what an error means and what a person can do about it, and whether waiting does not
// help.
func advice(err error) (text string, permanent bool) {
	var refused minio.ErrorResponse
	if errors.As(err, &refused) {
		return adviceOf(refused)
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return "the certificate's authority is not known: name its file with the parameter ca", true
	case errors.As(err, &name):
		return "the certificate is for another host: correct the URL, or name what it is for with the parameter servername",
			true
	case err != nil && (strings.Contains(err.Error(), "first record does not look like a TLS handshake") ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")):
		return "the server speaks HTTP without TLS: correct the port, or say tls=off if the network is trusted", true
	case err != nil && strings.Contains(err.Error(), notHTTP):
		return "another kind of server listens there: correct the port", false
	}
	return "", false
}

func adviceOf(refused minio.ErrorResponse) (text string, permanent bool) {
	switch refused.Code {
	case minio.NoSuchBucket:
		return "make the bucket, or correct the URL", true
	case minio.InvalidAccessKeyID:
		return "the store does not know the access key", true
	case minio.SignatureDoesNotMatch:
		return "the secret is not that of the access key", true
	case minio.RequestTimeTooSkewed:
		return "this machine's clock and the store's differ by more than a quarter of an hour: set it, and run chronyd or the like",
			true
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return "the session of the keys has ended: get new ones", true
	case minio.AuthorizationHeaderMalformed, minio.InvalidRegion, "PermanentRedirect", "TemporaryRedirect",
		"IllegalLocationConstraintException":
		if refused.Region != "" {
			return "the bucket is in the region " + refused.Region + ": say region=" + refused.Region +
				", and use that region's host", true
		}
		return "the bucket is in another region: name it with the parameter region, and use that region's host", true
	case "SlowDown", "TooManyRequests", "Throttling":
		return "the store throttles: spread names over several prefixes, or lengthen the TTL", false
	case "QuotaExceeded", "InsufficientStorage", "XMinioStorageFull":
		return "the store is full", false
	}
	switch status := refused.StatusCode; {
	case status == 0:
		return "an answer cannot be read: is this an S3 endpoint?", true
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return rights, true
	case status == http.StatusBadRequest && strings.Contains(refused.Message, "HTTP request to an HTTPS server"):
		return "the server wants TLS: leave tls=off out, or say tls=on", true
	case status == http.StatusNotImplemented || status == http.StatusMethodNotAllowed:
		return "the store has no conditional writes, without which it cannot hold locks", true
	case status >= 300 && status < 400:
		return "the store is at another address: correct the URL and the region", true
	case status >= 400 && status < 500 && status != http.StatusConflict && status != http.StatusPreconditionFailed &&
		status != http.StatusRequestTimeout && status != http.StatusTooManyRequests && status != statusClientClosed:
		return "the store does not take the request: is this an S3 endpoint?", true
	}
	return "", false
}

// notHTTP begins the error of Go's client for an answer that is none of HTTP's. Unasked is that for
// one that came before the request.
const (
	notHTTP = "malformed HTTP"
	unasked = "readLoopPeekFailLocked: %!w(<nil>)"
)

// mostMessage is how much of a store's message is repeated, in bytes.
const mostMessage = 300

// printable makes the message of a store a line that can be printed. It leaves out the URL of a
// request, which is another one each time.
func printable(err error) error {
	var refused minio.ErrorResponse
	var request *url.Error
	switch {
	case errors.As(err, &refused):
	case errors.As(err, &request) && strings.Contains(request.Err.Error(), request.URL):
		return errors.New("the connection was closed before the answer") // in the words of the library
	case err != nil && strings.Contains(err.Error(), unasked):
		return errors.New(notHTTP)
	case err != nil && strings.Contains(err.Error(), notHTTP): // and goes on with all that was said
		return errors.New(notHTTP)
	case request != nil:
		return request.Err
	default:
		return err
	}
	refused.Message = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, refused.Message[:min(len(refused.Message), mostMessage)])
	return refused
}

// explained says what can be done about an error, and has it match node.ErrMisconfigured if waiting
// does not help.
func explained(err error) error {
	text, permanent := advice(err)
	return engine.Explain(err, text, permanent)
}
