package browser_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// row is the row of a lock, by its name.
func row(w *window, name string) string {
	w.t.Helper()
	id := ""
	eventually(w.t, func() (err error) {
		id, err = try[string](w, fmt.Sprintf(`([...document.querySelectorAll("#locks tr")].find((r) => r.querySelector("th a")?.textContent === %s) || {}).id || ""`, quote(name)))
		if err == nil && id == "" {
			err = fmt.Errorf("there is no row of %q", name)
		}
		return err
	})
	return "#" + id
}

// What there is to be seen is seen, and what changes changes on the page that is open.
func TestPageIsLive(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, shortTTL)
	s := serve(t, servers)
	w := newWindow(t)
	w.open(s.url)
	w.shows("#pager", "Nothing is locked.")
	w.shows("#status", "All 3 nodes answer.")
	w.shows("#pulse", "live")
	w.mark()
	for i, s := range servers {
		w.shows(fmt.Sprintf("#node-%d", i+1), s.Addr(), "votes", "ms")
	}

	// A lock is taken, and two wait for it.
	lock := acquire(t, newLocker(t, servers, "web-1", with(shortTTL)), "orders/42")
	orders := row(w, "orders/42")
	w.shows(orders, "orders/42", "web-1", "for", "token "+lock.Token().String(), "3 of 3", "none")
	w.until(fmt.Sprintf(`(() => {
	  const bar = document.querySelector(%q), fill = bar.querySelector(".fill").getBoundingClientRect(), all = bar.getBoundingClientRect();
	  return fill.width > 1 && fill.width <= all.width && bar.getBoundingClientRect().height > 1;
	})()`, orders+" svg.bar"))
	w.shows(orders+" .left", " s")
	if marks := eval[int](w, fmt.Sprintf(`document.querySelectorAll(%q).length`, orders+" .marks .holds")); marks != 3 {
		t.Errorf("%d marks of votes", marks)
	}
	w.shows("#trail", "orders/42", "taken by web-1, token "+lock.Token().String())
	wait(t, newLocker(t, servers, "web-2", with(shortTTL)), "orders/42")
	w.shows(orders+" .queue", "web-2")
	wait(t, newLocker(t, servers, "web-3", with(shortTTL)), "orders/42")
	w.shows(orders+" .queue", "web-2", "web-3")
	w.shows("#trail", "web-3 waits, 2nd in the queue", "web-2 waits, 1st in the queue")
	w.shows("#status", "1 lock is held, and 2 wait.")

	// It goes to the next one.
	release(t, lock)
	w.shows(orders+" .holder", "web-2")
	w.shows("#trail", "went from web-1 to web-2")

	// A server hangs: the others are seen all the same.
	servers[1].Pause()
	w.shows("#node-2", "down")
	w.shows("#status", "1 of 3 nodes does not vote.", "Locks still work. If one more goes, none can be taken or extended.")
	acquire(t, newLocker(t, servers, "cron", with(shortTTL)), "report")
	w.shows(row(w, "report"), "cron", "2 of 3")
	w.shows("#node-2", "down", "does not answer", "To do:", "kill -CONT")
	servers[1].Resume()
	w.shows("#node-2", "votes")
	w.shows("#trail", servers[1].Addr(), "votes again")

	// A server dies, and comes back without what it knew: it says for how long it is out.
	servers[2].Kill()
	w.shows("#node-3", "down", "To do:", "Start the server")
	w.shows(orders, "2 of 3")
	w.until(fmt.Sprintf(`document.querySelector(%q) !== null`, orders+" .marks .mute"))
	w.picture("ui") // docs/ui.png
	servers[2].Restart()
	w.shows("#node-3", "does not vote for another", " s")
	w.shows("#node-3", "To do:", "restart no other server")
	w.shows("#node-3", "votes")
	w.shows("#trail", servers[2].Addr()+" votes again", servers[2].Addr()+" does not vote for another",
		servers[2].Addr()+" is down")

	// Without a majority, nothing works, and the page says so.
	servers[0].Kill()
	servers[2].Kill()
	w.shows("#status", "2 of 3 nodes do not vote.", "No lock can be taken or extended")
	w.until(`document.title.startsWith("no majority")`)
	w.marked()
}

