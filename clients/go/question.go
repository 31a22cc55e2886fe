package waterclock

import "time"

// question is what a call asks, as both transports need it.
type question struct {
	policy, key string
	cost        Amount // nil: the server's default
	tier        string
	factor      Factor
	outcome     Outcome       // of a report
	within      time.Duration // of a wait
	ttl         time.Duration // of a reservation; 0: the server's default
	id          string        // of a reservation; "": the server makes one
	release     bool          // of a reservation: an expired one is given back
}

func ask(policy, key string, options []CallOption) question {
	q := question{policy: policy, key: key}
	for _, option := range options {
		option.apply(&q)
	}
	return q
}

// costText is the cost for commands that require one.
func (q question) costText() string {
	if q.cost == nil {
		return Cost(1).text()
	}
	return q.cost.text()
}

// A ReserveOption changes what [Client.Reserve] asks.
type ReserveOption interface{ apply(*question) }

// A CallOption changes what a call asks: [Cost], [Units], [Tier] or [Factor].
type CallOption interface {
	ReserveOption
	forEveryCall()
}

// Tier names the caller's tier, one of those that the policy has.
type Tier string

// Factor scales the policy's limits for one call: "2" halves what is admitted,
// "0.5" doubles it, "0" turns the limits off. It is a decimal text because the
// server reads it digit by digit.
type Factor string

// TTL is how long a reservation lasts unless it is settled: 1 ms to 24 h.
// Without it, one minute.
type TTL time.Duration

// ID is the caller's own id of a reservation, 1 to 128 printable ASCII
// characters without spaces. The same id reserves once, so such a call can be
// repeated.
type ID string

// OnExpiry is what happens to a reservation that is never settled.
type OnExpiry bool

const (
	// StayCharged keeps the units of an expired reservation charged: the default.
	StayCharged OnExpiry = false
	// Release gives the units of an expired reservation back.
	Release OnExpiry = true
)

// Outcome is the result of a call to something that an error-rate limit guards.
type Outcome string

// Outcomes for [Client.Report].
const (
	Succeeded Outcome = "ok"
	Failed    Outcome = "error"
)

// Reportable is what [Client.Report] reports: an [Outcome], a [Cost] or [Units].
type Reportable interface{ report(*question) }

func (c Cost) apply(q *question)     { q.cost = c }
func (u Units) apply(q *question)    { q.cost = u }
func (t Tier) apply(q *question)     { q.tier = string(t) }
func (f Factor) apply(q *question)   { q.factor = f }
func (t TTL) apply(q *question)      { q.ttl = time.Duration(t) }
func (i ID) apply(q *question)       { q.id = string(i) }
func (e OnExpiry) apply(q *question) { q.release = bool(e) }

func (Cost) forEveryCall()   {}
func (Units) forEveryCall()  {}
func (Tier) forEveryCall()   {}
func (Factor) forEveryCall() {}

func (o Outcome) report(q *question) { q.outcome = o }
func (c Cost) report(q *question)    { q.cost = c }
func (u Units) report(q *question)   { q.cost = u }

// A Charge is one part of [Client.CheckAll].
type Charge struct{ question question }

// NewCharge says what [Client.CheckAll] is to charge.
func NewCharge(policy, key string, options ...CallOption) Charge {
	return Charge{ask(policy, key, options)}
}
