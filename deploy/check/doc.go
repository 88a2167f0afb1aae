// Package check tests what the folder above it has for deployments. It tests each file by a program
// or library that understands it, and the servers' configuration by servers that run with it. The
// files that it reads are those that people copy.
package check
