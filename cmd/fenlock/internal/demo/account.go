//go:build linux || darwin || freebsd

package demo

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencehttp"
)

// account is the resource: a number that clients read and write by HTTP.
type account struct {
	url     string
	balance atomic.Int64
}

// newAccount serves an account with a balance, until the scene ends. Guarded, it
// refuses a token that is smaller than one that it has seen; otherwise it knows of none.
func (st *stage) newAccount(balance int, guarded bool) *account {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	st.must(err)
	a := &account{url: fmt.Sprintf("http://%s/balance", listener.Addr())}
	a.balance.Store(int64(balance))
	var put http.Handler = http.HandlerFunc(a.put)
	if guarded {
		put = fencehttp.Handler(new(fence.Guard), func(*http.Request) string { return "balance" }, put)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /balance", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, a.balance.Load()) })
	mux.Handle("PUT /balance", put)
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second}
	go server.Serve(listener)
	st.atEnd(func() { server.Close() })
	return a
}

func (a *account) put(w http.ResponseWriter, r *http.Request) {
	var value int64
	if _, err := fmt.Fscan(http.MaxBytesReader(w, r.Body, 20), &value); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.balance.Store(value)
	fmt.Fprint(w, value)
}
