// Command terraform serves states to Terraform and OpenTofu, as package fenlockterraform has it, to whoever has the password.
//
//	(umask 077; openssl rand -hex 20 >password)
//	go run ./examples/terraform -dir states -password-file password
//
// In the configuration of a project, with the password in TF_HTTP_PASSWORD:
//
//	terraform {
//	  backend "http" {
//	    address        = "http://127.0.0.1:8400/states/orders/production"
//	    lock_address   = "http://127.0.0.1:8400/states/orders/production"
//	    unlock_address = "http://127.0.0.1:8400/states/orders/production"
//	    username       = "terraform"
//	  }
//	}
//
// Its node is in memory, which is right for one server. For several with one directory, open nodes that they share, as in the
// README; and put TLS in front.
package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/fenlock/fenlock"
	fenlockterraform "github.com/fenlock/fenlock/integration/terraform"
	"github.com/fenlock/fenlock/node/memnode"
	"github.com/fenlock/fenlock/node/secretfile"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8400", "the `address` to listen on")
	dir := flag.String("dir", "states", "the `directory` for states")
	passwordFile := flag.String("password-file", "password", "the `file` with the password of the user terraform")
	flag.Parse()
	password, err := secretfile.ReadPassword(*passwordFile)
	if err != nil {
		log.Fatal(err)
	}
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("memory")}})
	if err != nil {
		log.Fatal(err)
	}
	states, err := server(locker, *dir, password)
	if err != nil {
		log.Fatal(err)
	}
	s := http.Server{Addr: *listen, Handler: states, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute}
	log.Fatal(s.ListenAndServe())
}

// server returns what serves the states of a directory below /states.
func server(locker *fenlock.Locker, dir, password string) (http.Handler, error) {
	store, err := fenlockterraform.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	states, err := fenlockterraform.New(locker, "terraform", store)
	if err != nil {
		return nil, err
	}
	return authenticated(password, http.StripPrefix("/states", states)), nil // no ServeMux: see the package's documentation
}

// authenticated lets the user terraform through.
func authenticated(password string, next http.Handler) http.Handler {
	wanted := sha256.Sum256([]byte("terraform:" + password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		given := sha256.Sum256([]byte(user + ":" + password)) // of one length, so that the time it takes tells nothing
		if !ok || subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="states"`)
			http.Error(w, "the password is wrong, or missing", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
