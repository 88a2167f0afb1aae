package bucketnode_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/bucketnode"
)

// An answer that refuses leads to the mend, and no lock is waited for where waiting does not help.
func TestErrorsLeadToTheMend(t *testing.T) {
	f := newFake(t)
	n := ready(t, f)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "name")))
	for _, c := range []struct {
		status    int
		code      string
		says      string
		permanent bool
		sent      bool // the outcome of a write is unknown
	}{
		{404, "NoSuchBucket", "make the bucket", true, false},
		{403, "AccessDenied", "s3:ListBucket", true, false},
		{403, "InvalidAccessKeyId", "does not know the access key", true, false},
		{403, "SignatureDoesNotMatch", "the secret is not that", true, false},
		{403, "RequestTimeTooSkewed", "this machine's clock", true, false},
		{400, "ExpiredToken", "the session of the keys has ended", true, false},
		{400, "AuthorizationHeaderMalformed", "another region", true, false},
		{301, "PermanentRedirect", "another region", true, false},
		{307, "TemporaryRedirect", "another region", true, false},
		{501, "NotImplemented", "no conditional writes", true, false},
		{405, "MethodNotAllowed", "no conditional writes", true, false},
		{503, "SlowDown", "the store throttles", false, false},
		{500, "InternalError", "", false, true},
		{502, "", "", false, true},
		{408, "RequestTimeout", "", false, true},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodPut} {
				f.set(func(w http.ResponseWriter, r *http.Request, _ func() int) bool {
					if r.Method == method {
						fail(w, c.status, c.code)
					}
					return r.Method == method
				})
				a, err := n.Do(t.Context(), request(node.Acquire, "other"))
				if err == nil || errors.Is(err, node.ErrMisconfigured) != c.permanent || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %+v, %v; want %q, permanent: %v", method, a, err, c.says, c.permanent)
				}
				if unknown := !errors.Is(err, node.ErrNotSent); unknown != (c.sent && method == http.MethodPut) {
					t.Errorf("%s: unknown is %v: %v", method, unknown, err)
				}
			}
		})
	}
	f.set(nil)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "another")))
}

// A server that is not there, or is none of this kind.
func TestConnectionsLeadToTheMend(t *testing.T) {
	closed, other := testserver.WrongAddrs(t)
	quiet := func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		t.Cleanup(s.Close)
		return s
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>hello</html>") })
	plain, secure := quiet(page), quiet(page)
	plain.Start()
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	none := quiet(http.NotFoundHandler())
	none.Start()
	address := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	for url, says := range map[string]string{
		"s3://k:s@" + closed + "/bucket/p":                 "nothing listens there",
		"s3://k:s@" + other + "/bucket/p":                  "malformed HTTP (another kind of server",
		"s3://k:s@" + address(plain) + "/bucket/p":         "is this an S3 endpoint",
		"s3://k:s@" + address(plain) + "/bucket/p?tls=on":  "say tls=off",
		"s3://k:s@" + address(secure) + "/bucket/p":        "leave tls=off out",
		"s3://k:s@" + address(secure) + "/bucket/p?tls=on": "parameter ca",
		"s3://k:s@" + address(none) + "/bucket/p":          "is this an S3 endpoint",
	} {
		n := open(t, url)
		join(t, n, time.Minute, true)
		a, err := n.Do(t.Context(), request(node.Acquire, "name"))
		said := fmt.Sprintf("%+v, %v", a, err)
		if !strings.Contains(said, says) || a.Status == node.Granted {
			t.Errorf("%s: %s; want %q", url, said, says)
		}
		if strings.Contains(said, "k:s@") || strings.Contains(said, "x-anew") {
			t.Errorf("it has the secret, or the URL of a request: %s", said)
		}
	}
}

// An answer is mangled on its way, once: that is no reason to stop waiting, and a write may have
// been carried out.
func TestMangledAnswer(t *testing.T) {
	f := newFake(t)
	n := ready(t, f)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "name")))
	f.set(func(w http.ResponseWriter, r *http.Request, carry func() int) bool {
		if !put(r) {
			return false
		}
		carry()
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			io.WriteString(conn, "hush\r\n\r\n")
			conn.Close()
		}
		return true
	})
	a, err := n.Do(t.Context(), request(node.Acquire, "other"))
	if err == nil || errors.Is(err, node.ErrMisconfigured) || errors.Is(err, node.ErrNotSent) ||
		strings.Contains(err.Error(), "hush") {
		t.Errorf("%+v, %v; want an unknown outcome", a, err)
	}
}

