// Package probe is how tests look at this harness from outside. They do so through a connection on
// which they talk line by line, and by counting client processes.
package probe
