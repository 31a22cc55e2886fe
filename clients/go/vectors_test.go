package waterclock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
	"github.com/waterclock/waterclock/clients/go/internal/testserver"
)

// The cases of vectors.json, which all clients share. A field that this test
// does not know is an error, so that nothing is skipped.
type vectors struct {
	AdminToken string       `json:"admin_token"`
	CheckToken string       `json:"check_token"`
	Cases      []vectorCase `json:"cases"`
}

type vectorCase struct {
	Name       string   `json:"name"`
	Transports []string `json:"transports"`
	Steps      []step   `json:"steps"`
}

type step struct {
	Call string `json:"call"`
	charge
	WithinMS    int64          `json:"within_ms"`
	TTLMS       int64          `json:"ttl_ms"`
	ID          string         `json:"id"`
	OnExpiry    string         `json:"on_expiry"`
	Outcome     string         `json:"outcome"`
	Charges     []charge       `json:"charges"`
	Override    map[string]any `json:"override"`
	Definition  any            `json:"definition"`
	Reservation string         `json:"reservation"`
	As          string         `json:"as"`
	Repeat      int            `json:"repeat"`
	Anonymous   bool           `json:"anonymous"`
	Expect      map[string]any `json:"expect"`
	Error       string         `json:"error"`
}

type charge struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	Cost   any    `json:"cost"`
	Tier   string `json:"tier"`
	Factor any    `json:"factor"`
}

func readVectors(t *testing.T) vectors {
	decoder := json.NewDecoder(bytes.NewReader(readFile(t, testserver.InRepository("clients/vectors.json"))))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	var read vectors
	if err := decoder.Decode(&read); err != nil {
		t.Fatal(err)
	}
	if len(read.Cases) == 0 {
		t.Fatal("vectors.json has no cases")
	}
	return read
}

func TestVectors(t *testing.T) {
	read := readVectors(t)
	for _, transport := range transports {
		for _, one := range read.Cases {
			if one.Transports != nil && !contains(one.Transports, transport.name) {
				continue
			}
			t.Run(transport.name+"/"+one.Name, func(t *testing.T) {
				url := transport.url(startServer(t))
				run := vectorRun{
					known:        newClient(t, url, waterclock.WithToken(read.AdminToken)),
					anonymous:    newClient(t, url),
					reservations: map[string]*waterclock.Reservation{},
				}
				for i, step := range one.Steps {
					for n := 0; n < 1 || n < step.Repeat; n++ {
						if err := run.step(within(t, time.Minute), step); err != nil {
							t.Fatalf("step %d, %s: %v", i+1, step.Call, err)
						}
					}
				}
			})
		}
	}
}

type vectorRun struct {
	known, anonymous *waterclock.Client
	reservations     map[string]*waterclock.Reservation
}

var kinds = map[string]error{
	"invalid":      waterclock.ErrInvalid,
	"unauthorized": waterclock.ErrUnauthorized,
	"unavailable":  waterclock.ErrUnavailable,
}

// step makes one call and compares its result.
func (run *vectorRun) step(ctx context.Context, step step) error {
	result, err := run.call(ctx, step)
	if step.Error != "" {
		kind, ok := kinds[step.Error]
		if !ok {
			return fmt.Errorf("unknown error kind %q", step.Error)
		}
		if !errors.Is(err, kind) {
			return fmt.Errorf("got the error %v, expected one that is %s", err, step.Error)
		}
		return nil
	}
	if err != nil {
		return err
	}
	return compareFields(step.Expect, result)
}

