package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestHandler(t *testing.T) {
	var s Set
	s.Gauge("a", "b.").Set(1)
	for _, c := range []struct {
		token, method, target, host, given string
		status                             int
	}{
		{"", "GET", "/metrics", "127.0.0.1:5626", "", 200},
		{"", "GET", "/metrics", "[::1]:5626", "", 200},
		{"", "GET", "/metrics", "localhost:1", "Bearer whatever", 200},
		{"", "GET", "/metrics?x=y", "LOCALHOST.", "", 200},
		{"", "HEAD", "/metrics", "127.0.0.1", "", 200},
		{"", "POST", "/metrics", "127.0.0.1", "", 405},
		{"", "GET", "/", "127.0.0.1", "", 404},
		{"", "GET", "/metrics/x", "127.0.0.1", "", 404},
		{"", "GET", "/metrics", "rebound.example.com", "", 403},
		{"secret", "GET", "/metrics", "10.0.0.1", "Bearer secret", 200},
		{"secret", "GET", "/metrics", "jobs.example.com", "bearer secret", 200},
		{"secret", "GET", "/metrics", "127.0.0.1", "", 401},
		{"secret", "GET", "/metrics", "127.0.0.1", "Bearer", 401},
		{"secret", "GET", "/metrics", "127.0.0.1", "Bearer secre", 401},
		{"secret", "GET", "/metrics", "127.0.0.1", "Bearer secret ", 401},
		{"secret", "GET", "/metrics", "127.0.0.1", "Basic secret", 401},
		{"secret", "GET", "/metrics", "127.0.0.1", "secret", 401},
		{"secret", "GET", "/metrics?token=secret", "127.0.0.1", "", 401},
		{"secret", "GET", "/", "127.0.0.1", "", 401},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		r.Host = c.host
		if c.given != "" {
			r.Header.Set("Authorization", c.given)
		}
		w := httptest.NewRecorder()
		Handler(c.token, s.Answer).ServeHTTP(w, r)
		h := w.Header()
		if w.Code != c.status || h.Get("X-Content-Type-Options") != "nosniff" ||
			(w.Code == 401) != (h.Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%+v: %d, %v", c, w.Code, h)
		}
		if has := strings.Contains(w.Body.String(), "a 1\n"); has != (c.status == 200) ||
			has && h.Get("Content-Type") != ContentType {
			t.Errorf("%+v: %v: %s", c, h, w.Body)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Host = "localhost"
	Handler("", func(*http.Request) ([]byte, error) { return []byte("a part"), errors.New("not now") }).ServeHTTP(w, r)
	if w.Code != 503 || w.Body.String() != "not now\n" {
		t.Errorf("an error is %d, %s", w.Code, w.Body)
	}
}

// patience ends a test that hangs; no test passes by it.
const patience = 30 * time.Second

// serve serves a handler on the loopback.
func serve(t *testing.T, h http.Handler) (end func(), address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end = Serve(l, h, func(err error) { t.Error(err) })
	t.Cleanup(end)
	return end, l.Addr().String()
}

// connect returns a connection, which nothing was sent on.
func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a request on a connection and returns the status; 0 if it was closed.
func ask(t *testing.T, c net.Conn) int {
	t.Helper()
	fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal(err)
	}
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// No client can have more than a few connections, and the end of one makes room for another.
func TestConnections(t *testing.T) {
	var s Set
	_, address := serve(t, Handler("", s.Answer))
	var all []net.Conn
	for range MaxConnections {
		c := connect(t, address)
		fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: lo")
		all = append(all, c)
	}
	for range 3 { // they are taken in the order in which they come
		if got := ask(t, connect(t, address)); got != 0 {
			t.Errorf("one more is answered with %d", got)
		}
	}
	all[1].Close()
	for end := time.Now().Add(patience); ask(t, connect(t, address)) != 200; { // it hears of that a moment later
		if time.Now().After(end) {
			t.Fatal("there is no room although one has ended")
		}
	}
}

// A connection has one answer, whatever is asked on it: who asks without end has to connect
// each time, and that has its pace. The lock is extended by the same CPU.
func TestOneAnswerEach(t *testing.T) {
	var s Set
	_, address := serve(t, Handler("a token that nobody knows", s.Answer))
	c := connect(t, address)
	fmt.Fprint(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 100))
	b, err := io.ReadAll(c)
	if n := strings.Count(string(b), "HTTP/1.1 401"); n != 1 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d answers, %v", n, err)
	}
}

// Close ends what is under way, whether that has come to an end or not.
func TestCloseWaitsForNobody(t *testing.T) {
	begun, proceed, ended := make(chan bool), make(chan bool), make(chan bool)
	end, address := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- true
		<-proceed
		ended <- true
	}))
	silent, half, asking := connect(t, address), connect(t, address), connect(t, address)
	fmt.Fprint(half, "GET /metrics HTTP/1.1\r\nHost: lo")
	fmt.Fprint(asking, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-begun
	end()
	for i, c := range []net.Conn{silent, half, asking} {
		if b, err := io.ReadAll(c); len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d has read %q, %v", i, b, err)
		}
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("it listens although it was closed")
	}
	close(proceed)
	<-ended
}

// A header that is too long is refused before it has all been read.
func TestLongHeader(t *testing.T) {
	var s Set
	_, address := serve(t, Handler("", s.Answer))
	c := connect(t, address)
	fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 16<<10))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v, %v", resp, err)
	}
}

// The opener of the listener hears why no client is answered any more.
func TestListenerThatFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	defer Serve(l, http.NotFoundHandler(), func(err error) { told <- err })()
	l.Close()
	if err := <-told; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
