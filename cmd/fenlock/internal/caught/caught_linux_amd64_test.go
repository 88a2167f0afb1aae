package caught

import (
	"os"
	"syscall"
	"testing"
)

// Of a flood that nothing reads, no byte more fits into the pipe. The end of a command, which comes
// then, is heard of nevertheless.
func TestSignalAfterFloodIsNotLost(t *testing.T) {
	c := make(chan os.Signal, 1)
	Notify(c, syscall.SIGUSR2)
	told.Lock() // nothing is read once tell waits
	for err := error(nil); err == nil; {
		_, err = syscall.Write(int(writer), []byte{0})
	}
	send(t, syscall.SIGUSR2)
	told.Unlock()
	<-c
}
