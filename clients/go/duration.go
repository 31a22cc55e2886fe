package waterclock

import (
	"strconv"
	"time"
)

// microseconds is a duration as the server's JSON has it, rounded up.
func microseconds(d time.Duration) string {
	return strconv.FormatInt(roundUp(d, time.Microsecond), 10) + "us"
}

// roundUp is how many units cover the duration.
func roundUp(d, unit time.Duration) int64 {
	whole := int64(d / unit)
	if d%unit > 0 {
		whole++
	}
	return whole
}
