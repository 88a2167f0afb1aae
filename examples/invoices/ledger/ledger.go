// Package ledger is what both services of this folder have in common. That is the book whose last
// number they read and write, and how they listen and end. None of it knows of locks.
package ledger

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Expiry is how long a lock outlives its holder: the variable EXPIRY, or 8s.
func Expiry() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("EXPIRY")); err == nil {
		return d
	}
	return 8 * time.Second
}

// Servers are the addresses in the variable SERVERS, separated by commas.
func Servers() []string { return strings.Split(os.Getenv("SERVERS"), ",") }

// Next takes the next number. It reads the last one from the book, works for as long as the request
// says, and writes the next. Two at the same time would take the same number, so the caller holds a
// lock. The book is at the URL in the variable LEDGER, and knows GET and PUT.
func Next(ctx context.Context, r *http.Request) (number int, err error) {
	text, err := ask(ctx, http.MethodGet, "")
	if err != nil {
		return 0, err
	}
	last, err := strconv.Atoi(text)
	if err != nil {
		return 0, err
	}
	if work, err := time.ParseDuration(r.FormValue("work")); err == nil {
		select {
		case <-ctx.Done():
		case <-time.After(work):
		}
	}
	if ctx.Err() != nil { // the number is not taken
		ask(context.WithoutCancel(ctx), http.MethodDelete, "")
		return 0, context.Cause(ctx)
	}
	_, err = ask(context.WithoutCancel(ctx), http.MethodPut, strconv.Itoa(last+1))
	return last + 1, err
}

func ask(ctx context.Context, method, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, os.Getenv("LEDGER"), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the book: %s %s", answer.Status, text)
	}
	return string(text), err
}

// Serve answers POST /invoices until SIGTERM, then what has been asked, and returns. The variable
// LISTEN is where, and the address is printed.
func Serve(invoice func(r *http.Request) (number int, err error)) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	listener, err := net.Listen("tcp", os.Getenv("LISTEN"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoices", func(w http.ResponseWriter, r *http.Request) {
		number, err := invoice(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, number)
	})
	server := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ended <- server.Shutdown(context.Background())
	}()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return <-ended
}
