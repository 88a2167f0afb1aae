// Package proxy is the network between the clients and one server. It does what
// networks do: it delays, loses, holds back, refuses and cuts.
package proxy
