// Package draw draws random numbers as this harness wants them. A fault or a pause
// has to be tried in every order of magnitude, not only in the largest one.
package draw
