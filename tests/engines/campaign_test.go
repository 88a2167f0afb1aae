//go:build campaign

package engines

import "testing"

// TestCampaignCounter is TestCounter with all that can be done to the servers, one after the other.
func TestCampaignCounter(t *testing.T) { counts(t, 40, 100, true) }
