package waterclock

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"
)

// Never is the time until something that does not happen: a cost that can
// never pass, or the next unit of a key that is full.
const Never time.Duration = -1

// Unbounded (-1) is the limit, and what remains, of a policy that counts no
// units or limits nothing.
const Unbounded int64 = -1

// SourceUnavailable is the [Decision.Source] of a decision that the client made
// up by its [FailMode] because the server could not be asked.
const SourceUnavailable = "unavailable"

// A Decision is the server's answer about one key.
//
// Times are exact to the microsecond and never rounded down.
type Decision struct {
	Policy string
	Key    string
	// Cost is what was asked for; of a policy with several units, the requests.
	Cost int64
	// CostUnits is what was asked for of each unit; nil for a policy with one.
	CostUnits Units

	// Allowed says whether the whole cost was admitted.
	Allowed bool
	// Granted is how much was admitted. A policy with mode "partial" may grant
	// a part of a cost that it does not allow.
	Granted int64
	// GrantedUnits is how much was admitted of each unit; nil for a policy with one.
	GrantedUnits Units

	// Limit and Remaining are the smallest of all limits, or Unbounded (-1).
	Limit     int64
	Remaining int64
	// RetryAfter is when the same cost passes: 0 if it just did, Never if it cannot.
	RetryAfter time.Duration
	// NextUnit is when Remaining grows; Never if it is at its maximum.
	NextUnit time.Duration
	// NextSame is when the same cost passes next: 0 at once, or Never.
	NextSame time.Duration
	// ResetAfter is when the key is fresh: nothing used.
	ResetAfter time.Duration

	// RefusedBy names the limits that refused. It is empty if the key is
	// blocked, or others wait in line for it.
	RefusedBy []string
	// Limits has the same numbers for each limit.
	Limits []Limit
	// Counter is, with mode "count-refusals", the limit minus everything
	// recorded, refused or not; otherwise nil.
	Counter *int64
	// LimitInfo is the decision as Sharkey has it, with headers = "legacy";
	// otherwise nil.
	LimitInfo json.RawMessage

	// Source is what decided: "authoritative" is the store.
	Source string
	// Headers are the response header fields of the policy's style, with
	// lower-case names. Over HTTP, only Check, Wait and Reserve have them.
	Headers map[string]string
	// Raw is the server's JSON, with fields that this package does not know.
	Raw json.RawMessage
}

// Limit is what one limit of the policy says.
type Limit struct {
	Name       string
	Allowed    bool
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration
	NextUnit   time.Duration
	ResetAfter time.Duration
}

// A Batch is the answer of [Client.CheckAll].
type Batch struct {
	// Allowed says whether all charges were admitted. If not, none was charged.
	Allowed bool
	// Decisions are the answers in the order of the charges.
	Decisions []Decision
	// Headers are the response header fields for the batch. Over the Redis
	// protocol they are nil, and each decision has its own.
	Headers map[string]string
}

// numbers are the fields that a decision and each of its limits have.
type numbers struct {
	Allowed    *bool  `json:"allowed"`
	Limit      count  `json:"limit"`
	Remaining  count  `json:"remaining"`
	RetryAfter micros `json:"retry_after_us"`
	NextUnit   micros `json:"next_unit_us"`
	ResetAfter micros `json:"reset_after_us"`
}

type decisionJSON struct {
	numbers
	Policy    string            `json:"policy"`
	Key       string            `json:"key"`
	Cost      answeredAmount    `json:"cost"`
	Granted   answeredAmount    `json:"granted"`
	NextSame  micros            `json:"next_same_us"`
	RefusedBy []string          `json:"refused_by"`
	Limits    []limitJSON       `json:"limits"`
	Counter   *int64            `json:"counter"`
	LimitInfo json.RawMessage   `json:"limit_info"`
	Source    string            `json:"source"`
	Headers   map[string]string `json:"headers"`
}

type limitJSON struct {
	numbers
	Name string `json:"name"`
}

var errNoDecision = errors.New("the answer is not a decision")

func readDecision(text []byte) (Decision, error) {
	var read decisionJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return Decision{}, err
	}
	if read.Allowed == nil {
		return Decision{}, errNoDecision
	}
	decision := Decision{
		Policy:       read.Policy,
		Key:          read.Key,
		Cost:         read.Cost.number,
		CostUnits:    read.Cost.units,
		Allowed:      *read.Allowed,
		Granted:      read.Granted.number,
		GrantedUnits: read.Granted.units,
		Limit:        int64(read.Limit),
		Remaining:    int64(read.Remaining),
		RetryAfter:   time.Duration(read.RetryAfter),
		NextUnit:     time.Duration(read.NextUnit),
		NextSame:     time.Duration(read.NextSame),
		ResetAfter:   time.Duration(read.ResetAfter),
		RefusedBy:    read.RefusedBy,
		Counter:      read.Counter,
		LimitInfo:    read.LimitInfo,
		Source:       read.Source,
		Headers:      read.Headers,
		Raw:          text,
	}
	for _, limit := range read.Limits {
		decision.Limits = append(decision.Limits, Limit{
			Name:       limit.Name,
			Allowed:    limit.Allowed != nil && *limit.Allowed,
			Limit:      int64(limit.Limit),
			Remaining:  int64(limit.Remaining),
			RetryAfter: time.Duration(limit.RetryAfter),
			NextUnit:   time.Duration(limit.NextUnit),
			ResetAfter: time.Duration(limit.ResetAfter),
		})
	}
	return decision, nil
}

// count reads a whole number; null is Unbounded, and more than an int64 holds
// is the largest int64.
type count int64

func (c *count) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*c = count(Unbounded)
		return nil
	}
	number, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return err
	}
	*c = count(number)
	return nil
}

// micros reads microseconds; null is Never, and more than a time.Duration
// holds (292 years) is the longest one.
type micros time.Duration

func (m *micros) UnmarshalJSON(text []byte) error {
	var number count
	if err := number.UnmarshalJSON(text); err != nil {
		return err
	}
	switch {
	case string(text) == "null":
		*m = micros(Never)
	case int64(number) > math.MaxInt64/int64(time.Microsecond):
		*m = math.MaxInt64
	default:
		*m = micros(time.Duration(number) * time.Microsecond)
	}
	return nil
}
