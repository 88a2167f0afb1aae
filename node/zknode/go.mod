module github.com/fenlock/fenlock/node/zknode

go 1.25.0

require github.com/fenlock/fenlock v0.1.0