// call makes one call; its result has the fields that a step may expect.
func (run *vectorRun) call(ctx context.Context, step step) (map[string]any, error) {
	client := run.known
	if step.Anonymous {
		client = run.anonymous
	}
	options, err := step.options()
	if err != nil {
		return nil, err
	}
	switch step.Call {
	case "check":
		return decided(client.Check(ctx, step.Policy, step.Key, options...))
	case "peek":
		return decided(client.Peek(ctx, step.Policy, step.Key, options...))
	case "refund":
		return decided(client.Refund(ctx, step.Policy, step.Key, options...))
	case "reset":
		return decided(client.Reset(ctx, step.Policy, step.Key))
	case "wait":
		limit := time.Duration(step.WithinMS) * time.Millisecond
		return decided(client.Wait(ctx, step.Policy, step.Key, limit, options...))
	case "report":
		if step.Outcome != "" {
			return decided(client.Report(ctx, step.Policy, step.Key, waterclock.Outcome(step.Outcome), options...))
		}
		return decided(client.Report(ctx, step.Policy, step.Key, options[0].(waterclock.Amount)))
	case "check_all":
		return run.checkAll(ctx, client, step.Charges)
	case "reserve":
		return run.reserve(ctx, client, step, options)
	case "commit":
		return done(run.reservations[step.Reservation].Commit(ctx, options[0].(waterclock.Amount)))
	case "cancel":
		return done(run.reservations[step.Reservation].Cancel(ctx))
	case "set_override":
		override, err := readOverride(step.Override)
		if err != nil {
			return nil, err
		}
		return done(client.SetOverride(ctx, step.Policy, step.Key, override))
	case "get_override":
		override, err := client.GetOverride(ctx, step.Policy, step.Key)
		if override == nil {
			return map[string]any{"value": nil}, err
		}
		return asValue(override, err)
	case "clear_override":
		return done(client.ClearOverride(ctx, step.Policy, step.Key))
	case "put_policy":
		return done(client.PutPolicy(ctx, step.Policy, step.Definition))
	case "get_policy":
		policy, err := client.GetPolicy(ctx, step.Policy)
		if policy == nil {
			return map[string]any{"value": nil}, err
		}
		return asValue(policy.Raw, err)
	case "delete_policy":
		deleted, err := client.DeletePolicy(ctx, step.Policy)
		return map[string]any{"ok": deleted}, err
	default:
		return nil, fmt.Errorf("unknown call %q", step.Call)
	}
}

func (run *vectorRun) checkAll(ctx context.Context, client *waterclock.Client, parts []charge) (map[string]any, error) {
	var charges []waterclock.Charge
	for _, part := range parts {
		options, err := part.options()
		if err != nil {
			return nil, err
		}
		charges = append(charges, waterclock.NewCharge(part.Policy, part.Key, options...))
	}
	batch, err := client.CheckAll(ctx, charges...)
	if err != nil {
		return nil, err
	}
	var decisions []any
	for _, decision := range batch.Decisions {
		decisions = append(decisions, fields(decision))
	}
	return map[string]any{"allowed": batch.Allowed, "decisions": decisions}, nil
}

func (run *vectorRun) reserve(ctx context.Context, client *waterclock.Client, step step, calls []waterclock.CallOption) (map[string]any, error) {
	var options []waterclock.ReserveOption
	for _, option := range calls {
		options = append(options, option)
	}
	if step.TTLMS != 0 {
		options = append(options, waterclock.TTL(time.Duration(step.TTLMS)*time.Millisecond))
	}
	if step.ID != "" {
		options = append(options, waterclock.ID(step.ID))
	}
	switch step.OnExpiry {
	case "":
	case "release":
		options = append(options, waterclock.Release)
	default:
		return nil, fmt.Errorf("unknown on_expiry %q", step.OnExpiry)
	}
	reservation, err := client.Reserve(ctx, step.Policy, step.Key, options...)
	if err != nil {
		return nil, err
	}
	result := fields(reservation.Decision)
	result["reservation"] = nil
	if reservation.ID != "" {
		result["reservation"] = true
	}
	run.reservations[step.As] = reservation
	return result, nil
}

// options are the call's options, its cost first.
func (c charge) options() ([]waterclock.CallOption, error) {
	var options []waterclock.CallOption
	switch cost := c.Cost.(type) {
	case nil:
	case json.Number:
		number, err := cost.Int64()
		if err != nil {
			return nil, err
		}
		options = append(options, waterclock.Cost(number))
	case map[string]any:
		units := waterclock.Units{}
		for name, amount := range cost {
			number, err := amount.(json.Number).Int64()
			if err != nil {
				return nil, err
			}
			units[name] = number
		}
		options = append(options, units)
	default:
		return nil, fmt.Errorf("unknown cost %v", cost)
	}
	if c.Tier != "" {
		options = append(options, waterclock.Tier(c.Tier))
	}
	if c.Factor != nil {
		options = append(options, waterclock.Factor(fmt.Sprint(c.Factor)))
	}
	return options, nil
}

