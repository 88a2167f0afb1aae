// Package engine has what engines share beside the rules: the node's URL with its
// parameters, its password and its certificates (Form, URL, Parameters), the life of a node
// until Close (Lifetime), a client that listens whatever fails (Listen), turns for what would
// only get into each other's way (Turns), and the marks and names of errors (Named, Explain).
// Each is a plain function or a small struct. Engines outside of this repository may use it.
package engine
