// Package library opens lock libraries behind one interface: fenlock, and its rivals
// redsync and redislock with what their users have to do around them. To compare
// another library is to add it here.
package library
