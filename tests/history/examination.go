package history

import "time"

// examination is a check that is under way.
type examination struct {
	*record
	report Report
}

// violated reports a violation, excused if an assumption is given.
func (x *examination) violated(at int64, promise, assumption, text string) {
	v := Violation{At: at, Promise: promise, Text: text, Assumption: assumption}
	if assumption == "" {
		x.report.Violations = append(x.report.Violations, v)
	} else {
		x.report.Excused = append(x.report.Excused, v)
	}
}

// tokensExcuse returns the only assumption that excuses a wrong token, if it was
// broken before: the order of tokens rests on no clock.
func (x *examination) tokensExcuse(at int64) string {
	if x.faults.registersLost(at) {
		return RegistersSurvive
	}
	return ""
}

func (x *examination) since(at int64) time.Duration { return time.Duration(at - x.begin) }