func readOverride(read map[string]any) (waterclock.Override, error) {
	var override waterclock.Override
	for name, value := range read {
		switch name {
		case "limits":
			override.Limits = value.([]any)
		case "factor":
			override.Factor = waterclock.Factor(fmt.Sprint(value))
		case "tier":
			override.Tier = value.(string)
		case "block":
			override.Block = value.(bool)
		case "exempt":
			override.Exempt = value.(bool)
		case "expires_in":
			duration, err := time.ParseDuration(value.(string))
			if err != nil {
				return override, err
			}
			override.ExpiresIn = duration
		default:
			return override, fmt.Errorf("unknown field %q of an override", name)
		}
	}
	return override, nil
}

func done(err error) (map[string]any, error) { return map[string]any{"ok": err == nil}, err }

func decided(decision waterclock.Decision, err error) (map[string]any, error) {
	return fields(decision), err
}

// asValue is what GetOverride and GetPolicy return, as JSON has it.
func asValue(value any, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	read, err := plain(text)
	return map[string]any{"value": read}, err
}

// fields are those that a step may expect of a decision, as JSON would have them.
func fields(d waterclock.Decision) map[string]any {
	granted := any(number(d.Granted))
	if d.GrantedUnits != nil {
		units := map[string]any{}
		for name, amount := range d.GrantedUnits {
			units[name] = number(amount)
		}
		granted = units
	}
	result := map[string]any{
		"allowed":        d.Allowed,
		"granted":        granted,
		"limit":          orNull(d.Limit),
		"remaining":      orNull(d.Remaining),
		"retry_after_ms": milliseconds(d.RetryAfter),
		"next_unit_ms":   milliseconds(d.NextUnit),
		"next_same_ms":   milliseconds(d.NextSame),
		"reset_after_ms": milliseconds(d.ResetAfter),
		"refused_by":     texts(d.RefusedBy),
		"source":         d.Source,
		"policy":         d.Policy,
		"headers":        map[string]any{},
		"counter":        nil,
		"limit_info":     nil,
	}
	var names []string
	for _, limit := range d.Limits {
		names = append(names, limit.Name)
	}
	result["limits"] = texts(names)
	for name, value := range d.Headers {
		result["headers"].(map[string]any)[name] = value
	}
	if d.Counter != nil {
		result["counter"] = number(*d.Counter)
	}
	if d.LimitInfo != nil {
		result["limit_info"], _ = plain(d.LimitInfo)
	}
	return result
}

func number(n int64) json.Number { return json.Number(fmt.Sprint(n)) }

func orNull(n int64) any {
	if n == waterclock.Unbounded {
		return nil
	}
	return number(n)
}

func milliseconds(d time.Duration) any {
	if d == waterclock.Never {
		return nil
	}
	return number(int64((d + time.Millisecond - 1) / time.Millisecond))
}

func texts(list []string) []any {
	result := make([]any, len(list))
	for i, text := range list {
		result[i] = text
	}
	return result
}

// plain reads JSON without losing digits.
func plain(text []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// compareFields compares each field that is expected.
func compareFields(expected, got map[string]any) error {
	for name, want := range expected {
		value, ok := got[name]
		if !ok {
			return fmt.Errorf("there is no field %q in %v", name, got)
		}
		if err := compare(name, want, value); err != nil {
			return fmt.Errorf("%w (in %v)", err, got)
		}
	}
	return nil
}

func compare(name string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return compareFields(want, got)
		}
	case []any:
		if strings.HasSuffix(name, "_ms") {
			return compareRange(name, want, got)
		}
		if got, ok := got.([]any); ok && len(got) == len(want) {
			for i := range want {
				if err := compare(fmt.Sprintf("%s[%d]", name, i), want[i], got[i]); err != nil {
					return err
				}
			}
			return nil
		}
	case string:
		if pattern := strings.TrimPrefix(want, "~"); pattern != want {
			if text, ok := got.(string); ok && regexp.MustCompile(pattern).MatchString(text) {
				return nil
			}
		}
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%s is %v, expected %v", name, got, want)
	}
	return nil
}

func compareRange(name string, want []any, got any) error {
	least, most, value := want[0].(json.Number), want[1].(json.Number), fmt.Sprint(got)
	if a, b, n := integer(least.String()), integer(most.String()), integer(value); n < a || n > b {
		return fmt.Errorf("%s is %v, expected %v to %v", name, got, least, most)
	}
	return nil
}

func integer(text string) int64 {
	n, err := json.Number(text).Int64()
	if err != nil {
		return -1
	}
	return n
}

func contains(list []string, wanted string) bool {
	for _, one := range list {
		if one == wanted {
			return true
		}
	}
	return false
}