func TestURLs(t *testing.T) {
	for _, url := range []string{
		"s3://host/bucket/prefix", "s3://host:9000/bucket/a/b?region=eu-central-1&tls=off", "s3://k:s@127.0.0.1:1/bucket/p",
	} {
		n, err := bucketnode.Open(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		n.Close()
	}
	for url, says := range map[string]string{
		"http://host/bucket/p":                   "scheme",
		"s3://host":                              "no prefix",
		"s3://host/bucket":                       "no prefix",
		"s3://host/B_/p":                         "name",
		"s3://host/bucket/a//b":                  "prefix",
		"s3://host/bucket/../b":                  "prefix",
		"s3://key@host/bucket/p":                 "go together",
		"s3://host/bucket/p?tls=off&ca=/nowhere": "tls=off",
		"s3://key:hush@host/bucket/p?x=1":        "x",
		"s3://a,b/bucket/p":                      "comma",
	} {
		_, err := bucketnode.Open(url)
		if !errors.Is(err, node.ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v; want %q", url, err, says)
		}
	}
}

// Without keys nothing is sent that is not signed. With them, the request has a signature of
// theirs.
func TestKeysOfTheEnvironment(t *testing.T) {
	f := newFake(t)
	signed := make(chan string, 100)
	f.set(func(_ http.ResponseWriter, r *http.Request, _ func() int) bool {
		signed <- r.Header.Get("Authorization")
		return false
	})
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", "AKFROMHERE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hush")
	t.Setenv("AWS_REGION", "eu-test-1")
	n := open(t, strings.Replace(f.url("locks"), "key:secret@", "", 1))
	join(t, n, time.Minute, true)
	want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, "name")))
	if a := <-signed; !strings.Contains(a, "AKFROMHERE") || !strings.Contains(a, "/eu-test-1/s3/") {
		t.Errorf("signed with %q", a)
	}
}

// hostile is content that no fenlock writes.
var hostile = []string{
	"", "hello", "fenlock", "fenlock bucket 2\n{}", "fenlock bucket 1\n", "fenlock bucket 1\nnull", "fenlock bucket 1\n[]",
	"fenlock bucket 1\n{}", "fenlock bucket 1\n" + `{"Nonce":"a","Memory":"b","Registers":{"4096":1}}`,
	"fenlock bucket 1\n" + `{"Nonce":"a","Memory":"b","Registers":{"1":0}}`,
	"fenlock bucket 1\n" + `{"Nonce":"a","Memory":"b","Registers":{"1":99999999999999999999}}`,
	"fenlock bucket 1\n" + `{"Nonce":"a","Memory":"b","Leases":{"1":"aGVsbG8="}}`,
	"fenlock bucket 1\n" + `{"Nonce":"a","Memory":"b","Leases":{"-1":""}}`,
	"fenlock bucket 1\n" + `{"Nonce":"a","Memory":"b","At":-1}`,
	"fenlock bucket 1\n" + `{"Nonce":"a","Memory":"b","Terms":{"MaxTTL":-1}}`,
}

// Whatever the object is, nothing is granted, nothing is written and nothing panics.
func TestHostileContent(t *testing.T) {
	for _, content := range hostile {
		if answer, wrote := meets(t, content, http.Header{}); answer != "" || wrote {
			t.Errorf("%q: %s, wrote: %v", content, answer, wrote)
		}
	}
}

func TestHostileHeaders(t *testing.T) {
	for _, h := range []http.Header{
		{"Date": {"tomorrow"}}, {"Date": {""}}, {"Date": {"Mon, 01 Jan 0001 00:00:00 GMT"}}, {"Last-Modified": {"never"}},
		{"Last-Modified": {"Mon, 01 Jan 0001 00:00:00 GMT"}}, {"Etag": {""}}, {"Etag": {`""`}}, {"Age": {"10"}},
		{"Content-Length": {"100000"}}, {"X-Amz-Tagging-Count": {"many"}}, {"Expires": {"0"}},
		{"X-Amz-Restore": {"ongoing"}}, {"X-Amz-Expiration": {"when"}},
	} {
		if answer, wrote := meets(t, voting, h); answer != "" || wrote {
			t.Errorf("%v: %s, wrote: %v", h, answer, wrote)
		}
	}
}

// voting is an object that grants names.
const voting = "fenlock bucket 1\n" + `{"Nonce":"a","Write":1,"At":4000000000000000000,"Memory":"b","Admitted":true}`

// meets opens a node on an object, and tries all that it does. It returns the answer of a grant.
func meets(t testing.TB, content string, headers http.Header) (granted string, wrote bool) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			wrote = wrote || put(r)
			return // an ETag is missing
		}
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("ETag", `"etag"`)
		for name, values := range headers {
			w.Header()[name] = values
		}
		io.WriteString(w, content)
	}))
	defer s.Close()
	n, err := bucketnode.Open("s3://k:s@" + s.Listener.Addr().String() + "/bucket/locks")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Minute, New: true}); err != nil {
		t.Fatal(err)
	}
	if a, err := n.Do(t.Context(), request(node.Acquire, "name")); err == nil && a.Status == node.Granted {
		granted = fmt.Sprintf("%+v", a)
	}
	n.Registers(t.Context())
	n.Examine(t.Context(), node.Look{Thorough: true})
	n.List(t.Context(), "", func(node.Lease) bool { return true })
	return granted, wrote
}

func FuzzContent(f *testing.F) {
	for _, content := range hostile {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if granted, _ := meets(t, content, http.Header{}); granted != "" { // each write is answered without an ETag
			t.Error(granted)
		}
	})
}
