// Package command is what is said to a server, and what its replies mean. It has the scripts, the
// commands and their arguments, the keys, and the server's errors in words for people. It does no
// I/O.
package command
