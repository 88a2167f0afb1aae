//go:build linux || darwin || freebsd

package demopage

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/listen"
)

// DefaultAddress is any free port that only this machine reaches.
const DefaultAddress = "127.0.0.1:0"

// Listen listens at an address of the loopback, host:port.
func Listen(address string) (net.Listener, error) {
	return listen.TCP(address, listen.Purpose{
		Example: "127.0.0.1:5626", Others: "demo",
		Refusal: "look on: ssh -L leads to the page from elsewhere",
	})
}

// Serve answers requests until end is called, which waits for what is under way.
func (p *Page) Serve(l net.Listener) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		Handler:           p.Handler(ctx),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second, // streams have limits of their own
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // of what browsers do
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listen.Bounded(l, 4*maxStreams, 0)); !errors.Is(err, http.ErrServerClosed) {
			p.change(func() { p.over = true }) // the terminal still shows it
		}
	}()
	return func() {
		cancel()
		waiting, stop := context.WithTimeout(context.Background(), patientFor)
		defer stop()
		if server.Shutdown(waiting) != nil {
			server.Close()
		}
		<-ended
	}
}
