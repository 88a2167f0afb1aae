module github.com/fenlock/fenlock

go 1.25.0
