// Package ahead has valkey-go compiled early: go builds imports in the order of their paths, and
// the command imports this one first. One package of valkey-go takes a third of a first build,
// mostly on one core. Without this, the other cores run out of work before that is compiled.
package ahead

import _ "github.com/valkey-io/valkey-go" // the client of the engine that the command always has
