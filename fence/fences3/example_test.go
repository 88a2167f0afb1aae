package fences3_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fences3"
)

// report is an object of the store. The stamp makes its ETag one that never comes back.
type report struct {
	Fence string
	Runs  int
}

// count adds a run to the report, under a lock with this token.
func count(ctx context.Context, token fence.Token) error {
	guard := &fences3.Guard{ // once in a program
		Bucket: "https://s3.eu-central-1.amazonaws.com/my-bucket",
		Client: &http.Client{Transport: fences3.Signer{
			Region:    "eu-central-1",
			AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"),
			SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		}},
	}
	// An error is a *fence.StaleError if a newer token was there.
	return guard.Write(ctx, "reports/today.json", token, func(old []byte, stamp string) ([]byte, error) {
		var r report
		if old != nil {
			if err := json.Unmarshal(old, &r); err != nil {
				return nil, err
			}
		}
		return json.Marshal(report{Fence: stamp, Runs: r.Runs + 1})
	})
}

func ExampleGuard_Write() {
	_ = count
}