// The page of one lock says of it what there is to say.
func TestPageOfALock(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, ttl)
	lock := acquire(t, newLocker(t, servers, "web-1"), "orders/42")
	second := wait(t, newLocker(t, servers, "web-2"), "orders/42")
	acquire(t, newLocker(t, servers, "else"), "something else")
	s := serve(t, servers)
	w := newWindow(t)
	w.open(s.url)
	w.tab("orders/42")
	w.press("\r")
	w.shows("h1", "orders/42")
	w.mark()
	w.shows("#facts", "Held by web-1", "Token", lock.Token().String(), "Votes", "3 of 3", "Waiting", "1")
	for i, s := range servers {
		w.shows(fmt.Sprintf("#vote-%d", i+1), s.Addr(), "has the lease", " s")
	}
	w.shows("#queue", "web-2")
	servers[0].Kill()
	w.shows("#vote-1", "cannot be asked")
	w.shows("#facts", "2 of 3")
	release(t, lock)
	w.shows("#facts", "Held by web-2")
	w.shows("#queue", "No waiters.")
	second()
	w.shows("#facts", "Free")
	w.shows("#trail", "free; web-2 had it", "went from web-1 to web-2")
	if text := w.text("#trail"); strings.Contains(text, "something else") {
		t.Errorf("the trail is about other locks: %s", text)
	}
	w.marked()
}

// When the program has ended, the page says that it is not live; it is again when the
// program is there again.
func TestPageComesBack(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, longTTL)
	acquire(t, newLocker(t, servers, "web-1", with(longTTL)), "orders/42")
	address := fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
	first := serve(t, servers, "--listen", address)
	w := newWindow(t)
	w.expect("ERR_CONNECTION_REFUSED")
	w.expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
	w.expect("ERR_EMPTY_RESPONSE")
	w.expect("ERR_CONNECTION_RESET")
	w.expect("503")
	w.open(first.url)
	w.shows("#pulse", "live")
	first.end(syscall.SIGKILL)
	w.shows("#pulse", "Not live: nothing was heard since")
	w.until(`document.title.startsWith("not live")`)
	w.looksRight("not live")
	w.shows(row(w, "orders/42"), "web-1") // but it shows what was so
	refuse(t, address)
	serve(t, servers, "--listen", address)
	w.until(`document.getElementById("pulse").textContent === "live"`)
	acquire(t, newLocker(t, servers, "web-2", with(longTTL)), "a new one")
	w.shows(row(w, "a new one"), "web-2")
}

// A program that hangs closes no connection. The page says soon that it is not live, stands still,
// and breaks nothing of what it shows.
func TestPageHearsNothing(t *testing.T) {
	t.Parallel()
	servers := newGroup(t, 3, longTTL)
	acquire(t, newLocker(t, servers, "stuck", with(longTTL)), "orders/42")
	s := serve(t, servers, "--allow-release")
	w := newWindow(t)
	w.open(s.url)
	orders := row(w, "orders/42")
	w.shows(orders, "3 of 3")
	w.shows("#pulse", "live")
	s.cmd.Process.Signal(syscall.SIGSTOP)
	w.until(`document.body.classList.contains("stale")`)
	w.looksRight("hears nothing")
	before := w.text(orders)
	eval[bool](w, `document.querySelector("a[href^='break']").click() || true`)
	w.tab("Break… orders/42")
	w.press("\r")
	time.Sleep(2 * time.Second) // in which the time that is left would go on
	if now := w.text(orders); now != before {
		t.Errorf("the row was %q, and is %q", before, now)
	}
	w.shows("#pulse", "Not live: nothing was heard since")
	s.cmd.Process.Signal(syscall.SIGCONT)
	w.until(`!document.body.classList.contains("stale")`)
	w.tab("Break… orders/42")
	w.press("\r")
	w.shows("h1", "Break orders/42?")
}

// refuse answers what the page asks for as a proxy does that has lost what is behind it, until the
// page has heard of it. A browser does not try by itself again after that.
func refuse(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	asked := make(chan struct{}, 1)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		select {
		case asked <- struct{}{}:
		default:
		}
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Serve(l)
	}()
	select {
	case <-asked:
	case <-time.After(bound):
		t.Error("the page does not try again")
	}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	<-ended
}
