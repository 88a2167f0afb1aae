// Package tools pins the development tools, with tool directives in go.mod.
package tools
