module github.com/fenlock/fenlock/integration/fenlockcron

go 1.25.0

require (
	github.com/fenlock/fenlock v0.1.0
	github.com/robfig/cron/v3 v3.0.1
)
