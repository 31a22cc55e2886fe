package waterclock

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"
)

func TestDecisionsWithNumbersOfAnySize(t *testing.T) {
	decision, err := readDecision([]byte(`{"allowed":false,"limit":18446744073709551615,"remaining":null,"retry_after_us":1,
		"next_unit_us":9223372036854775807,"reset_after_us":null,"next_same_us":0,"new_field":{"x":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Decision{
		Limit: math.MaxInt64, Remaining: Unbounded, RetryAfter: time.Microsecond,
		NextUnit: math.MaxInt64, ResetAfter: Never, Raw: decision.Raw,
	}
	if !reflect.DeepEqual(decision, want) {
		t.Errorf("got %+v", decision)
	}
}

func TestWhatIsNoDecision(t *testing.T) {
	for _, text := range []string{``, `null`, `{}`, `[]`, `{"allowed":"yes"}`, `{"allowed":true,"limit":"5"}`, `{"allowed":true,"limit":1.5}`} {
		if decision, err := readDecision([]byte(text)); err == nil {
			t.Errorf("%s was read as %+v", text, decision)
		}
	}
}

func TestOverridesAsJSON(t *testing.T) {
	for _, one := range []struct {
		override Override
		sent     string
		answered string
	}{
		{Override{Limits: []any{"100/s"}}, `{"limits":["100/s"]}`, `{"limits":["100/s"]}`},
		{Override{Factor: "0.5", ExpiresIn: time.Second}, `{"expires_in":"1000000us","factor":"0.5"}`, `{"factor":0.5,"expires_in_us":1000000}`},
		{Override{Tier: "pro"}, `{"tier":"pro"}`, `{"tier":"pro"}`},
		{Override{Block: true}, `{"block":true}`, `{"block":true}`},
		{Override{Exempt: true}, `{"exempt":true}`, `{"exempt":true}`},
	} {
		sent, err := json.Marshal(one.override)
		if err != nil || string(sent) != one.sent {
			t.Errorf("%+v is sent as %s, error %v", one.override, sent, err)
		}
		var read Override
		if err := json.Unmarshal([]byte(one.answered), &read); err != nil || !reflect.DeepEqual(read, one.override) {
			t.Errorf("%s was read as %+v, error %v", one.answered, read, err)
		}
	}
}

// JSON would change a key that is not UTF-8, and two keys might become one.
func TestOverHTTPKeysAreUTF8(t *testing.T) {
	_, err := newCheckJSON(question{key: "caf\xe9"})
	var failure *Error
	if !errors.Is(err, ErrInvalid) || !errors.As(err, &failure) || failure.Field != "key" {
		t.Errorf("got the error %v", err)
	}
}

func TestTimesAreNeverRoundedDown(t *testing.T) {
	for duration, want := range map[time.Duration]string{0: "0us", 1: "1us", 1000: "1us", 1001: "2us", time.Second: "1000000us"} {
		if got := microseconds(duration); got != want {
			t.Errorf("%v is sent as %s", duration, got)
		}
	}
}

func TestCommands(t *testing.T) {
	for _, one := range []struct {
		verb verb
		ask  question
		want []string
	}{
		{verbCheck, question{}, []string{"RL.CHECK", "p", "k", "JSON"}},
		{verbPeek, question{cost: Cost(0), tier: "pro"}, []string{"RL.PEEK", "p", "k", "0", "TIER", "pro", "JSON"}},
		{verbRefund, question{}, []string{"RL.REFUND", "p", "k", "1", "JSON"}},
		{verbReset, question{}, []string{"RL.RESET", "p", "k", "JSON"}},
		{verbReport, question{outcome: Failed}, []string{"RL.REPORT", "p", "k", "error", "JSON"}},
		{verbReport, question{cost: Units{"tokens": 5, "requests": 1}}, []string{"RL.REPORT", "p", "k", "requests=1,tokens=5", "JSON"}},
		{verbWait, question{within: 1999 * time.Microsecond, factor: "0.5"}, []string{"RL.WAIT", "p", "k", "1", "1", "FACTOR", "0.5", "JSON"}},
		{verbReserve, question{}, []string{"RL.RESERVE", "p", "k", "1", "60000", "JSON"}},
		{verbReserve, question{ttl: 1001 * time.Microsecond, id: "x", release: true},
			[]string{"RL.RESERVE", "p", "k", "1", "2", "ID", "x", "RELEASE", "JSON"}},
	} {
		one.ask.policy, one.ask.key = "p", "k"
		if got := decisionCommand(one.verb, one.ask); !reflect.DeepEqual(got, one.want) {
			t.Errorf("got %q, expected %q", got, one.want)
		}
	}
}
