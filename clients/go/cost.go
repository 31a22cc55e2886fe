package waterclock

import (
	"encoding/json"
	"sort"
	"strconv"
	"strings"
)

// Cost is how many units a call charges. Calls without one charge 1.
type Cost int64

// Units is how much a call charges of each unit, for a policy that counts
// several: Units{"requests": 1, "tokens": 800}. Of a unit that it does not name,
// a call charges 1 if it is requests and otherwise 0. It must name one.
type Units map[string]int64

// Amount is a [Cost] or [Units].
type Amount interface {
	CallOption
	Reportable
	// text is the amount as the Redis protocol writes it.
	text() string
}

// checkAmount rejects units without a name, which the protocols read differently.
func checkAmount(amount Amount) error {
	if units, ok := amount.(Units); ok && len(units) == 0 {
		return &Error{Kind: ErrInvalid, Field: "cost", Message: `the cost names no unit; write for example Units{"tokens": 800}`}
	}
	return nil
}

func (c Cost) text() string { return strconv.FormatInt(int64(c), 10) }

func (u Units) text() string {
	names := make([]string, 0, len(u))
	for name := range u {
		names = append(names, name)
	}
	sort.Strings(names)
	parts := make([]string, 0, len(u))
	for _, name := range names {
		parts = append(parts, name+"="+strconv.FormatInt(u[name], 10))
	}
	return strings.Join(parts, ",")
}

// requests is the unit that stands for all where an amount is one number.
const requests = "requests"

// answeredAmount reads `cost` and `granted` of a decision: a number or a map.
type answeredAmount struct {
	number int64
	units  Units
}

func (a *answeredAmount) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '{' {
		var units map[string]count
		if err := json.Unmarshal(text, &units); err != nil {
			return err
		}
		a.units = make(Units, len(units))
		for name, amount := range units {
			a.units[name] = int64(amount)
		}
		a.number = a.units[requests]
		return nil
	}
	var number count
	err := json.Unmarshal(text, &number)
	a.number = int64(number)
	return err
}
