// Package engine has what engines share beside the rules. That is the node's URL with its
// parameters, its password and its certificates (Form, URL, Parameters), and the life of a node
// until Close (Lifetime). It also has a client that listens whatever fails (Listen), and turns for
// what would only get into each other's way (Turns). The marks and names of errors are here too
// (Named, Explain), and how long a store takes (MeasureTrips). Each is a plain function or a small
// struct. Engines outside of this repository may use it.
package engine
