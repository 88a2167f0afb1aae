// Package library opens lock libraries behind one interface: fenlock, and its rivals redsync and
// redislock with what their users have to do around them. To compare another library, add it here,
// to the libraries of package history, and to the faults that it states to bear (package kinds).
package library
