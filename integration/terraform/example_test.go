package fenlockterraform_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/fenlock/fenlock"
	fenlockterraform "github.com/fenlock/fenlock/integration/terraform"
	"github.com/fenlock/fenlock/node/memnode"
)

// The node is in memory, so that the example runs: in production all servers have the same nodes, and a directory that they share.
// examples/terraform is a server.
func Example() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	dir, err := os.MkdirTemp("", "states")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := fenlockterraform.OpenDir(dir)
	if err != nil {
		log.Fatal(err)
	}
	states, err := fenlockterraform.New(locker, "terraform", store)
	if err != nil {
		log.Fatal(err)
	}

	ask := func(method, url, body string) { // as Terraform does
		w := httptest.NewRecorder()
		http.StripPrefix("/states", states).ServeHTTP(w, httptest.NewRequest(method, url, strings.NewReader(body)))
		fmt.Println(method, w.Code, strings.TrimSpace(w.Body.String()))
	}
	ask("LOCK", "/states/orders", `{"ID":"1","Who":"ann"}`)
	ask("LOCK", "/states/orders", `{"ID":"2","Who":"bob"}`)
	ask("POST", "/states/orders?ID=1", `{"serial":1}`)
	ask("UNLOCK", "/states/orders", `{"ID":"1","Who":"ann"}`)
	ask("GET", "/states/orders", "")
	// Output:
	// LOCK 200 OK
	// LOCK 423 {"ID":"1","Who":"ann"}
	// POST 200 OK
	// UNLOCK 200 OK
	// GET 200 {"serial":1}
}
