// Package fenlockterraform is a server for the state of Terraform and OpenTofu, with locks: the other end of their http
// backend. Several of them may run on one store, behind a balancer.
//
//	store, err := fenlockterraform.OpenDir("/srv/states")
//	...
//	states, err := fenlockterraform.New(locker, "terraform", store)
//	...
//	server := http.Server{Handler: authenticated(http.StripPrefix("/states", states))}
//
// In the configuration of each project, and -reconfigure at the next terraform init:
//
//	terraform {
//	  backend "http" {
//	    address        = "https://states.example.com/states/orders/production"
//	    lock_address   = "https://states.example.com/states/orders/production"
//	    unlock_address = "https://states.example.com/states/orders/production"
//	  }
//	}
//
// What is behind the prefix is the name of a state: 200 bytes of letters, digits, dots, hyphens and underscores at most, with slashes
// between. It begins to exist when it is written.
//
// Put no http.ServeMux in front: a path with "//" is redirected by it, and before Go 1.26 so that LOCK and POST arrive as GET, whose 200
// Terraform takes for a lock, and for a state that is stored. Whatever else is in front must not redirect either.
//
// # Who may
//
// The handler asks nobody for a password. Whoever reaches it reads states, secrets included, writes them, and breaks locks: put
// what checks the backend's username and password in front (http.Request.BasicAuth), and TLS.
//
// # Two kinds of lock
//
// Terraform's lock on a state is not a fenlock lock: Terraform sends no heartbeat, so it has no lease. It lies in the store
// beside the state until Terraform, or a person by force-unlock, gives it back. Its ID is a fence: a state that is
// locked is written by who has the current ID only, and an ID that was unlocked writes nothing any more. A state that nobody has locked
// is written without an ID, as by terraform apply -lock=false. force-unlock of Terraform does not send which lock it
// means, and breaks whatever there is; OpenTofu's does, and breaks no other.
//
// fenlock's lock is held for the moment in which a server reads a record, decides and writes it, so that the servers take turns.
// One that was paused in that moment, and has lost its lock, does not overwrite what another has written: a
// Store takes a record only in the place of the one that it was made from. While too few nodes answer, states are read but neither locked
// nor written: 503, upon which Terraform tries again (retry_max, 2 unless set otherwise).
package fenlockterraform
