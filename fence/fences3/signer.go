package fences3

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Signer is a transport that signs requests to an S3-like store (AWS Signature Version 4).
// Programs that have a client of the store's may have that sign instead: anything that is
// an http.RoundTripper will do. It reads the body of a request into memory.
type Signer struct {
	Region    string // "us-east-1", where a store has none
	AccessKey string
	SecretKey string
	Session   string            // of temporary credentials
	Next      http.RoundTripper // nil: http.DefaultTransport

	now func() time.Time // for tests: nil
}

// Format keeps the keys out of logs and errors.
func (s Signer) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "fences3.Signer(%s)", s.Region) }

// RoundTrip implements http.RoundTripper.
func (s Signer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	signed := r.Clone(r.Context())
	if len(body) > 0 {
		signed.Body = io.NopCloser(bytes.NewReader(body))
	}
	s.sign(signed, body)
	next := s.Next
	if next == nil {
		next = http.DefaultTransport
	}
	return next.RoundTrip(signed)
}

// sign adds the headers that are signed, and the signature:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
func (s Signer) sign(r *http.Request, body []byte) {
	now := time.Now
	if s.now != nil {
		now = s.now
	}
	at := now().UTC().Format("20060102T150405Z")
	sum := sha256.Sum256(body)
	r.Header.Set("X-Amz-Date", at)
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	if s.Session != "" {
		r.Header.Set("X-Amz-Security-Token", s.Session)
	}
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	headers := map[string]string{"host": host}
	for name, values := range r.Header {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "x-amz-") || name == "range" || strings.HasPrefix(name, "if-") {
			headers[name] = strings.TrimSpace(strings.Join(values, ","))
		}
	}
	var names []string
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, escapePath(r.URL.Path),
		strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20"))
	for _, name := range names {
		fmt.Fprintf(&canonical, "%s:%s\n", name, headers[name])
	}
	list := strings.Join(names, ";")
	fmt.Fprintf(&canonical, "\n%s\n%s", list, hex.EncodeToString(sum[:]))
	scope := at[:8] + "/" + s.Region + "/s3/aws4_request"
	request := sha256.Sum256([]byte(canonical.String()))
	key := []byte("AWS4" + s.SecretKey)
	for _, part := range []string{at[:8], s.Region, "s3", "aws4_request",
		"AWS4-HMAC-SHA256\n" + at + "\n" + scope + "\n" + hex.EncodeToString(request[:])} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%x",
		s.AccessKey, scope, list, key))
}

// escapePath writes a path as it is signed: everything but letters, digits and -._~/ as %XX.
func escapePath(path string) string {
	if path == "" {
		return "/"
	}
	var b strings.Builder
	for _, c := range []byte(path) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
