package ui_test

import (
	"log"
	"net/http"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/ui"
	"github.com/fenlock/fenlock/node/memnode"
)

// A program that has an address for its operators only serves the page below /locks/.
func Example() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("a"), memnode.New("b"), memnode.New("c")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	page, err := ui.New(ui.Config{
		Nodes:   locker.Nodes(),
		Guarded: true, // by operators, below
		Hosts:   []string{"ops.example.com"},
		History: time.Hour,
		Log:     log.Printf,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/locks/", operators(http.StripPrefix("/locks", page)))
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux}
	defer server.Close()
	go server.ListenAndServe()
}

// operators stands for how the program knows its operators.
func operators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "operator" || password != "from the program's configuration" {
			w.Header().Set("WWW-Authenticate", `Basic realm="locks"`)
			http.Error(w, "operators only", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
